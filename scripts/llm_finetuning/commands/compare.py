"""`finetune compare`: does a candidate do better than a base on the same held-out rows?"""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console, pipeline
from llm_finetuning.commands import evaluate, options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

EXIT_OF = {"improved": EXIT_DONE, "worse": EXIT_NO, "no-difference-shown": EXIT_INSUFFICIENT}

MAY_DIFFER = ("model", "seed", "engine")
"""Parents of an evaluation that two of one comparison need not share; the completions are never the same."""


@click.command("compare", short_help="Compare two evaluations row by row")
@options.run_dir
@click.argument("base")
@click.argument("candidate")
@options.as_json
def command(run_dir: Path, base: str, candidate: str, as_json: bool) -> int:
    """Compare two evaluations of the run, named as in eval/ or by the path of their file.

    Exit code 0 improved, 1 worse, 3 no difference shown: the 95% interval of the paired difference has to leave out
    zero, and a test has to agree. Both must be of the same rows, settings and rewards.
    """
    import dataclasses

    found = run(run_dir, base, candidate)
    console.finish(lines_of(found), dataclasses.asdict(found), as_json=as_json)
    return EXIT_OF[found.verdict]


def run(run_dir: Path, base: str, candidate: str) -> Any:
    """Return the `Comparison` of two evaluations; refuses two that cannot be compared."""
    from llm_finetuning.stages import compare as stage

    before, after = _read(run_dir, base), _read(run_dir, candidate)
    if before.path.resolve() == after.path.resolve():
        raise Refusal(f"{before.path}: compared with itself; name two evaluations")
    _check_comparable(before, after)
    return stage.compare(before.records[0], after.records[0], notes=_notes(before, after))


def _read(run_dir: Path, name: str) -> Any:
    from llm_finetuning import artifact
    from llm_finetuning.types import Evaluation

    folder = run_dir / "eval"
    is_path = "/" in name or name.endswith(".json")
    path = Path(name).expanduser() if is_path else folder / f"{name}.json"
    if not path.is_file():
        there = sorted(found.stem for found in folder.glob("*.json"))
        listed = f"there are {', '.join(there)}" if there else f"make it: {artifact.shell_line('evaluate', run_dir)}"
        raise Refusal(f"{path}: no such evaluation; {listed}")
    return artifact.read_json(path.resolve(), Evaluation)


def _own_parents(found: Any) -> dict[str, str]:
    return {
        name: digest
        for name, digest in found.header.parents.items()
        if name not in MAY_DIFFER and not name.endswith(pipeline.TRANSCRIPTS)
    }


def _check_comparable(before: Any, after: Any) -> None:
    from llm_finetuning import artifact

    changed = artifact.changed_parents(_own_parents(before), _own_parents(after))
    ids = [{item.prompt_id for item in found.records[0].items} for found in (before, after)]
    if not changed and ids[0] == ids[1]:
        return
    parts = _settings_words(before, after) if "sampling settings" in changed else ""
    raise Refusal(
        f"{after.path}: differs in {changed or 'the rows'}{parts} from {before.path}; evaluate one of the two again "
        f"as the other was, under another --name{evaluate.scored_anew(changed, before.path)}"
    )


def _settings_words(before: Any, after: Any) -> str:
    known = [found.header.settings for found in (before, after)]
    words = [
        f"{key} {known[1].get(key)} for {known[0].get(key)}"
        for key in known[0]
        if known[0].get(key) != known[1].get(key)
    ]
    return f" ({', '.join(words)})" if words else ""


def _notes(before: Any, after: Any) -> list[str]:
    parents = before.header.parents, after.header.parents
    notes = []
    if parents[0].get("model") == parents[1].get("model"):
        notes.append("both are of the same model: what differs is chance, engine or seed")
    if parents[0].get("engine") != parents[1].get("engine"):
        notes.append("the two were sampled by different engines, which can shift rates a little by themselves")
    return notes


def lines_of(found: Any) -> list[str]:
    """Return a comparison as a person reads it in a terminal."""
    width = max(len(found.base), len(found.candidate), 10) + 2
    head = f"  {'':<24}{found.base:>{width}}{found.candidate:>{width}}   difference (95% interval)"
    shares = {"pass@1": found.success, **{f"pass@{k}": shift for k, shift in found.passes.items()}}
    means = {**({"reward": found.reward} if found.reward else {}), **found.components, "tokens": found.tokens}
    count = found.won + found.lost + found.tied
    return [
        f"{found.base} and {found.candidate} on {count} held-out rows",
        "",
        head,
        *(_line(name, shift, width, ".3f") for name, shift in shares.items()),
        *(_line(name, shift, width, ".3g") for name, shift in means.items()),
        _line("cut at the cap", found.cut, width, ".3f"),
        "",
        f"  rows won {found.won}, lost {found.lost}, equal {found.tied}; {found.test} test: p = {found.p_value:.2g}",
        f"  so many rows with this spread show a difference of {found.smallest_shown:.3f} in four of five tries",
        *(f"  note: {note}" for note in found.notes),
        "",
        f"verdict: {found.verdict.replace('-', ' ')}",
        f"next: {found.next_action}",
    ]


def _line(name: str, shift: Any, width: int, form: str) -> str:
    numbers = f"{shift.base:>{width}{form}}{shift.candidate:>{width}{form}}"
    gap = shift.difference
    return f"  {name:<24}{numbers}   {gap.value:+{form}} ({gap.low:+{form}} to {gap.high:+{form}})"
