"""How findings say numbers and texts."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from llm_finetuning.types import Estimate, Rate, Text

SHOWN = 10  # of a list in one line
EXCERPT = 120  # characters of a completion in a finding; the records hold all of it


def rate_words(found: Rate) -> str:
    """Return a rate as `3 of 60 (5%, 95% interval 2% to 14%)`."""
    share = found.hits / found.n if found.n else 0.0
    return f"{found.hits} of {found.n} ({share:.0%}, 95% interval {found.low:.0%} to {found.high:.0%})"


def share_words(found: Estimate) -> str:
    """Return an estimated share as `5% (95% interval 2% to 14%)`."""
    return f"{found.value:.0%} (95% interval {found.low:.0%} to {found.high:.0%})"


def seconds_words(seconds: float) -> str:
    """Return a time in two digits as `0.32 s`, `2.4 s`, `135 s`; what nobody notices as `under 0.01 s`."""
    if seconds < 0.01:  # noqa: PLR2004  a hundredth
        return "under 0.01 s"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  2g would write 1e+02


def listed(names: Iterable[object], shown: int = SHOWN) -> str:
    """Return names with commas, the first few of many."""
    words = [str(name) for name in islice(names, shown + 1)]
    return ", ".join(words[:shown]) + (", ..." if len(words) > shown else "")


def text_of(text: Text) -> str:
    """Return a prompt or completion as one text; chat messages are marked with their role where there are several."""
    if isinstance(text, str):
        return text
    if len(text) == 1:
        return str(text[0].get("content") or "")
    return "\n".join(f"[{message.get('role')}] {message.get('content') or ''}" for message in text)


def rows_words(rows: Sequence[int]) -> str:
    """Return rows of the data set as ` (data set rows 1, 5)`; nothing for none."""
    return f" (data set rows {listed(sorted(set(rows)))})" if rows else ""


def quoted(text: Text | None) -> str:
    """Return a completion on one line between backticks; of a long one its beginning and its end, where answers are."""
    whole = text_of(text or "").replace("\n", "\\n")
    return f"`{ends_of(whole, EXCERPT)}`"


def ends_of(text: str, most: int) -> str:
    """Return a text of at most so many characters; of a longer one its beginning and its end."""
    half = (most - len(" ... ")) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def amount(value: float | None) -> str:
    """Return what was paid in three digits; `nothing` where no reward scored."""
    return "nothing" if value is None else f"{value:.3g}"


def shown(completion: Text | None, about: str) -> str:
    """Return what a finding shows of a written completion: its text, or what it is where a text shows nothing."""
    if re.search(r"\w", text_of(completion or "")):
        return quoted(completion)
    return f"{quoted(completion)} ({about})" if text_of(completion or "").strip(" \n`") else about
