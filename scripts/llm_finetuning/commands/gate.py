"""`finetune gate`: may this reward be trained on?"""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

EXIT_OF = {"open": EXIT_DONE, "blocked": EXIT_NO, "insufficient-evidence": EXIT_INSUFFICIENT}

SHOWN_DISAGREEMENTS = 5
_EXCERPT = 160  # characters of a completion in the terminal; gate.json holds all of it


@click.command("gate", short_help="Decide whether the reward may be trained on")
@options.run_dir
@options.as_json
def command(run_dir: Path, as_json: bool) -> int:
    """Compare the reward with the reader and decide: open, blocked or insufficient-evidence.

    Exit code 0 open, 1 blocked, 3 too little evidence. A later change of a reward, the data set, the sampling
    settings or the labels makes the answer stale.
    """
    report = run(run_dir)
    console.finish(lines_of(report, run_dir), facts_of(report, run_dir), as_json=as_json)
    return EXIT_OF[report.verdict]


def run(run_dir: Path, *, program_labels_count: bool = False) -> Any:
    """Judge the run, write gate.json and return the report."""
    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.rewards import composition
    from llm_finetuning.stages import gate as stage

    loaded = brief.load(run_dir)
    samples = lineage.complete_samples(loaded).records
    scores = lineage.current_scores(loaded, samples)
    readers = lineage.DEMO_READER if program_labels_count else lineage.PERSONS
    parents = lineage.of_gate(loaded, readers=readers)
    labels = lineage.labels(loaded)
    components = composition.compose(loaded, lineage.columns_of(samples))
    report = stage.judge(
        samples,
        scores,
        labels,
        {sample.sample_id: lineage.seen_digest(sample) for sample in samples},
        rule=stage.Rule(success=_success(loaded, components), program_labels_count=program_labels_count),
        fingerprint=artifact.digest_value(parents),
    )
    changed = artifact.changed_parents(parents, lineage.of_gate(loaded, readers=readers))
    if changed:
        raise Refusal(f"{run_dir}: {changed} changed while the gate judged; ask again")
    path = loaded.run_dir / "gate.json"
    artifact.write_json(path, artifact.header_for(path, parents), report)
    return report


def _success(loaded: Any, components: list[Any]) -> float:
    """Return the weighted reward that counts as a success: the brief's, or the middle of what can be paid."""
    from llm_finetuning.stages.gate import Rule, is_paid

    ends = [(part.weight * part.low, part.weight * part.high) for part in components]
    lowest, highest = sum(min(pair) for pair in ends), sum(max(pair) for pair in ends)
    wanted = loaded.brief.gate.success
    if wanted is None:
        return float(lowest + highest) / 2
    if not (lowest < wanted and is_paid(highest, Rule(success=wanted))):
        place = f"{loaded.run_dir / 'brief.yaml'}: gate.success"
        raise Refusal(f"{place}: {wanted:g} cannot be told apart; these rewards pay {lowest:g} to {highest:g}")
    return float(wanted)


def facts_of(report: Any, run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    import dataclasses

    return {**dataclasses.asdict(report), "wrote": str(run_dir / "gate.json")}


def lines_of(report: Any, run_dir: Path) -> list[str]:
    """Return the report as a person reads it in a terminal."""
    mark = {"blocks": "BLOCKS", "insufficient": "wanting", "warns": "warns", "fine": "fine"}
    lines = [f"gate: {report.verdict}", ""]
    lines += [f"  {mark[finding.weight]:<8}{finding.text}" for finding in report.findings]
    table, success = report.agreement, report.success_threshold
    lines += [
        "",
        "  reader:        accept  reject",
        f"  reward pays    {table['paid_accept']:>6}  {table['paid_reject']:>6}   (paid: {success:g} or more)",
        f"  does not pay   {table['unpaid_accept']:>6}  {table['unpaid_reject']:>6}",
    ]
    for found in report.disagreements[:SHOWN_DISAGREEMENTS]:
        lines += ["", *_disagreement_lines(found)]
    rest = len(report.disagreements) - SHOWN_DISAGREEMENTS
    if rest > 0:
        lines.append(f"\n  and {rest} more disagreements in gate.json")
    lines += [f"  note: {text}" for text in report.notes]
    return [*lines, "", f"wrote: {run_dir / 'gate.json'}", f"next: {report.next_action}"]


def _disagreement_lines(found: Any) -> list[str]:
    words = "paid, but rejected" if found.kind == "false_pass" else "not paid, but accepted"
    completion = " ".join(found.completion.split())
    excerpt = completion if len(completion) <= _EXCERPT else completion[: _EXCERPT - 3] + "..."
    return [
        f"  {found.sample_id}: {words} (reward {found.reward:g}, gold {found.answer})",
        f"    {excerpt}",
    ]
