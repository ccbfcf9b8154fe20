"""`finetune gate`: may this reward be trained on?"""

from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, EXIT_NO, Refusal

EXIT_OF = {"open": EXIT_DONE, "blocked": EXIT_NO, "insufficient-evidence": EXIT_INSUFFICIENT}

FORM_REWARDS = frozenset({"format_tags", "format_pattern", "soft_overlong", "repetition_penalty"})
"""Library rewards that look at form alone: with no other, a completion without content earns."""

SHOWN_DISAGREEMENTS = 5
_KINDS = {"false_pass": "paid, but ", "false_fail": "not paid, but ", "unscored": "the reward abstains, though "}
_EXCERPT = 160  # characters of a prompt or completion in the terminal; gate.json holds all of it


@click.command("gate", short_help="Decide whether the reward may be trained on")
@options.run_dir
@click.option("--override", "reason", help="Go on though the gate is not open, for this reason; needs --by.")
@click.option("--by", help="Who overrides.")
@options.as_json
def command(run_dir: Path, reason: str | None, by: str | None, as_json: bool) -> int:
    """Compare the reward with the reader and with attacks, and decide: open, blocked or insufficient-evidence.

    Exit code 0 open, 1 blocked, 3 too little evidence. A later change of a reward, the data set, the sampling settings
    or the labels makes the answer stale. gate.html shows it to a person. An override leaves the verdict as it is, is
    shown in every later report, and is a person's: the run's name has to be typed at a terminal.
    """
    report = run(run_dir) if reason is None and by is None else override(run_dir, reason or "", by or "")
    console.finish(lines_of(report, run_dir), facts_of(report, run_dir), as_json=as_json)
    return EXIT_OF[report.verdict]


def run(run_dir: Path, *, program_labels_count: bool = False) -> Any:
    """Judge the run, write gate.json and gate.html and return the report."""
    return _Bench(run_dir, program_labels_count=program_labels_count).write([])


def override(run_dir: Path, reason: str, by: str) -> Any:
    """Judge the run and write a person's override of the verdict beside it; refuses without a terminal."""
    import datetime as dt
    import sys

    from llm_finetuning.types import Override

    if not reason.strip() or not by.strip():
        raise Refusal('--override: needs a reason and who gives it: --override "REASON" --by NAME')
    if not sys.stdin.isatty():
        raise Refusal("--override: standard input is no terminal; a person has to type the run's name there")
    bench = _Bench(run_dir, program_labels_count=False)
    if bench.report.verdict == "open":
        raise Refusal(f"{run_dir}: the gate is open, there is nothing to override")
    for line in lines_of(bench.report, run_dir)[:-3]:
        console.note(line)
    name = bench.loaded.brief.name
    typed = click.prompt(f"{by.strip()}, type the run's name ({name}) to go on in spite of this", err=True)
    if typed.strip() != name:
        raise Refusal(f"--override: {typed.strip()!r} is not the run's name; nothing was written")
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    made = Override(by=by.strip(), reason=reason.strip(), at=now, fingerprint=bench.report.fingerprint)
    return bench.write([made])


class _Bench:
    """One run with all that its gate looks at, judged."""

    def __init__(self, run_dir: Path, *, program_labels_count: bool) -> None:
        from llm_finetuning import artifact, brief, lineage
        from llm_finetuning.rewards import composition
        from llm_finetuning.scoring.success import success_of
        from llm_finetuning.stages.gate import Rule

        self.loaded = loaded = brief.load(run_dir)
        self.run_dir = run_dir
        self.audit = lineage.current_audit(loaded)
        found = lineage.complete_samples(loaded, without=["completion_ids"])
        self.samples, self.settings = found.records, found.header.settings
        self.scores = lineage.current_scores(loaded, self.samples)
        self.probe = lineage.current_probe(loaded)
        self.readers = lineage.DEMO_READER if program_labels_count else lineage.PERSONS
        self.parents = lineage.of_gate(loaded, readers=self.readers)
        self.labels = lineage.labels(loaded)
        labels_file = loaded.run_dir / "labels.jsonl"
        self.labels_cut = labels_file.exists() and artifact.ends_cut(labels_file)
        components = composition.compose(loaded, lineage.columns_of(self.samples))
        self.rule = Rule(success=success_of(loaded, components), program_labels_count=program_labels_count)
        self.plan = _plan(loaded, components)
        self.seen = lineage.seen_digests(self.samples)
        self.report = self._judge(_earlier_overrides(loaded.run_dir / "gate.json"))

    def _judge(self, overrides: list[Any]) -> Any:
        from llm_finetuning import artifact
        from llm_finetuning.stages import gate as stage

        return stage.judge(
            self.samples,
            self.scores,
            self.labels,
            self.seen,
            rule=self.rule,
            fingerprint=artifact.digest_value(self.parents),
            plan=self.plan,
            audit=self.audit,
            probe=self.probe,
            overrides=overrides,
            labels_cut=self.labels_cut,
        )

    def write(self, overrides: list[Any]) -> Any:
        """Write gate.json and gate.html with these overrides added, unless something changed meanwhile."""
        from llm_finetuning import artifact, lineage
        from llm_finetuning.web import gate_report

        report = self._judge([*self.report.overrides, *overrides]) if overrides else self.report
        changed = artifact.changed_parents(self.parents, lineage.of_gate(self.loaded, readers=self.readers))
        if changed:
            raise Refusal(f"{self.run_dir}: {changed} changed while the gate judged; ask again")
        loaded = self.loaded
        path = loaded.run_dir / "gate.json"
        header = artifact.header_for(path, self.parents)
        view = gate_report.View(
            brief=loaded.brief,
            report=report,
            evidence=self._evidence(),
            labels=self.labels,
            header=header,
            engine=self.settings.get("engine") or {},
        )
        page = gate_report.render(view)
        artifact.write_json(path, header, report)
        artifact.write_text(path.with_suffix(".html"), page)
        return report

    def _evidence(self) -> Any:
        from llm_finetuning.findings import readings
        from llm_finetuning.stages import gate as stage

        standing = readings.standing(self.labels, self.seen, self.rule).labels
        return stage.evidence_of(
            self.samples, self.scores, standing, rule=self.rule, plan=self.plan, audit=self.audit, probe=self.probe
        )


def _earlier_overrides(path: Path) -> list[Any]:
    """Return the overrides that an earlier gate.json holds: they are shown for ever."""
    from llm_finetuning import artifact
    from llm_finetuning.types import GateReport

    if not path.exists():
        return []
    try:
        return artifact.read_json(path, GateReport).records[0].overrides
    except Refusal as refusal:
        console.note(f"{refusal.lines[0]}; an override in it counts no more")
        return []


def _plan(loaded: Any, components: list[Any]) -> Any:
    """Return what the brief plans for training, as far as the gate looks at it."""
    import dataclasses

    from llm_finetuning import lineage
    from llm_finetuning.findings.evidence import Plan
    from llm_finetuning.scoring.scores import completions_per_call
    from llm_finetuning.stages import score as stage

    aggregation = stage.Aggregation(**lineage.objective_options(loaded))

    def advantages(table: Any, weights: Any, sizes: Any, mode: Any) -> list[float]:
        in_mode = dataclasses.replace(aggregation, multi_objective_aggregation=mode)
        return stage.advantages_of(table, weights, sizes, in_mode)

    wanted = zip(loaded.brief.rewards, components, strict=True)
    sampling = loaded.brief.sampling
    return Plan(
        num_generations=sampling.num_generations,
        max_completion_length=sampling.max_completion_length,
        completions_per_batch=completions_per_call(loaded),
        aggregation=aggregation.multi_objective_aggregation,  # type: ignore[arg-type]
        weights={component.name: component.weight for component in components},
        form_rewards=frozenset(component.name for reward, component in wanted if reward.use in FORM_REWARDS),
        advantages=advantages,
    )


def facts_of(report: Any, run_dir: Path) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    import dataclasses

    from llm_finetuning.findings.success import for_run
    from llm_finetuning.lineage import is_overridden

    return {
        **dataclasses.asdict(report),
        "next_action": for_run(report.next_action, str(run_dir)),
        "overridden": is_overridden(report),
        "wrote": [str(run_dir / name) for name in ("gate.json", "gate.html")],
    }


def lines_of(report: Any, run_dir: Path) -> list[str]:
    """Return the report as a person reads it in a terminal."""
    from llm_finetuning.lineage import is_overridden

    mark = {"blocks": "BLOCKS", "insufficient": "wanting", "warns": "warns", "fine": "fine"}
    lines = [f"gate: {report.verdict}{' (overridden)' if is_overridden(report) else ''}", ""]
    order = list(mark)
    findings = sorted(report.findings, key=lambda finding: order.index(finding.weight))
    lines += [f"  {mark[finding.weight]:<8}{finding.text}" for finding in findings if finding.weight != "fine"]
    lines += _fine_lines(findings)
    lines += ["", *_table_lines(report.agreement, report.success_threshold)]
    for found in report.disagreements[:SHOWN_DISAGREEMENTS]:
        lines += ["", *_disagreement_lines(found)]
    rest = len(report.disagreements) - SHOWN_DISAGREEMENTS
    if rest > 0:
        lines.append(f"\n  {rest} more {'disagreement is' if rest == 1 else 'disagreements are'} shown in gate.html")
    lines += [f"  note: {text}" for text in report.notes]
    wrote = f"wrote: {run_dir / 'gate.json'}"
    return [*lines, "", wrote, f"open in a browser: {run_dir / 'gate.html'}", _next_line(report, run_dir)]


def _fine_lines(findings: list[Any]) -> list[str]:
    """Return one line for all that is fine: what has to be read stands around it, and gate.html has each.

    No check is called fine of which a finding stands above, such as `probe` beside `probe-exploit-near-miss`, nor one
    that had nothing to look at, such as `false-pass` before anything was read: those are named as they are.
    """
    acting = {finding.code for finding in findings if finding.weight != "fine"}
    summed = {code.partition("-")[0] for code in acting if code.startswith(("audit-", "probe-"))}
    rest = [finding for finding in findings if finding.weight == "fine" and finding.code not in acting | summed]
    blank = [finding.code for finding in rest if finding.rate is not None and not finding.rate.n]
    codes = [finding.code for finding in rest if finding.code not in blank]
    lines = []
    if codes:
        checks = "1 check" if len(codes) == 1 else f"{len(codes)} checks, all"
        lines.append(f"  fine    {checks} in gate.html: {', '.join(codes)}")
    if blank:
        lines.append(f"  not known yet, nothing to look at: {', '.join(blank)}")
    return lines


def _table_lines(table: dict[str, int], success: float) -> list[str]:
    """Return reader against reward; the cells sum to the completions judged, with those on which readers differ."""
    lines = [
        "  reader:        accept  reject",
        f"  reward pays    {table['paid_accept']:>6}  {table['paid_reject']:>6}   (paid: {success:g} or more)",
        f"  does not pay   {table['unpaid_accept']:>6}  {table['unpaid_reject']:>6}",
    ]
    silent = table["unscored_accept"], table["unscored_reject"]
    if any(silent):
        lines.append(f"  says nothing   {silent[0]:>6}  {silent[1]:>6}   (every reward returned None)")
    if table["contested"]:
        lines.append(f"  readers differ on {table['contested']} more")
    return lines


def _next_line(report: Any, run_dir: Path) -> str:
    """Return what comes next; after a gate that lets the run go on that is a command, once more with why."""
    from llm_finetuning import artifact, lineage
    from llm_finetuning.findings.success import for_run

    follow = artifact.shell_line("plan", run_dir)
    if report.verdict == "open":
        return f"next: `{follow}`: {report.next_action.partition(': ')[2]}"
    return f"next: {follow if lineage.is_overridden(report) else for_run(report.next_action, str(run_dir))}"


def _disagreement_lines(found: Any) -> list[str]:
    paid = "None" if found.reward is None else f"{found.reward:g}"
    return [
        f"  {found.sample_id}: {_KINDS[found.kind]}{found.verdict}ed (reward {paid}, gold {found.answer})",
        f"    prompt: {_excerpt(found.prompt)}",
        f"    completion: {_excerpt(found.completion)}",
    ]


def _excerpt(text: str) -> str:
    """Return a text on one line; of a long one its beginning and, where question and answer stand, its end."""
    from llm_finetuning.findings.wording import ends_of

    return ends_of(" ".join(text.split()), _EXCERPT)
