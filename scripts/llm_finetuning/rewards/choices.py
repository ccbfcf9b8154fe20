"""Multiple-choice letters: read the one letter an answer names, refuse hedges and ordinary words."""

import functools
import re
from dataclasses import dataclass

from llm_finetuning.rewards.maths import words
from llm_finetuning.rewards.maths.nodes import UnreadableError
from llm_finetuning.rewards.maths.notation import clean

_LETTER = r"(?P<letter>[A-J])"
_NOUN = r"(?i:(?:the\s+)?(?:(?:final|correct|right|best)\s+)?(?:option|choice|answer)(?:\s+is\b)?\s*:?)\s*"
_ALONE = re.compile(rf"(?:{_NOUN})?\s*[(\[]?\s*{_LETTER}\s*[)\]]?\s*[.:]?", re.IGNORECASE)
_WITH_TEXT = re.compile(
    rf"(?:{_NOUN})?(?:[(\[]\s*{_LETTER}\s*[)\]]|(?P<plain>[A-J])\s*(?:[.):]|\s-\s|\s\N{{EN DASH}}\s))\s*(?P<text>\S.*)|(?:{_NOUN})?(?P<before>[A-J])\s*\((?P<beside>[^()]*)\)",  # noqa: E501  a pattern, whole on a line
    re.DOTALL,
)
_OTHER = re.compile(r"(?:\bor\b|\band\b|[,/&+;])\s*(?:option\s+|choice\s+)?[(\[]?\s*[A-J]\s*[)\]]?(?![A-Za-z'])")
_IS_RIGHT = re.compile(
    rf"(?:option|choice|answer)?\s*[(\[]?{_LETTER}[)\]]?\s+is\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice|one))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A letter and the option's text where it is written beside it."""

    letter: str
    text: str


@functools.lru_cache(maxsize=4096)
def read_choice(gold: str) -> Choice | None:
    """Return the choice that a gold is, `B`, `(B)` or `(B) 24`; None for a gold of another type."""
    try:
        text = words.plain_text(clean(gold))
    except UnreadableError:
        return None
    alone = re.fullmatch(r"[(\[]?\s*([A-J])\s*[)\]]?\.?", text)
    if alone:
        return Choice(alone[1], "")
    named = re.fullmatch(r"[(\[]([A-J])[)\]]\s*[.:]?\s*(\S.*)", text, re.DOTALL) or re.fullmatch(
        r"([A-J])\s*[.:)]\s+(\S.*)", text, re.DOTALL
    )
    return Choice(named[1], named[2].strip()) if named else None


def letter_of(answer: str) -> Choice | None:
    """Return the one choice that an answer names, None for none or several."""
    try:
        text = words.plain_text(clean(answer))
    except UnreadableError:
        return None
    alone = _ALONE.fullmatch(text)
    if alone:
        return Choice(alone["letter"].upper(), "")
    stated = _IS_RIGHT.fullmatch(text)
    if stated:
        return Choice(stated["letter"].upper(), "")
    named = _WITH_TEXT.fullmatch(text)
    beside = (named["text"] or named["beside"]) if named else ""
    if named and not _ALONE.fullmatch(beside) and not _OTHER.search(beside) and not _OTHER.match(beside):
        return Choice((named["letter"] or named["plain"] or named["before"]).upper(), beside.strip())
    return None


def choice_verdict(gold: Choice, answer: str) -> str:
    """Return correct, wrong or unreadable; the option's text alone counts where the gold has it."""
    said = letter_of(answer)
    if said is not None:
        return "correct" if said.letter == gold.letter else "wrong"
    if gold.text:
        from llm_finetuning.rewards.maths.verdict import read_gold, verdict

        typed = read_gold(gold.text)
        if typed.value is not None:
            return verdict(typed, answer)
    return "wrong"
