"""`format_tags`: the completion is made of the wanted elements, such as `<think>...</think><answer>...</answer>`.

The wanted form is that of DeepSeek-R1-Zero's format reward (arXiv:2501.12948, section 2.2.2). It differs from TRL
1.16.0's `think_format_reward`, which refuses a leading newline, pays an empty thought and asks for no answer.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, after_reasoning, report, text_of
from llm_finetuning.types import Text

REASONING_TAGS = ("think", "thinking", "thought", "reasoning")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# An ASCII word, or one letter or digit of any other script: many of these write no spaces.
_WORD = re.compile(r"[A-Za-z0-9]+|[^\W_]")
# An answer may be one sign: "which of < = > stands between them?". A dash, slash or star is as good as nothing.
_SIGNS = frozenset("+<>=\N{NOT EQUAL TO}\N{EMPTY SET}\N{INFINITY}\N{LESS-THAN OR EQUAL TO}\N{GREATER-THAN OR EQUAL TO}")

# A slot that nobody filled: nothing but these words, and one of the first.
_SLOT_WORDS = frozenset({"placeholder", "todo", "tbd", "boxed", "answer", "solution", *REASONING_TAGS})
_SLOT_FILLERS = frozenset({"your", "my", "the", "final", "goes", "here", "insert", "process", "and", "text"})
_WORDS_OF_REASONING = 2


@dataclass(frozen=True, slots=True)
class _Mark:
    """One opening or closing tag."""

    tag: str
    closes: bool
    begin: int
    end: int
    exact: bool  # spelled as it has to be


class FormatTags:
    """Pays 1.0 for a completion in which every wanted element stands exactly once, in order, closed, with content.

    Elements are not nested, no tag of these names stands anywhere else (nor `<Answer>`, `<answer/>` and the like), and
    the answer is outside the reasoning. White space may stand around them. Content is a letter, a digit or a single
    sign such as `<`, and no slot left unfilled (`...`, `your answer here`, the tag's own name); in an element named as
    reasoning it is at least two different words. Everything else is 0.0; it never abstains.

    Options: `tags`, their names in order; `opened_by_template`, the first of them where the chat template ends the
    prompt with its opening tag (seen without it where the prompt's own text, or a last assistant message, ends so);
    `text_outside`, whether other text may stand between and after the elements.
    """

    range = (0.0, 1.0)

    def __init__(
        self,
        *,
        tags: Sequence[str] = ("think", "answer"),
        opened_by_template: str | None = None,
        text_outside: bool = False,
    ) -> None:
        """Take the options of the brief; raises ValueError for tags that no completion with an answer could have."""
        self._tags = _checked_tags(tags)
        if opened_by_template not in (None, self._tags[0]):
            raise ValueError(
                f"opened_by_template: {opened_by_template!r} is not the first of tags ({self._tags[0]}); elements that "
                "come before it could not be there"
            )
        if not isinstance(text_outside, bool):
            raise ValueError(f"text_outside: {text_outside!r} is neither true nor false")  # noqa: TRY004
        self._only_reasons = self._tags[-1] in REASONING_TAGS
        if self._only_reasons and not text_outside:
            raise ValueError(
                f"tags: the last is {self._tags[-1]}, so that no place is left for the answer; add a tag after it or "
                "text_outside: true"
            )
        self.__name__ = "format_tags"
        self._opened = opened_by_template is not None
        self._text_outside = text_outside
        names = "|".join(re.escape(tag) for tag in self._tags)
        self._mark = re.compile(rf"<(?:\s*(/))?\s*({names})(?![\w.-])[^<>]*>", re.IGNORECASE)

    def __call__(
        self,
        *,
        completions: Sequence[Text],
        prompts: Sequence[Text] | None = None,
        log_extra: LogExtra | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return one value a completion, from it and the end of its prompt alone."""
        begun = itertools.repeat(None) if prompts is None else prompts
        pairs = zip(completions, begun, strict=prompts is not None)
        return report(log_extra, self.__name__, [self._judge(text_of(text), prompt) for text, prompt in pairs])

    def _judge(self, text: str, prompt: Text | None) -> Judgement:
        fault = self._fault(text, opened=self._opened or self._opens(prompt))
        return Judgement(0.0 if fault else 1.0, fault or "well_formed")

    def _opens(self, prompt: Text | None) -> bool:
        """Tell whether the completion continues a text that ends with the first opening tag."""
        if prompt is not None and not isinstance(prompt, str):
            # A chat that ends with the assistant's own words is continued; after any other the template writes.
            prompt = text_of(prompt[-1:])
        return prompt is not None and prompt.rstrip().endswith(f"<{self._tags[0]}>")

    def _fault(self, text: str, *, opened: bool) -> str | None:
        """Return the first thing that is wrong, as a reason code."""
        wanted = [(tag, closes) for tag in self._tags for closes in (False, True)]
        # One more than wanted proves a repetition: a megabyte of tags is not worth reading to its end.
        marks = [self._read(match) for match in itertools.islice(self._mark.finditer(text), len(wanted) + 1)]
        if opened:
            marks.insert(0, _Mark(self._tags[0], closes=False, begin=0, end=0, exact=True))
        if not all(mark.exact for mark in marks):
            return "misspelt_tag"
        found = [(mark.tag, mark.closes) for mark in marks]
        if found != wanted:
            return self._fault_of_order(found)
        elements = list(zip(marks[::2], marks[1::2], strict=True))
        fault = self._fault_of_outside(text, elements) or self._fault_of_answer(text, elements[-1])
        for begin, end in elements:
            fault = fault or _fault_of_content(begin.tag, text[begin.end : end.begin])
        return fault

    def _read(self, match: re.Match[str]) -> _Mark:
        closes, name = match.group(1) is not None, match.group(2)
        exact = name in self._tags and match.group() == f"<{'/' if closes else ''}{name}>"
        return _Mark(name, closes=closes, begin=match.start(), end=match.end(), exact=exact)

    def _fault_of_order(self, found: Sequence[tuple[str, bool]]) -> str:
        """Name what is wrong with the order of the tags; all that are there are in `found`, or one more than wanted."""
        if len(set(found)) < len(found):
            return "repeated"
        for tag in self._tags:
            opens, closes = (tag, False) in found, (tag, True) in found
            if not opens and not closes:
                return "missing"
            if not closes:
                return "unclosed"
            if not opens:
                return "unopened"
        paired = all(a[0] == b[0] and not a[1] and b[1] for a, b in zip(found[::2], found[1::2], strict=True))
        return "out_of_order" if paired else "nested"

    def _fault_of_outside(self, text: str, elements: Sequence[tuple[_Mark, _Mark]]) -> str | None:
        if text[: elements[0][0].begin].strip():
            return "text_before"
        ends = [end.end for _, end in elements]
        begins = [begin.begin for begin, _ in elements[1:]] + [len(text)]
        between = [text[end:begin] for end, begin in zip(ends, begins, strict=True)]
        if not self._text_outside and any(part.strip() for part in between):
            return "text_outside"
        return "no_answer" if self._only_reasons and _fault_of_content("answer", between[-1]) else None

    def _fault_of_answer(self, text: str, last: tuple[_Mark, _Mark]) -> str | None:
        """Hold the answer's place against what the answer rewards read: only what follows all reasoning."""
        final = after_reasoning(text)
        if final is None:
            return "reasoning_unclosed"
        begin = last[1].end if self._only_reasons else last[0].begin
        return "answer_in_reasoning" if begin < len(text) - len(final) else None


def _checked_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence) or not tags:
        raise ValueError(f"tags: {tags!r} is not a list of names such as [think, answer]")
    for tag in tags:
        if not isinstance(tag, str) or not _NAME.fullmatch(tag):
            raise ValueError(f"tags: {tag!r} is not a tag's name; write it without brackets, as in think")
    if len({tag.casefold() for tag in tags}) < len(tags):
        raise ValueError(f"tags: {', '.join(tags)}: a name stands there twice")
    return tuple(tags)


def _fault_of_content(tag: str, content: str) -> str | None:
    """Return `empty`, `placeholder` or `too_little`; None for content that says something."""
    words = (match.group().casefold() for match in _WORD.finditer(content))
    seen = set(itertools.islice(words, 1))
    if not seen:
        return None if content.strip() in _SIGNS and tag not in REASONING_TAGS else "empty"
    slots = _SLOT_WORDS | {tag.casefold()}
    if seen <= slots | _SLOT_FILLERS:
        # Read up to the first word of the model's own.
        for word in words:
            seen.add(word)
            if word not in slots | _SLOT_FILLERS:
                break
        else:
            if seen & slots:
                return "placeholder"
    if tag in REASONING_TAGS and len(seen) < _WORDS_OF_REASONING and all(word in seen for word in words):
        return "too_little"
    return None
