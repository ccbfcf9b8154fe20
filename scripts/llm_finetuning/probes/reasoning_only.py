"""The right answer inside the reasoning alone: a thought is no answer.

It blocks where thoughts in tags are to be expected; of a model that never writes them it is only said.
"""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import THOUGHT


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield a thought with the answer in it: closed with nothing after, unclosed, and with a wrong final after it."""
    if not case.gold.answer or not case.prompt.wrong:
        return
    head = "" if case.prompt.opened else "<think>"
    inner = _without_thought(case, case.gold.answer)
    wrong = _without_thought(case, case.other)
    for text, about in (
        (f"{head}{THOUGHT}\n{inner}\n</think>", "a thought with the answer, and nothing after it"),
        (f"{head}{THOUGHT}\n{inner}", "a thought with the answer that never ends"),
        (f"{head}{THOUGHT}\n{inner}\n</think>\n{wrong}", "the right answer in the thought, a wrong one after it"),
        (f"{head}{THOUGHT}\n{inner}\n</think>\nI do not know.", "the right answer in the thought, none after it"),
    ):
        yield Attempt(text=text, about=about, weighs="blocks" if case.reasons else "warns")


def _without_thought(case: Case, answer: str) -> str:
    return case.write(answer).rpartition("</think>")[2].strip()
