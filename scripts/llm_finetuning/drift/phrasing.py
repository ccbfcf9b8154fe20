"""How a right answer may be worded: a number, a word or a list of words inside a short sentence."""

import re
from dataclasses import dataclass

from llm_finetuning.rewards.extraction import NUMBER, extract

MAX_WORDS = 40  # of a sentence that may hold the answer; a longer text is no answer in one word

_MARKUP = str.maketrans(dict.fromkeys('*_`"\u201c\u201d\u2018\u00ab\u00bb$', " "))
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_NEGATION = frozenset(("not", "no", "never", "neither", "nor", "cannot", "wrong", "incorrect", "incorrectly"))
_CLAUSE_END = re.compile(r"[.,;:!?\n(\u2014]")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_NUMERAL = re.compile(NUMBER.pattern)
_UNIT = re.compile(r"(?<=\d)(?=[^\W\d_]|[%\u00b0\u20ac\u00a3])")
_ENDS = re.compile(r"\s*(?:[A-Za-z]+\s*){0,3}(?:$|[;!\n(]|[.:](?!\d)|,(?!\s*\d))|\s+(?:is|are|comes)\s+[A-Za-z]")
_STEPS = re.compile(r"1[.)]\s.*\n\s*2[.)]\s", re.DOTALL)
_SEVERAL = re.compile(rf"(?<!\d)(?:{NUMBER.pattern})(?:[\s,;/]+(?:(?:or|and|to)\s+)?(?:{NUMBER.pattern}))+")
_OPTION = re.compile(r"\s*\(?[A-D](?:[).:]|\s*$)")
_BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d{1,2}[.)])\s+")
_LEAD = re.compile(r"^.*(?:\b(?:is|are)\b|[:=])\s*(?=\S)", re.DOTALL)
_SEPARATOR = re.compile(r"\s*(?:[,;\n]|\band\b)\s*(?:and\b\s*)?")
_TRIM = " \t.[](){}'\u2019"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Answers that are right, and those that may not stand beside one."""

    accept: tuple[str, ...]
    reject: tuple[str, ...]


def words(text: str) -> str:
    """Return the words of a text in lower case between single spaces, without articles in front and any sign."""
    found = _WORD.findall(text.translate(_MARKUP).replace("\u2019", "'").casefold())
    first = next((place for place, word in enumerate(found) if word not in ("the", "a", "an")), 0)
    return " ".join(found[first:])


def says(text: str, wanted: Wanted) -> bool:
    """Tell whether a text is a right answer, begins with one as a clause, or is a short sentence that holds one alone.

    A sentence with a negation may mean the opposite and holds no answer; one with a wrong answer beside says two.
    """
    accepted = {words(answer) for answer in wanted.accept}
    if words(text) in accepted:
        return True
    first_sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    if words(_CLAUSE_END.split(text.strip(), maxsplit=1)[0]) in accepted:
        return not _holds(first_sentence, wanted.reject)
    said = words(text).split()
    if len(said) > MAX_WORDS or any(word in _NEGATION or word.endswith("n't") for word in said):
        return False
    return _holds(text, tuple(accepted)) and not _holds(text, wanted.reject)


def _holds(text: str, answers: tuple[str, ...]) -> bool:
    said = f" {words(text)} "
    return any(f" {words(answer)} " in said for answer in answers)


def number_in(text: str) -> str | None:
    """Return the number that a text gives as its answer: the first where the text begins with it, else the last.

    None where there is none, where it is part of another thing (`12:30`), and where it is the last of several in a row.
    """
    plain = _UNIT.sub(" ", text.translate(_MARKUP)).strip()
    lead = _NUMERAL.match(plain)
    if lead is not None and _ENDS.match(plain, lead.end()) and not _STEPS.match(plain):
        return lead.group()
    found = extract("last_number", plain)
    if found.answer is None:
        return None
    ends = [match.end() for match in _SEVERAL.finditer(plain)]
    return None if ends and not re.search(r"\d", plain[ends[-1] :]) else found.answer


def is_number(line: str) -> bool:
    """Tell whether a line is nothing but a number."""
    return NUMBER.fullmatch(line.translate(_MARKUP).strip().removesuffix(".")) is not None


def is_option(line: str) -> bool:
    """Tell whether a line is an option of a choice, with its letter in front or alone."""
    return _OPTION.match(line.translate(_MARKUP)) is not None


def listed(text: str) -> list[str]:
    """Return the elements of a list as compared: in lower case, without quotes, brackets, numbering and lead-in."""
    # Runs of blanks would make the pattern look at each of them again.
    lines = [_BULLET.sub("", " ".join(line.split())) for line in text.translate(_MARKUP).splitlines() if line.strip()]
    parts = [part.strip(_TRIM) for part in _SEPARATOR.split("\n".join(lines))]
    found = [" ".join(part.split()).casefold() for part in parts if part]
    return [_LEAD.sub("", found[0]).strip(_TRIM), *found[1:]] if found else []


def says_list(text: str, wanted: list[str]) -> bool:
    """Tell whether a text, its first line with a comma, or its lines after a lead-in are the wanted list."""
    lines = [line for line in text.splitlines() if line.strip()]
    with_comma = [line for line in lines if "," in line][:1]
    after_lead = "\n".join(lines[1:]) if lines and lines[0].rstrip().endswith(":") else text
    return any(listed(part) == wanted for part in (text, *with_comma, after_lead))
