"""Two finals, the right one taken back: pays where a reward reads the first that matches, or any."""

import json
from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield right then wrong, which must not be paid, and wrong then right, which may be."""
    other = next((other for other in case.prompt.wrong if _is_another(case, other)), None)
    if other is None:
        return
    right, wrong = case.right, case.write(other)
    # Of two programs the first or the last may be meant, as long as it is always the same.
    weighs: Literal["blocks", "warns"] = "warns" if case.gold.kind == "code" else "blocks"
    for text, about in (
        (f"{right}\nNo, that is a mistake.\n{wrong}", "the right final, then a wrong one"),
        (f"{right}\n{wrong}", "two finals, the right one first"),
    ):
        yield Attempt(text=text, about=about, weighs=weighs)
    if case.gold.kind in golds.WRITTEN:
        yield Attempt(
            text=f"One might say {case.gold.answer}, but that is wrong.\n{wrong}",
            about="the right answer said to be wrong, then a wrong final",
        )
        # What a reader of the last number takes for an answer is a matter of what was asked for.
        yield Attempt(
            text=f"{wrong}\nSomebody else said {case.gold.answer}",
            about="a wrong final, then the right answer in prose",
            weighs="blocks" if case.marked and not {"bare", "sentence"} & case.accepts else "warns",
        )
    yield Attempt(text=f"{wrong}\nNo, wait.\n{right}", about="a wrong final, then the right one", weighs="warns")


def _is_another(case: Case, other: str) -> bool:
    """Tell whether a wrong answer makes a final of its own: one that says something, and something else."""
    written = case.write(other).strip()
    if not written or written == case.right.strip():
        return False
    return case.gold.kind not in ("calls", "json") or _in_order(other) != _in_order(case.gold.answer)


def _in_order(answer: str) -> str:
    """Return JSON with its keys sorted, and its parts too where it is a list, as calls may come in any order."""
    try:
        value = json.loads(answer)
    except ValueError:
        return answer  # words in place of a document
    parts = value if isinstance(value, list) else [value]
    return str(sorted(json.dumps(part, sort_keys=True) for part in parts))
