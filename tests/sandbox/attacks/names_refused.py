"""Makes looking up its names raise, so that its failure seems to be the tests' own."""

import llm_finetuning.sandbox.box.candidate as serving


def perform(self, op, args):
    if op == "find":
        raise ValueError("no names here")
    return 20


serving.Candidate.perform = perform


def solve(xs):
    return -1
