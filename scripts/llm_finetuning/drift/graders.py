r"""How an item's answer is graded: seven readings of a reply, each decided by a reward of the library where one fits.

Items about content are read tolerantly: a marked final answer (`\boxed`, `<answer>`, `The answer is`) counts like a
bare one, and so does a short sentence that holds the answer and none of the item's wrong ones. Items about form are
read strictly: the whole reply has to be what was asked for. No reply makes a grader raise.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from llm_finetuning.drift.phrasing import Wanted, is_number, is_option, listed, number_in, says, says_list, words
from llm_finetuning.drift.readings import reply
from llm_finetuning.rewards.choice_answer import ChoiceAnswer
from llm_finetuning.rewards.choices import letter_of
from llm_finetuning.rewards.contract import Judgement, LogExtra, report
from llm_finetuning.rewards.exact_answer import ExactAnswer
from llm_finetuning.rewards.extraction import extract
from llm_finetuning.rewards.format_pattern import FormatPattern
from llm_finetuning.rewards.json_schema import JsonSchema
from llm_finetuning.types import Text

_RIGHT, _WRONG = Judgement(1.0, "correct"), Judgement(0.0, "wrong")

_MARKS_IN_DOUBT = frozenset({"unclosed", "conflicting", "unclear", "negated"})


class DriftGrade:
    """Pays 1.0 for a right answer to an item of the suite, 0.0 for another or none; abstains on a row that is no item.

    Columns: `grader`, one of `GRADERS`; `expected`, whose form the grader says; `options`, the texts of a choice or
    None. Whether a prompt is chat or text decides how a completion is read; `readings` says how.
    """

    range = (0.0, 1.0)

    def __init__(self) -> None:
        """Take no options: the suite is frozen."""
        self.__name__ = "drift"

    def __call__(
        self,
        *,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        grader: Sequence[str],
        expected: Sequence[Any],
        options: Sequence[Sequence[str] | None],
        log_extra: LogExtra | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return one value a completion, in order."""
        cells = zip(prompts, completions, grader, expected, options, strict=True)
        return report(log_extra, self.__name__, [_judge(*cell) for cell in cells])


def _judge(prompt: Text, completion: Text, grader: str, expected: Any, options: Sequence[str] | None) -> Judgement:
    if grader not in GRADERS or expected is None:
        return Judgement(None, "no_item")
    text = reply(prompt, completion)
    if text is None:
        return Judgement(0.0, "reasoning_unclosed")
    if not text:
        return Judgement(0.0, "empty")
    if grader in _SEVERAL and _SEVERAL[grader](text.splitlines(), expected):
        return Judgement(0.0, "several")
    # A base model explains or rambles on the next line.
    read = _first_line(text) if isinstance(prompt, str) and grader in _SEVERAL else text
    return GRADERS[grader](read, expected, options)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _marked(text: str) -> tuple[str, Judgement | None]:
    """Return the part of a reply that holds its final answer, all of it without a mark, or why it cannot be graded."""
    found = extract("final", text)
    if found.reason in _MARKS_IN_DOUBT:
        return "", Judgement(0.0, found.reason)
    return (found.answer if found.answer is not None else text), None


def _number(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: a number in digits. The one final number counts, whatever unit follows; several in a row do not."""
    segment, doubt = _marked(text)
    if doubt is not None:
        return doubt
    said = number_in(segment)
    if said is None:
        return Judgement(0.0, "no_number")
    (value,) = ExactAnswer(extract="whole")(completions=[said], answer=[expected])
    return _RIGHT if value == 1.0 else _WRONG


def _text(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: `accept` and `reject`, the answers that are right and those that a sentence must not hold too."""
    segment, doubt = _marked(text)
    if doubt is not None:
        return doubt
    wanted = Wanted(tuple(expected["accept"]), tuple(expected["reject"]))
    parts = (text, _first_line(text)) if segment == text else (segment,)
    return _RIGHT if any(says(part, wanted) for part in parts) else _WRONG


def _choice(text: str, expected: Any, options: Sequence[str] | None) -> Judgement:
    """`expected`: the letter of an option. Its letter or its text counts, alone or in a short sentence."""
    named = ChoiceAnswer(choices_column="options", letters="ABCD")
    for part in dict.fromkeys((text, _first_line(text))):
        said: dict[str, list[str]] = {}
        (value,) = named(completions=[part], answer=[expected], options=[options], log_extra=said.__setitem__)
        if said[f"{named.__name__}_reason"][0] not in ("no_answer", "no_choice"):
            return _RIGHT if value == 1.0 else _WRONG
    if letter_of(_first_line(text)) is not None:
        return Judgement(0.0, "no_choice")  # a letter with another option's text says two things
    own = (options or [])["ABCD".index(expected)]
    others = tuple(option for option in options or [] if option != own)
    return _RIGHT if says(_first_line(text), Wanted((own,), others)) else Judgement(0.0, "no_choice")


def _list(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: the elements in order. Commas or lines, brackets, quotes and numbering do not matter."""
    segment, doubt = _marked(text)
    if doubt is not None:
        return doubt
    wanted = listed(", ".join(expected))
    return _RIGHT if says_list(segment, wanted) or says_list(text, wanted) else _WRONG


def _pattern(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: the pattern that the whole reply matches."""
    (value,) = _matcher(expected)(completions=[text])
    return _RIGHT if value == 1.0 else Judgement(0.0, "no_match")


def _json(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: the JSON Schema of the one document that the reply is; a code fence around it is allowed."""
    return _document(text, expected, "whole")


def _json_block(text: str, expected: Any, _: Sequence[str] | None) -> Judgement:
    """`expected`: the JSON Schema of the document in the reply's last code block, or of a reply that is one document.

    What is said around the block does not matter.
    """
    alone = _document(text, expected, "whole")
    return alone if alone == _RIGHT else _document(text, expected, "last_fence")


def _document(text: str, expected: Any, policy: str) -> Judgement:
    (value,) = _schema(json.dumps(expected, sort_keys=True), policy)(completions=[text])
    return _RIGHT if value == 1.0 else Judgement(0.0, "invalid")


@cache
def _matcher(pattern: str) -> FormatPattern:
    return FormatPattern(pattern=pattern)


@cache
def _schema(schema: str, policy: str) -> JsonSchema:
    return JsonSchema(schema=schema, extract=policy)


_SEVERAL: Mapping[str, Callable[[Sequence[str], Any], bool]] = {
    "number": lambda lines, _: sum(map(is_number, lines)) > 1,
    "text": lambda lines, expected: (
        len(lines) > 1 and not set(map(words, expected["reject"])).isdisjoint(map(words, lines))
    ),
    "choice": lambda lines, _: sum(map(is_option, lines)) > 1,
}
"""Replies line by line that give several answers to a question with one; also those about content, of one line."""

GRADERS: Mapping[str, Callable[[str, Any, Sequence[str] | None], Judgement]] = {
    "number": _number,
    "text": _text,
    "choice": _choice,
    "list": _list,
    "pattern": _pattern,
    "json": _json,
    "json_block": _json_block,
}
