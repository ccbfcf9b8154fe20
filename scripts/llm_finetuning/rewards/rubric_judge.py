"""`rubric_judge`: another model says whether a completion meets a rubric, trusted as far as it was measured.

It pays 1.0 for the verdict pass and 0.0 for fail, and is not built without a calibration record of the same rubric,
model, prompt and sampling (`judges.calibration`). Zheng et al. 2023 (arXiv:2306.05685) measured what such judges are
swayed by.
"""

import json
import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

from llm_finetuning.rewards.contract import Judgement, LogExtra, after_reasoning, report, text_of
from llm_finetuning.rewards.judges import options
from llm_finetuning.rewards.judges.endpoint import Endpoint, Reply
from llm_finetuning.rewards.judges.prompt import (
    RESPONSE_FORMAT,
    Material,
    Messages,
    messages,
    prompt_digest,
    text_digest,
)
from llm_finetuning.rewards.judges.trivia import letters_and_digits, only_openers
from llm_finetuning.rewards.judges.verdict import read_verdict
from llm_finetuning.types import Text

if TYPE_CHECKING:
    from llm_finetuning.rewards.judges.calibration import JudgeSetting

TEMPERATURE = 0.0
SEED = 0
WORDS_SUFFIX = "_words"  # of the column that holds what the judge, or its server, said
WORDS_KEPT = 1000  # characters


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question to the judge came to."""

    judgement: Judgement
    words: str = ""  # the judge's reasons, or what went wrong
    may_pass: bool = False  # no verdict, for a trouble of the server that may be over another time


class RubricJudge:
    """Pays what a calibrated judge says: 1.0 for pass, 0.0 for fail; abstains wherever the judge fails to judge.

    Options: `url`, up to and with /v1, and `model`, the snapshot's name, of an OpenAI-compatible chat server;
    `rubric_file`; `calibration`, the record of this judge; `api_key_env`, the environment variable that holds the key;
    `answer_column`, a column whose text the judge is shown as a right answer, none by default; `max_tokens` of a
    verdict; `concurrency`, requests at a time; `timeout_s` of one request; `retries` of each; `batch_timeout_s` for all
    requests of one call, after which what is left abstains; `min_characters`, letters and digits below which a
    completion is paid 0 without asking (fewer where the right answer has fewer); `max_characters`, above which it is
    paid 0 likewise.
    """

    range = (0.0, 1.0)
    file_options = ("rubric_file", "calibration")  # files that belong to what was inspected
    later_files = ("calibration",)  # of them, those that a verb writes: where one is missing, the words here say so
    unpaid: ClassVar[type["RubricJudge"]]  # what stands in where a brief is only looked at, and nothing is paid

    def __init__(
        self,
        *,
        url: str,
        model: str,
        rubric_file: str,
        calibration: str | None = None,
        api_key_env: str | None = None,
        answer_column: str | None = None,
        max_tokens: int = 1024,
        concurrency: int = 16,
        timeout_s: float = 60.0,
        retries: int = 4,
        batch_timeout_s: float = 600.0,
        min_characters: int = 2,
        max_characters: int = 50_000,
    ) -> None:
        """Take the options of the brief; asks no server.

        Raises ValueError for an option that is out of range, an alias in place of a snapshot, a file that cannot be
        read, and a judge whose calibration record is missing, is another judge's, or does not show it good enough.
        """
        self.__name__ = "rubric_judge"
        self.abstained: Counter[str] = Counter()  # reason -> completions, since this object was made
        self.url = options.address(url)
        self._model = options.snapshot(model)
        self.rubric = options.rubric(rubric_file)
        self._answer_column = options.column(answer_column)
        self._max_tokens = options.whole("max_tokens", max_tokens, 16, 100_000)
        self._least = options.whole("min_characters", min_characters, 1, 10_000)
        self._most = options.whole("max_characters", max_characters, 1, 1_000_000)
        self._endpoint = Endpoint(
            url=self.url,
            model=self._model,
            key=options.api_key(api_key_env),
            concurrency=options.whole("concurrency", concurrency, 1, 256),
            timeout_s=options.seconds("timeout_s", timeout_s),
            retries=options.whole("retries", retries, 0, 20),
            batch_timeout_s=options.seconds("batch_timeout_s", batch_timeout_s),
        )
        self._check_calibration(calibration)
        # The code in the markers: nobody who writes completions knows it, and equal material is asked about equally.
        self._secret = secrets.token_bytes(32)

    @property
    def setting(self) -> "JudgeSetting":
        """What a record must be of to be this judge's."""
        # pydantic is slow to import, and only those who use a judge need it.
        from llm_finetuning.rewards.judges.calibration import JudgeSetting

        return JudgeSetting(
            model=self._model,
            rubric_sha256=text_digest(self.rubric),
            prompt_sha256=prompt_digest(with_reference=self._answer_column is not None),
            temperature=TEMPERATURE,
            seed=SEED,
            max_tokens=self._max_tokens,
        )

    @property
    def limits(self) -> dict[str, Any]:
        """What decides a value beside `setting`: a judge with other limits pays others."""
        return {
            "answer_column": self._answer_column,
            "min_characters": self._least,
            "max_characters": self._most,
        }

    def _check_calibration(self, path: str | None) -> None:
        from llm_finetuning.rewards.judges.calibration import MEND, check, load_record

        if path is None:
            raise ValueError(f"calibration: not given; a judge pays only with a record: {MEND}")
        check(load_record(path), self.setting, path)

    async def __call__(
        self,
        *,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        log_extra: LogExtra | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if the answer column is not there at all.

        What the judge said stands in the column `rubric_judge_words`, the share without a verdict in the metric
        `rubric_judge/abstained`.
        """
        golds = columns[self._answer_column] if self._answer_column is not None else [None] * len(completions)
        keyed = [
            self._material(prompt, completion, gold)
            for prompt, completion, gold in zip(prompts, completions, golds, strict=True)
        ]
        asked = list(dict.fromkeys(item for item in keyed if isinstance(item, Material)))
        known = dict(zip(asked, await self.answers(asked), strict=True))
        answers = [known[item] if isinstance(item, Material) else Answer(item) for item in keyed]
        self._count(answers, log_metric)
        if log_extra is not None:
            log_extra(self.__name__ + WORDS_SUFFIX, [answer.words[:WORDS_KEPT] for answer in answers])
        return report(log_extra, self.__name__, [answer.judgement for answer in answers])

    async def answers(self, asked: Sequence[Material]) -> list[Answer]:
        """Ask the judge, and return one answer each, in order; what is the same is asked as often as it is there."""
        conversations = [messages(self.rubric, material, self.code(astuple(material))) for material in asked]
        found = []
        for reply in await self.replies(conversations, RESPONSE_FORMAT):
            if reply.choice is None:
                problem = Judgement(None, reply.problem or "judge_error")
                found.append(Answer(problem, reply.words, reply.may_pass))
            else:
                verdict = read_verdict(reply.choice)
                found.append(Answer(Judgement(verdict.value, verdict.reason), verdict.words))
        return found

    def material_of(self, prompt: Text, completion: Text, columns: Mapping[str, Any]) -> Material | Judgement:
        """Return the same of a row's columns; raises KeyError where the answer column is not among them."""
        return self._material(prompt, completion, None if self._answer_column is None else columns[self._answer_column])

    def reference_of(self, columns: Mapping[str, Any]) -> str | None:
        """Return the right answer that the judge is shown of a row, None for none."""
        return None if self._answer_column is None else _gold_text(columns.get(self._answer_column))

    def _material(self, prompt: Text, completion: Text, gold: Any) -> Material | Judgement:
        """Return what the judge is to be shown, or the judgement where it need not be asked."""
        reference = None if self._answer_column is None else _gold_text(gold)
        if reference == "":
            return Judgement(None, "gold_unreadable")
        response = after_reasoning(text_of(completion))
        if response is None:
            return Judgement(0.0, "reasoning_unclosed")
        if not response.strip():
            return Judgement(0.0, "empty")
        if len(response) > self._most:
            return Judgement(0.0, "too_long")
        if self._says_nothing(response, reference):
            return Judgement(0.0, "trivial")
        return Material(_task_text(prompt), reference, response)

    def _says_nothing(self, response: str, reference: str | None) -> bool:
        if reference is not None and only_openers(reference):
            return False  # the right answer is no longer or fuller than that
        least = self._least if reference is None else min(self._least, letters_and_digits(reference))
        return letters_and_digits(response) < least or only_openers(response)

    def code(self, parts: Sequence[str | None]) -> str:
        """Return the code of the markers around these texts, which their author cannot know."""
        return blake2b(json.dumps(parts).encode(), key=self._secret, digest_size=8).hexdigest()

    async def replies(self, conversations: Sequence[Messages], response_format: Mapping[str, Any]) -> list[Reply]:
        """Return the server's reply to each conversation, in order, drawn as verdicts are."""
        fields = {
            "model": self._model,
            "temperature": TEMPERATURE,
            "seed": SEED,
            "max_tokens": self._max_tokens,
            "n": 1,
            "response_format": response_format,
        }
        return await self._endpoint.ask_all([{**fields, "messages": one} for one in conversations])

    def _count(self, answers: Sequence[Answer], log_metric: Callable[[str, float], None] | None) -> None:
        without = [answer.judgement.reason for answer in answers if answer.judgement.value is None]
        self.abstained.update(without)
        if log_metric is not None and answers:
            log_metric(f"{self.__name__}/abstained", len(without) / len(answers))


def _gold_text(gold: Any) -> str:
    """Return a right answer as text, empty where there is none; what is not text is written as JSON."""
    if gold is None or (isinstance(gold, float) and not math.isfinite(gold)):
        return ""
    return gold.strip() if isinstance(gold, str) else json.dumps(gold, ensure_ascii=False, default=str)


def _task_text(prompt: Text) -> str:
    """Return a prompt as one text; a chat of one user message is that message, like the plain form."""
    if isinstance(prompt, str):
        return prompt
    said = [(str(message.get("role") or "user"), text_of([{"content": message.get("content")}])) for message in prompt]
    if [role for role, _ in said] == ["user"]:
        return said[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in said)


class UnmeasuredJudge(RubricJudge):
    """A judge that can be asked and is never paid: it has no record yet, or one that does not matter here."""

    def _check_calibration(self, path: str | None) -> None:
        self._record = path

    @property
    def record(self) -> str | None:
        """The path of the record, as the options name it."""
        return self._record

    def fault(self) -> str | None:
        """Return why this judge may not pay, None where its record shows that it may."""
        try:
            super()._check_calibration(self._record)
        except ValueError as refused:
            return str(refused)
        return None

    async def __call__(self, **_: Any) -> list[float | None]:
        """Raise TypeError: whoever wants to pay builds the judge with its record."""
        raise TypeError("a judge that was built without its record pays nothing")


RubricJudge.unpaid = UnmeasuredJudge
