r"""`format_pattern`: the whole final text matches a regular expression, in linear time.

The engine is Rust's `regex`, reached through `jsonschema-rs`, which the core has for JSON schemas: it never backtracks,
so `(a+)+$` or `(.*)*x` cost no more than any other pattern, and a value never depends on how busy the machine is, as
it would with a time limit. Measured on a megabyte of text: 4 ms for each of these patterns, as fast as `google-re2`,
which would be one more dependency; the package `regex` ran into its time limit. Lookaround and backreferences are what
such an engine cannot do; they are refused when the brief is read.
"""

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from llm_finetuning.rewards.contract import Judgement, LogExtra, after_reasoning, report, text_of
from llm_finetuning.types import Text

PARTS = ("final", "whole")

_SIZE_LIMIT = 1 << 20  # bytes of the compiled pattern; it bounds the steps that one character can cost

_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANKS = ["".join(blanks) for n in range(7) for blanks in itertools.product(" \n", repeat=n)]

# What stands in a pattern, one construct a match: escapes and classes are read over as wholes.
_CONSTRUCT = re.compile(
    r"\\(?P<number>[1-9])|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?P<group><?[=!]|>|P=|\()"
    r"|(?:[*+?]|\{\d+(?:,\d*)?\})(?P<possessive>\+)|\.",
    re.DOTALL,
)
_ESCAPE = re.compile(r"(\\[^<>])|\\([<>])", re.DOTALL)
_NOT_OF_PYTHON = re.compile(r"\\[pP](?:\{[^}]*\}|\w)|\\z")
_REFUSED = {
    "=": "lookahead",
    "!": "lookahead",
    "<=": "lookbehind",
    "<!": "lookbehind",
    ">": "an atomic group",
    "P=": "a backreference",
    "(": "a condition",
}


class FormatPattern:
    r"""Pays 1.0 for a completion whose text, without the white space around it, matches the whole pattern; else 0.0.

    Options: `pattern`; `part`, `final` for what follows the reasoning or `whole`; `ignore_case`, false;
    `dot_matches_newline`, true, since an answer of several lines is the common case. `\d`, `\w` and `\b` know ASCII
    alone, as in JSON schemas; `\p{L}` is a letter of any script. An empty text is never paid, and it never abstains.
    """

    range = (0.0, 1.0)

    def __init__(
        self,
        *,
        pattern: str,
        part: Literal["final", "whole"] = "final",
        ignore_case: bool = False,
        dot_matches_newline: bool = True,
    ) -> None:
        """Take the options of the brief; raises ValueError for a pattern that cannot be used, with the place in it."""
        if part not in PARTS:
            raise ValueError(f"part: {part!r} is not one of {', '.join(PARTS)}")
        if not isinstance(pattern, str):
            raise ValueError(f"pattern: {pattern!r} is not a text; put it in quotes")  # noqa: TRY004
        for option, given in (("ignore_case", ignore_case), ("dot_matches_newline", dot_matches_newline)):
            if not isinstance(given, bool):
                raise ValueError(f"{option}: {given!r} is neither true nor false")  # noqa: TRY004
        self.__name__ = "format_pattern"
        body = _translated(pattern, dot_matches_newline)
        self._pattern = rf"\A(?{'i' if ignore_case else ''}:{body})\z"
        self._part = part
        fault = _untaken(pattern)
        if fault is None and not (_compiles(body) and _compiles(self._pattern)):
            fault = _fault(pattern, body, self._pattern)
        if fault is not None:
            raise ValueError(f"pattern: {fault}")
        matches = _matcher(self._pattern)
        if any(map(matches, _BLANKS)):
            raise ValueError(
                r"pattern: it matches an empty or blank text, which is paid for nothing; ask for content, such as \w"
            )

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **_: Any
    ) -> list[float | None]:
        """Return one value a completion, from its text alone."""
        # Fetched here and not kept: the trainer may pickle a reward, and the engine's object cannot be.
        matches = _matcher(self._pattern)
        return report(log_extra, self.__name__, [self._judge(text_of(text), matches) for text in completions])

    def _judge(self, text: str, matches: Callable[[str], bool]) -> Judgement:
        part = after_reasoning(text) if self._part == "final" else text
        if part is None:
            return Judgement(0.0, "reasoning_unclosed")
        part = part.strip()
        if not part:
            return Judgement(0.0, "empty")
        # Half a surrogate pair is no character; the engine wants text that can be written down.
        found = matches(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", part))
        return Judgement(float(found), "matches" if found else "no_match")


def _translated(pattern: str, newlines: bool) -> str:  # noqa: FBT001  the option's value
    r"""Return the pattern with the two things written out that the engine reads in another way than Python.

    A dot leaves out four kinds of line ends there, and no flag changes that; `\<` and `\>` are the ends of a word.
    """
    dot = r"[\s\S]" if newlines else r"[^\n]"

    def write(match: re.Match[str]) -> str:
        return dot if match.group() == "." else _ESCAPE.sub(r"\1\2", match.group())

    return _CONSTRUCT.sub(write, pattern)


@functools.lru_cache(maxsize=64)
def _matcher(pattern: str, size_limit: int = _SIZE_LIMIT) -> Callable[[str], bool]:
    """Return the search for a pattern; raises ValueError where the engine does not take it."""
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=size_limit)
    matches: Callable[[str], bool] = jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options).is_valid
    return matches


def _compiles(pattern: str, size_limit: int = _SIZE_LIMIT) -> bool:
    try:
        _matcher(pattern, size_limit)
    except ValueError:  # also what a lone surrogate raises
        return False
    return True


def _untaken(pattern: str) -> str | None:
    """Name the first construct that a linear engine cannot do, or would read in another way than Python."""
    for match in _CONSTRUCT.finditer(pattern):
        kind = _REFUSED.get(match.group("group") or "")
        kind = "a backreference" if match.group("number") else kind
        kind = "a possessive repetition" if match.group("possessive") else kind
        if kind:
            return (
                f"character {match.start() + 1}: {kind} ({match.group()}) cannot be matched in linear time; "
                "write the pattern without it"
            )
    return None


def _fault(pattern: str, body: str, wrapped: str) -> str:
    """Say what is wrong with a pattern that the engine refuses, translated or wrapped, where, and how to mend it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(_NOT_OF_PYTHON.sub(lambda match: "." * len(match.group()), pattern))
    except (re.error, RecursionError, OverflowError) as error:
        place = getattr(error, "pos", None)
        return f"{f'character {place + 1}: ' if place is not None else ''}{getattr(error, 'msg', error)}; correct it"
    if _compiles(wrapped.removesuffix(r")\z") + "\n)\\z"):
        return "it ends in a comment, which hides what follows; leave the comment out"
    if _compiles(body) or _compiles(wrapped, _SIZE_LIMIT << 6):
        return "too large when its counted repetitions are written out; lower the numbers in {...}, or use + or *"
    return "the linear engine does not take it; it has no \\Z (leave it out), {,3} (write {0,3}), (?#...) or \\N{...}"
