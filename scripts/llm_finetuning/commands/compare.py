"""`finetune compare`: may a candidate take a base's place?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO

if TYPE_CHECKING:
    from llm_finetuning.types import Comparison, Promotion

EXIT_OF = {"promoted": EXIT_DONE, "rejected": EXIT_NO, "insufficient": EXIT_INSUFFICIENT}

PAGE = "promotion-report.html"

SHOWN_LEAKS = 5

MARKS = {"blocks": "REJECTS", "insufficient": "wanting", "warns": "warns", "fine": "fine"}


@click.command("compare", short_help="Decide whether a candidate takes the base's place")
@options.run_dir
@click.argument("base")
@click.argument("candidate")
@click.option(
    "--arena", is_flag=True, help="Also ask the brief's calibrated judge, who sees both answers side by side."
)
@options.python
@options.as_json
def command(run_dir: Path, base: str, candidate: str, arena: bool, python: str | None, as_json: bool) -> int:
    """Decide whether CANDIDATE takes the place of BASE, both named as in eval/ or by the path of their file.

    Exit code 0 promoted: better on the held-out rows (the goldens) that do not stand in the training data, and no more
    lost of what it could do beside the task than `evaluation.drift` of the brief. 1 rejected: worse, a hacked reward, a
    gain that leaked goldens carry, or more lost than that. 3 too little evidence; it says what is missing.
    promotion.json has every finding, promotion-report.html the items that were won and lost. Both must be of the same
    rows, settings and graders.
    """
    from llm_finetuning import as_given, live_view

    with as_given.refusals(run_dir):
        found = run(run_dir, base, candidate, arena=arena, python=python)
    lines = [live_view.one_line(line) for line in lines_of(found, run_dir)]  # an id or a bucket may hold any text
    lines = [as_given.said_with_followers(line, run_dir) for line in lines]
    console.finish(lines, facts_of(found, run_dir), as_json=as_json)
    return EXIT_OF[found.verdict]


def run(run_dir: Path, base: str, candidate: str, *, arena: bool = False, python: str | None = None) -> Any:
    """Judge a candidate, write promotion.json and promotion-report.html, and return the `Promotion`."""
    from llm_finetuning import artifact, brief
    from llm_finetuning.promoting import contest
    from llm_finetuning.web import promotion_report

    loaded = brief.load(run_dir)
    held = contest.contest_of(loaded, base, candidate)
    found = held.judged(python=python, arena=arena)
    path = loaded.run_dir / "promotion.json"
    header = artifact.header_for(
        path, contest.parents_of(loaded, base, candidate), {"base": base, "candidate": candidate}
    )
    page = promotion_report.render(promotion_report.View(loaded.brief, found, header, held))
    artifact.write_json(path, header, found)
    artifact.write_text(path.with_name(PAGE), page)
    return found


def current(loaded: Any) -> "Promotion":
    """Return the last answer where it still holds; refuses when an evaluation, the data or what is wanted changed."""
    from llm_finetuning import artifact
    from llm_finetuning.promoting import contest
    from llm_finetuning.types import Promotion

    found = artifact.read_json(loaded.run_dir / "promotion.json", Promotion)
    names = [str(found.header.settings.get(side)) for side in ("base", "candidate")]
    artifact.check_parents(found.path, found.header, contest.parents_of(loaded, *names))
    try:
        contest.check_models(loaded, *names)
    except contest.Retrained as retrained:
        raise artifact.Stale(found.path, retrained.found.folder, retrained.found.words) from None
    return found.records[0]


def facts_of(found: "Promotion", run_dir: Path) -> dict[str, Any]:
    """Return a promotion as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(found), "wrote": [str(run_dir / name) for name in ("promotion.json", PAGE)]}


def lines_of(found: "Promotion", run_dir: Path) -> list[str]:
    """Return a promotion as a person reads it in a terminal."""
    told = [f"  {MARKS[finding.weight]:<8}{finding.text}" for finding in found.findings]
    return [
        f"promotion: {found.verdict}",
        f"  {found.reason}",
        "",
        *told,
        *(f"  note: {note}" for note in found.notes),
        "",
        *_table(found.fresh or found.goldens, found),
        *_leak_lines(found),
        "",
        f"wrote: {run_dir / 'promotion.json'}",
        f"open in a browser: {run_dir / PAGE}",
        f"next: {found.next_action}",
    ]


def _table(decides: "Comparison", found: "Promotion") -> Iterator[str]:
    """Yield each number of both models with its difference; of the drift suite's kinds those alone that moved."""
    from llm_finetuning.comparing.table import rows_of

    rows = [row for row in rows_of(found) if not row.name.startswith("drift: ") or row.moves != "level"]
    width = max(len(found.base), len(found.candidate), 10) + 2
    first = max(24, *(len(row.name) + 1 for row in rows))
    without = f" without {len({leak.prompt_id for leak in found.leaked})} that leaked" if found.leaked else ""
    yield f"{found.base} and {found.candidate} on {decides.success.difference.n} goldens{without}"
    yield f"  {'':<{first}}{found.base:>{width}}{found.candidate:>{width}}   difference (95% interval)"
    for row in rows:
        before, after, gap, ends = row.cells
        yield f"  {row.name:<{first}}{before:>{width}}{after:>{width}}   {gap} ({ends})"
    test = f"{decides.test} test: p = {decides.p_value:.2g}"
    yield f"  items won {decides.won}, lost {decides.lost}, equal {decides.tied}; {test}"
    n, gain = decides.success.difference.n, f"the wanted {found.wanted_gain:g} (evaluation.gain)"
    if found.items_needed is None:
        needed = ""
    elif found.items_needed > n:
        needed = f"; {gain} takes about {found.items_needed} goldens"
    else:
        needed = f"; {gain} takes no more of them"
    shown = f"show a difference of {decides.smallest_shown:.3f} in four of five tries"
    yield f"  power, from the paired answers: these {n} goldens {shown}{needed}"
    yield "  (the figure of `evaluate` is an estimate from the base alone, made before anything was paired)"


def _leak_lines(found: "Promotion") -> Iterator[str]:
    for leak in found.leaked[:SHOWN_LEAKS]:
        how = "stands in" if leak.how == "same" else "nearly stands in"
        yield f"  leaked: {leak.prompt_id} {how} row {leak.row} of the training data (`{leak.column}`)"
    rest = len(found.leaked) - SHOWN_LEAKS
    if rest > 0:
        yield f"  and {rest} more leaked goldens in promotion.json"
