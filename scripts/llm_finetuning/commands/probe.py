"""`finetune probe`: does the composed reward hold under attack, and does it pay right work in other forms?"""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

EXIT_OF = {"held": EXIT_DONE, "blocked": EXIT_NO, "insufficient-evidence": EXIT_INSUFFICIENT}

_LEAST_CHARACTERS = 200  # that a completion is given, however low the cap


@click.command("probe", short_help="Attack the reward, and try right work in other forms")
@options.run_dir
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, help="Try at most this many completions; all by default."
)
@options.as_json
def command(run_dir: Path, limit: int | None, as_json: bool) -> int:
    """Attack the brief's composed reward with completions made from the run's prompts, golds and samples.

    Exploits must be paid no more than honest failure, correct variants as much as honest success. Exit code 0: the
    reward held; 1: something blocks; 3: no right answer is known to compare with. What was tried and paid stands in
    probe.json.
    """
    import dataclasses

    from llm_finetuning.commands import status
    from llm_finetuning.findings.success import for_run

    report = run(run_dir, limit=limit)
    held = report.verdict == "held"
    action = status.next_command(run_dir) if held else for_run(report.next_action, str(run_dir))
    report = dataclasses.replace(report, next_action=action)
    console.finish(lines_of(report, run_dir), facts_of(report, run_dir), as_json=as_json)
    return EXIT_OF[report.verdict]


def run(run_dir: Path, *, limit: int | None = None) -> Any:
    """Attack the reward, write probe.json and return the report."""
    import contextlib
    import sys

    from llm_finetuning import artifact, brief, lineage
    from llm_finetuning.probes import FAMILIES, attack, prompts
    from llm_finetuning.rewards import composition
    from llm_finetuning.scoring.scores import check_ids
    from llm_finetuning.stages import probe as stage

    loaded = brief.load(run_dir)
    found = lineage.complete_samples(loaded)
    samples, scores = found.records, lineage.current_scores(loaded, found.records)
    components = composition.compose(loaded, lineage.columns_of(samples))
    check_ids(loaded, components, samples)
    parents = lineage.of_probe(loaded)
    engine = found.header.settings.get("engine")
    open_thought = bool(engine.get("open_thought")) if isinstance(engine, dict) else False
    chosen = prompts.prompts_of(loaded, components, samples, scores, open_thought=open_thought)
    with contextlib.ExitStack() as stack:
        for folder in composition.folders_of(loaded):  # a reward may import its neighbours when it is called
            stack.enter_context(composition.importable_from(folder))
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # a reward that prints must not spoil --json
        trial = _trial(loaded, components, samples, chosen)
        outcome = attack.attack(
            trial,
            chosen,
            reach=sum(abs(part.weight) * (part.high - part.low) for part in components),
            reasons=open_thought or prompts.reasons(loaded, samples),
            characters=_characters(loaded, samples),
            options=prompts.library_options(loaded),
            progress=lambda total: console.progress("probing", total),
            limit=limit,
        )
    report = stage.report(
        outcome.results,
        outcome.honest,
        families=list(FAMILIES),
        whole_batch_faults=trial.whole_batch_faults,
        values_count=all(prompt.values_count for prompt in chosen),
        counts_from=_counts_from(loaded, components),
        notes=outcome.notes,
    )
    changed = artifact.changed_parents(parents, lineage.of_probe(loaded))
    if changed:
        raise Refusal(f"{run_dir}: {changed} changed while the reward was attacked; probe again")
    path = loaded.run_dir / "probe.json"
    artifact.write_json(path, artifact.header_for(path, parents, {"limit": limit}), report)
    return report


def _counts_from(loaded: Any, components: list[Any]) -> float:
    """Return the least reward of a success at the gate.

    Where the brief names none, the gate takes the middle of what can be paid. Beside a penalty of the same weight that
    is what a plain wrong answer earns, so there only more than the middle is held against the reward.
    """
    from llm_finetuning.findings.evidence import WITHIN
    from llm_finetuning.scoring.success import success_of

    success = success_of(loaded, components)
    return success + WITHIN if loaded.brief.gate.success is None else success - WITHIN


def _trial(loaded: Any, components: list[Any], samples: list[Any], chosen: list[Any]) -> Any:
    from llm_finetuning.probes.trial import Trial, pieces_of
    from llm_finetuning.scoring.scores import completions_per_call

    pieces = sum(len(pieces_of(sample.completion)) for sample in samples)
    programs = any(prompt.gold.kind == "code" for prompt in chosen)
    return Trial(
        components=components,
        generations=loaded.brief.sampling.num_generations,
        per_call=completions_per_call(loaded),
        ids_known=all(sample.completion_ids is not None for sample in samples),
        tokens_per_piece=sum(sample.tokens for sample in samples) / max(1, pieces),
        max_tokens=loaded.brief.sampling.max_completion_length,
        # A program may end the process of a reward that runs it; the library's sandbox keeps its own.
        own_process=programs and any(wanted.file is not None for wanted in loaded.brief.rewards),
    )


def _characters(loaded: Any, samples: list[Any]) -> int:
    """Return how many characters fit into `max_completion_length`, by the run's own texts."""
    from llm_finetuning.stages.probe import said

    tokens = sum(sample.tokens for sample in samples)
    characters = sum(len(said(sample.completion)) for sample in samples)
    return max(_LEAST_CHARACTERS, int(loaded.brief.sampling.max_completion_length * characters / max(1, tokens)))


def facts_of(report: Any, run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it: of the results only those that failed, probe.json has all."""
    import dataclasses

    from llm_finetuning.findings.families import forms_of
    from llm_finetuning.stages.probe import failing

    by_id = {result.probe.probe_id: result for result in report.results}
    return {
        "verdict": report.verdict,
        "next_action": report.next_action,
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
        "forms": {  # of each finding that is not fine: how often each form of its family failed
            f"{found.code}, {found.weight}": dict(forms_of([by_id[one] for one in found.sample_ids]).most_common())
            for found in report.findings
            if found.sample_ids
        },
        "failing": [dataclasses.asdict(result) for result in failing(report.results)],
        "tried": len(report.results),
        "notes": report.notes,
        "wrote": str(run_dir / "probe.json"),
    }


def lines_of(report: Any, run_dir: Path) -> list[str]:
    """Return the report as a person reads it: one line for each finding that is not fine, and a summary."""
    mark = {"blocks": "BLOCKS", "insufficient": "wanting", "warns": "warns"}
    lines = [f"probe: {report.verdict}", ""]
    lines += [f"  {mark[found.weight]:<8}{found.text}" for found in report.findings if found.weight in mark]
    fine = sum(found.weight == "fine" for found in report.findings)
    told = sum(work.problem is None for work in report.honest)
    lines.append(f"  fine    {fine} {'family' if fine == 1 else 'families'} held")
    apart = f"right and wrong told apart on {told} of {len(report.honest)} prompts"
    lines.append(f"  {len(report.results)} completions tried; {apart}")
    lines += [f"  note: {text}" for text in report.notes]
    return [*lines, "", f"wrote: {run_dir / 'probe.json'}", f"next: {report.next_action}"]
