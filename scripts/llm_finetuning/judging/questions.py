"""Asking a judge what it was not asked before, as the reward asks, and keeping every answer as soon as it is given."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.judging.attacks import Work
from llm_finetuning.rewards.judges.prompt import Material, text_digest
from llm_finetuning.rewards.rubric_judge import WORDS_KEPT, Answer, RubricJudge
from llm_finetuning.types import JudgeVerdict

AT_ONCE = 64  # questions between two writes to the disk

_SERVERS = ("judge_error", "judge_unreachable", "judge_timeout")
"""Reasons of an abstention that come from the server, not from the model behind it."""


class Questions:
    """One judge, and what it has answered already."""

    def __init__(
        self,
        judge: RubricJudge,
        judge_digest: str,
        known: Iterable[JudgeVerdict],
        keep: Callable[[Sequence[JudgeVerdict]], None],
    ) -> None:
        """Take the verdicts that are known of any judge; `keep` returns once others are on the disk."""
        self._judge = judge
        self._digest = judge_digest
        self._known = {verdict.question: verdict for verdict in known if verdict.judge == judge_digest}
        self._keep = keep

    def answers(self, works: Sequence[Work], on_progress: Callable[[int], None] = lambda _: None) -> list[JudgeVerdict]:
        """Return what the reward would pay for each, and why, in order.

        Raises MachineryFailure where the server fails, with what it answered before kept; KeyError where the answer
        column is not there.
        """
        materials = [self._judge.material_of(work.prompt, work.completion, work.columns) for work in works]
        wanted = {question_of(one): one for one in materials if isinstance(one, Material)}
        missing = [(question, one) for question, one in wanted.items() if question not in self._known]
        for begin in range(0, len(missing), AT_ONCE):
            part = missing[begin : begin + AT_ONCE]
            self._ask(part, len(missing) - begin)
            on_progress(len(part))
        return [
            self._known[question_of(one)]
            if isinstance(one, Material)
            else JudgeVerdict(judge=self._digest, question="", value=one.value, reason=one.reason, words="")
            for one in materials
        ]

    def _ask(self, part: Sequence[tuple[str, Material]], left: int) -> None:
        answers = asyncio.run(self._judge.answers([material for _, material in part]))
        given = [(question, answer) for (question, _), answer in zip(part, answers, strict=True) if not answer.may_pass]
        if not self._known and all(answer.judgement.reason in _SERVERS for _, answer in given):
            given = []  # no model has answered yet: what the server refuses is not this question alone
        verdicts = [self._verdict(question, answer) for question, answer in given]
        if verdicts:
            self._keep(verdicts)
            self._known.update({verdict.question: verdict for verdict in verdicts})
        if len(verdicts) < len(part):
            said = next(answer for answer in answers if answer.judgement.reason in _SERVERS)
            raise MachineryFailure(
                f"{self._judge.url}: the judge's server fails on {len(part) - len(verdicts)} of {len(part)} questions, "
                f"{left - len(verdicts)} are still to be asked ({said.judgement.reason}: {said.words}); mend or start "
                "it and run the same command again: answers that were given are kept"
            )

    def _verdict(self, question: str, answer: Answer) -> JudgeVerdict:
        judgement = answer.judgement
        return JudgeVerdict(
            judge=self._digest,
            question=question,
            value=judgement.value,
            reason=judgement.reason,
            words=answer.words[:WORDS_KEPT],
        )


def question_of(material: Material) -> str:
    """Return the digest of what one verdict is about."""
    return text_digest(json.dumps([material.task, material.reference, material.response]))
