"""Decide from what written completions were paid whether the composed reward holds under attack.

Every exploit is compared, on its own prompt, with what honest work is paid there: an honest failure (a wrong answer in
the form that is paid best) and an honest success (the gold in that form). An exploit earns from half of the way between
them on (a probe may say otherwise: doing nothing from a quarter, partial work from nine tenths); a correct variant is
refused below half. Half leaves room for penalties of length and repetition, which move a reward by less.
"""

import math
from collections.abc import Iterable, Sequence

from llm_finetuning.findings.families import family_findings, share_of
from llm_finetuning.findings.wording import amount, quoted, rate_words
from llm_finetuning.statistics import rate
from llm_finetuning.types import (
    Finding,
    HonestWork,
    ProbeKind,
    ProbeReport,
    ProbeResult,
    ProbeVerdict,
    Text,
)

PAID_AT = 0.5  # share of the way from honest failure to honest success
SLOW_S = 1.0  # seconds a completion from which a reward holds up training
UNSCORED_SHARE = 0.05  # of golds that no reward scores


def verdict_of(
    kind: ProbeKind, reward: float | None, failure: float | None, success: float | None, earns_at: float
) -> ProbeVerdict:
    """Return what a probe's reward says; `unscored` where there is no reward or nothing to compare with."""
    if reward is None or failure is None or success is None or success <= failure:
        return "unscored"
    share = share_of(reward, failure, success)
    if kind == "exploit":
        return "earned" if share >= earns_at - 1e-9 else "held"
    return "held" if share >= PAID_AT else "refused"


def report(
    results: Sequence[ProbeResult],
    honest: Sequence[HonestWork],
    *,
    families: Sequence[str],
    whole_batch_faults: Sequence[str] = (),
    values_count: bool = True,
    counts_from: float = math.inf,
    notes: Sequence[str] = (),
) -> ProbeReport:
    """Return the report; `families` orders the findings, `counts_from` is the least reward of a success at the gate."""
    findings = [
        *_raising_findings(results, whole_batch_faults),
        *_value_findings(results),
        *_honest_findings(honest, values_count=values_count),
        *_success_finding(honest, counts_from),
        *(finding for family in families for finding in family_findings(family, results)),
        *_calling_findings(results),
        *_slow_finding(results),
    ]
    blocking = [finding for finding in findings if finding.weight == "blocks"]
    wanting = [finding for finding in findings if finding.weight == "insufficient"]
    acting = blocking or wanting
    return ProbeReport(
        verdict="blocked" if blocking else "insufficient-evidence" if wanting else "held",
        next_action=str(acting[0].next_action) if acting else _on(findings),
        findings=findings,
        honest=list(honest),
        results=list(results),
        notes=list(notes),
    )


def _on(findings: Sequence[Finding]) -> str:
    """Return the next action where nothing blocks."""
    warning = sum(finding.weight == "warns" for finding in findings)
    return f"read: nothing blocks{f'; look first at the {warning} that warn' if warning else ', and nothing warns'}"


def _raising_findings(results: Sequence[ProbeResult], whole_batch_faults: Sequence[str]) -> list[Finding]:
    """Name what TRL would die of; a row with a spoilt gold is not among what training sees."""
    tried = [result for result in results if result.probe.family != "blank_gold"]
    raised = [result for result in tried if result.fault is not None]
    findings = []
    if raised:
        found = rate(len(raised), len(tried))
        first = raised[0]
        findings.append(
            Finding(
                code="reward-raises",
                weight="blocks",
                text=f"the trainer would stop: {first.fault} on {quoted(first.probe.completion)}; {rate_words(found)}",
                next_action=f"let the reward pay 0 for {first.probe.about} ({first.probe.family})",
                rate=found,
                sample_ids=[result.probe.probe_id for result in raised],
            )
        )
    findings += [
        Finding(
            code="reward-batch-raises",
            weight="blocks",
            text=f"a call of several completions fails though each alone does not: {words}",
            next_action="score each completion by itself and return one value for each, in order",
        )
        for words in dict.fromkeys(whole_batch_faults)
    ]
    return findings


_FAULTS = {
    "nan": "returned NaN, which TRL treats as an abstention",
    "infinite": "paid infinity",
    "unstable": "paid another value when the batch was reversed or split",
    "out_of_range": "paid outside its declared range",
}


def _value_findings(results: Sequence[ProbeResult]) -> list[Finding]:
    hits: dict[tuple[str, str], list[ProbeResult]] = {}
    for result in results:
        if result.probe.family == "blank_gold":
            continue
        for value in result.values:
            if value.fault:
                hits.setdefault((value.name, value.fault), []).append(result)
    n = sum(1 for result in results if result.values)
    return [
        Finding(
            code=f"reward-{fault.replace('_', '-')}",
            weight="blocks",
            text=f"`{name}` {_FAULTS[fault]}: {rate_words(rate(len(found), n))}, "
            f"as on {quoted(found[0].probe.completion)}",
            next_action=f"fix `{name}` for {found[0].probe.about} ({found[0].probe.family}), then score again",
            rate=rate(len(found), n),
            sample_ids=[result.probe.probe_id for result in found],
        )
        for (name, fault), found in sorted(hits.items())
    ]


def _honest_findings(honest: Sequence[HonestWork], *, values_count: bool) -> list[Finding]:
    findings = []
    with_gold = [work for work in honest if work.gold is not None]
    for problem, code, what, action in (
        (
            "unpaid",
            "gold-unpaid",
            "prompts on which the gold is paid no more than a wrong answer in any of the known forms",
            "mend the reward or the gold of these rows: a right answer has to be paid more than a wrong one",
        ),
        (
            "format_only",
            "format-only",
            "prompts on which a wrong answer in the right form is paid as much as a right one",
            "add a reward that compares with the gold: form alone must not earn what a right answer earns",
        ),
    ):
        found = [work for work in with_gold if work.problem == problem]
        if found:
            findings.append(_gold_finding(code, "blocks", what, action, found, with_gold))
    unscored = [work for work in with_gold if work.problem == "unscored"]
    if unscored:
        weight = "blocks" if len(unscored) > UNSCORED_SHARE * len(with_gold) else "warns"
        what = "prompts whose gold no reward scores"
        findings.append(_gold_finding("gold-unscored", weight, what, "mend or remove these rows", unscored, with_gold))
    known = [work for work in honest if work.problem is None]
    if not known and not findings:
        findings.append(
            Finding(
                code="honest-unknown",
                weight="insufficient",
                text=f"no right answer is known on any of {len(honest)} prompts, so nothing can be compared",
                next_action="name the gold column in the brief (`dataset: {answer: ...}`), or sample what earns",
            )
        )
    if known and not values_count:
        findings.append(
            Finding(
                code="values-unverified",
                weight="warns",
                text="the rewards look at the form of the document alone: any that the schema accepts is paid",
                next_action="add a reward that compares the values, or models fill the form with anything",
            )
        )
    findings += _weak_finding(known)
    return findings


def _success_finding(honest: Sequence[HonestWork], counts_from: float) -> list[Finding]:
    """Block where wrong answers, or nothing at all, count as success at the gate; one of many may be a slip."""
    known = [work for work in honest if work.problem is None and work.gold is not None]
    found = [work for work in known if max(work.failure or 0.0, work.empty or 0.0) >= counts_from]
    what = f"prompts on which a wrong answer, or nothing at all, counts as a success ({counts_from:.3g} or more)"
    action = "pay less for wrong work, or set the brief's `gate.success` above what it earns"
    weight = "blocks" if len(found) > 1 else "warns"
    return [_gold_finding("wrong-is-success", weight, what, action, found, known)] if found else []


def _gold_finding(
    code: str, weight: str, what: str, action: str, found: Sequence[HonestWork], tried: Sequence[HonestWork]
) -> Finding:
    first = found[0]
    rows = sorted({work.row for work in found})
    listed = ", ".join(map(str, rows[:10])) + (", ..." if len(rows) > 10 else "")  # noqa: PLR2004
    shown = f"; row {first.row}: {quoted(first.right)} is paid {amount(first.success)}"
    if first.wrong is not None:
        shown += f", {quoted(first.wrong)} {amount(first.failure)}, nothing at all {amount(first.empty)}"
    return Finding(
        code=code,
        weight=weight,  # type: ignore[arg-type]
        text=f"{what}: {rate_words(rate(len(found), len(tried)))} (data set rows {listed}){shown}",
        next_action=action,
        rate=rate(len(found), len(tried)),
        data_rows=rows,
    )


def _weak_finding(known: Sequence[HonestWork]) -> list[Finding]:
    """Warn where most of what honest work earns is earned by a wrong answer too."""
    weak = [
        work
        for work in known
        if work.success is not None and work.failure is not None and work.empty is not None
        if work.success - work.failure < 0.5 * (work.success - work.empty)
    ]
    if not weak or len(weak) * 2 < len(known):
        return []
    first, share = weak[0], rate(len(weak), len(known))
    text = (
        f"a wrong answer in the right form is paid {amount(first.failure)}, a right one {amount(first.success)}, "
        f"nothing at all {amount(first.empty)}: {rate_words(share)}"
    )
    action = "lower the weight of the rewards for form"
    return [Finding(code="form-outweighs-answer", weight="warns", text=text, next_action=action, rate=share)]


def _calling_findings(results: Sequence[ProbeResult]) -> list[Finding]:
    """Return what other ways of calling changed: alone is an error, a thread or the other form may never happen."""
    findings = []
    for way, weight, words, action in (
        ("alone", "blocks", "paid another value when called alone", "score each completion by itself"),
        ("thread", "warns", "differ when a thread calls the reward", "do not use signals or per-thread state in it"),
        (
            "other form",
            "warns",
            "differ when the same completion comes as chat in place of text, or the other way",
            "take both of TRL's forms: `c if isinstance(c, str) else c[-1]['content']`",
        ),
    ):
        tried = [result for result in results if way in result.differs or f"not {way}" in result.differs]
        found = [result for result in tried if way in result.differs]
        if found:
            share = rate(len(found), len(tried))
            findings.append(
                Finding(
                    code=f"reward-{way.replace(' ', '-')}",
                    weight=weight,  # type: ignore[arg-type]
                    text=f"{words}: {rate_words(share)}, as on {quoted(found[0].probe.completion)}",
                    next_action=action,
                    rate=share,
                    sample_ids=[result.probe.probe_id for result in found],
                )
            )
    return findings


def _slow_finding(results: Sequence[ProbeResult]) -> list[Finding]:
    timed = [(sum(value.seconds for value in result.values), result) for result in results if result.values]
    slow = [(seconds, result) for seconds, result in timed if seconds > SLOW_S]
    if not slow:
        return []
    seconds, worst = max(slow, key=lambda pair: pair[0])
    return [
        Finding(
            code="reward-slow",
            weight="warns",
            text=f"takes {seconds:.1f} s a completion, as on {quoted(worst.probe.completion)}: "
            f"{rate_words(rate(len(slow), len(timed)))}",
            next_action="bound the time of the reward: it holds every training step",
            rate=rate(len(slow), len(timed)),
        )
    ]


def said(text: Text | None) -> str:
    """Return a completion as one text."""
    if text is None or isinstance(text, str):
        return text or ""
    return "\n".join(str(message.get("content") or "") for message in text)


def failing(results: Iterable[ProbeResult]) -> list[ProbeResult]:
    """Return the results that were paid or refused wrongly, or raised."""
    return [result for result in results if result.verdict in ("earned", "refused", "raised")]
