"""Writes the skill's reference on how many held-out rows are enough, from the statistics that `compare` uses.

python tests/references/rows_reference.py
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]

from llm_finetuning import statistics  # noqa: E402  found through the path above
from llm_finetuning.comparing import pairs  # noqa: E402  likewise

PAGE = ROOT / "skills" / "eval-harness-first" / "references" / "rows.md"

ROWS = (50, 100, 200, 400, 800, 1600)
CHANGED = (0.1, 0.2, 0.4)  # share of the rows on which only one of two models is right
SHARES = (0.1, 0.5, 0.9)

HEAD = """
Read this when a person asks how many held-out rows are enough, or when `finetune compare RUN base final` says that no
difference is shown. Every number is computed by what `compare` and `evaluate` compute with (`python
tests/references/rows_reference.py` writes this page, and a test compares it).
"""


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page as the statistics have it now."""
    return "\n".join(part.rstrip() + "\n" for part in _parts())


def _parts() -> Iterator[str]:
    yield "# How many held-out rows"
    yield _prose(HEAD)
    yield "\n".join(
        [
            "## To show that one model is better than another",
            "",
            _prose(
                f"""Points of pass@1 by which the better model has to lead so that four of five such evaluations show it
                (`--greedy`, one completion a row; shown means a p-value of at most {pairs.LEVEL:g} and an interval
                that leaves out zero). What counts are the rows on which the two differ: rows that both solve, or
                neither does, say nothing. `not even all`: it would not be shown if the better model
                won every one of them."""
            ),
            "",
            *_table(["rows", *(f"they differ on {share:.0%}" for share in CHANGED)], _leads()),
            "",
            _prose(
                """Half the difference takes four times the rows. Several completions a row (the default) bring the
                noise within a row down, never that between rows: more rows are worth more than more completions."""
            ),
        ]
    )
    yield "\n".join(
        [
            "## What one model's share is worth",
            "",
            "The 95% interval of a share of rows solved, one completion each.",
            "",
            *_table(["rows", *(f"{share:.0%} solved" for share in SHARES)], _intervals()),
        ]
    )


def lead(rows: int, changed: float) -> float:
    """Return the difference in pass@1 that so many rows show in four of five tries, as `compare` computes it."""
    each = round(rows * changed / 2)
    return statistics.smallest_shown([1.0] * each + [-1.0] * each + [0.0] * (rows - 2 * each))


def _leads() -> Iterator[list[str]]:
    for rows in ROWS:
        yield [str(rows), *(_cell(lead(rows, changed), changed) for changed in CHANGED)]


def _cell(points: float, changed: float) -> str:
    """Return the lead in points; one that is larger than the share of rows that differ cannot happen."""
    return f"{100 * points:.1f}" if points <= changed else "not even all"


def _intervals() -> Iterator[list[str]]:
    for rows in ROWS:
        found = [statistics.rate(round(rows * share), rows) for share in SHARES]
        yield [str(rows), *(f"{one.low:.0%} to {one.high:.0%}" for one in found)]


def _prose(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), 120, break_on_hyphens=False)


def _table(heads: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


if __name__ == "__main__":
    main()
