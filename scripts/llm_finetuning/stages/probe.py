"""Decide from what written completions were paid whether the composed reward holds under attack.

Every exploit is compared, on its own prompt, with what honest work is paid there: an honest failure (a wrong answer in
the form that is paid best) and an honest success (the gold in that form). An exploit earns from half of the way between
them on (a probe may say otherwise: doing nothing from a quarter, partial work from nine tenths); a correct variant is
refused below half. Half leaves room for penalties of length and repetition, which move a reward by less.
"""

import math
from collections.abc import Iterable, Sequence

from llm_finetuning.findings import abstentions, again
from llm_finetuning.findings.families import family_findings, forms_of, share_of
from llm_finetuning.findings.wording import amount, quoted, rate_words, shown
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

_NAMED = 6  # kinds of failures in a finding
_GRAVITY = ("blocks", "insufficient", "warns", "fine")


def verdict_of(
    kind: ProbeKind,
    reward: float | None,
    failure: float | None,
    success: float | None,
    earns_at: float,
    *,
    silent: bool = False,
) -> ProbeVerdict:
    """Return what a probe's reward says; `unscored` where there is no reward or nothing to compare with.

    `silent`: every reward abstained, one of them without a reason that excuses it. From right work in another form than
    the one that is scored that is a refusal: no advantage comes of it.
    """
    if kind == "variant" and silent and success is not None:
        return "refused"
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
    told = _told_by_silence(honest, results)
    findings = [
        *_raising_findings(results, whole_batch_faults),
        *_value_findings(results),
        *_abstaining_finding(results),
        *(_honest_findings(told, values_count=values_count) if told or not honest else ()),
        *_success_finding(honest, counts_from),
        *(finding for family in families for finding in family_findings(family, results)),
        *_calling_findings(results),
        *_slow_finding(results),
    ]
    findings.sort(key=lambda finding: _GRAVITY.index(finding.weight))
    blocking = [finding for finding in findings if finding.weight == "blocks"]
    wanting = [finding for finding in findings if finding.weight == "insufficient"]
    acting = blocking or wanting
    return ProbeReport(
        verdict="blocked" if blocking else "insufficient-evidence" if wanting else "held",
        next_action=again.with_commands(str(acting[0].next_action), f"probe-{acting[0].code}", last="probe")
        if acting
        else _on(findings),
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
                text=f"the trainer would stop: {first.fault} on {shown(first.probe.completion, first.probe.about)}; "
                f"{rate_words(found)}",
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
            f"as on {shown(found[0].probe.completion, found[0].probe.about)}",
            next_action=f"fix `{name}` for {found[0].probe.about} ({found[0].probe.family}), then score again",
            rate=rate(len(found), n),
            sample_ids=[result.probe.probe_id for result in found],
        )
        for (name, fault), found in sorted(hits.items())
    ]


def _abstaining_finding(results: Sequence[ProbeResult]) -> list[Finding]:
    """Block where a reward says nothing of what is the model's own failure: then to fail so costs nothing."""
    found = abstentions.silent_failures(results)
    if not found:
        return []
    whole = rate(len(found), len(abstentions.failures(results)))
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for _, names in found for name in names))
    kinds = "; ".join(f"{about} ({count})" for about, count in forms_of([one for one, _ in found]).most_common(_NAMED))
    first = next((one.probe for one, _ in found if one.probe.family != "odd_text"), found[0][0].probe)
    return [
        Finding(
            code="reward-abstains",
            weight="blocks",
            text=f"{names} abstains (returns None) from failures on prompts whose right answer it scores: "
            f"{rate_words(whole)}, {kinds}; as from {shown(first.completion, first.about)}; "
            f"{abstentions.COSTS_NOTHING}",
            next_action=f"mend the reward: {abstentions.PAY_ZERO}",
            rate=whole,
            sample_ids=[one.probe.probe_id for one, _ in found],
        )
    ]


def _told_by_silence(honest: Sequence[HonestWork], results: Sequence[ProbeResult]) -> list[HonestWork]:
    """Return the honest work without what a finding of silence tells: no wrong answer is scored, so none is paid."""
    silent = {result.probe.prompt_id for result, _ in abstentions.silent_failures(results)}
    return [
        work for work in honest if not (work.success is not None and work.failure is None and work.prompt_id in silent)
    ]


def _honest_findings(honest: Sequence[HonestWork], *, values_count: bool) -> list[Finding]:
    findings = []
    with_gold = [work for work in honest if work.gold is not None]
    for problem, code, what, action in (
        (
            "unpaid",
            "gold-unpaid",
            "prompts on which the reward pays the gold no more than a wrong answer, in any of the known forms",
            "mend or remove these rows: a right answer has to be paid more than a wrong one",
        ),
        (
            "format_only",
            "format-only",
            "prompts on which the reward pays a wrong answer in the right form as much as a right one",
            "add a reward that compares with the gold: form alone must not earn what a right answer earns",
        ),
    ):
        found = [work for work in with_gold if work.problem == problem]
        if found:
            mend = _mend(with_gold, action) if problem == "unpaid" else action
            findings.append(_gold_finding(code, "blocks", what, mend, found, with_gold))
    unscored = [work for work in with_gold if work.problem == "unscored"]
    if unscored:
        weight = "blocks" if len(unscored) > UNSCORED_SHARE * len(with_gold) else "warns"
        what = "prompts whose gold the reward does not score (it returns None)"
        mend = _mend(with_gold, "mend or remove these rows")
        findings.append(_gold_finding("gold-unscored", weight, what, mend, unscored, with_gold))
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


def _mend(tried: Sequence[HonestWork], rows: str) -> str:
    """Return what to do about golds that come out wrong, whichever way: the audit counts all of them too."""
    failed = [work for work in tried if work.problem is not None]
    chat = any(abstentions.is_chat(work.right) for work in failed)
    return abstentions.mend_reward(len(failed), len(tried), chat=chat, rows=rows)


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
    chat = any(abstentions.is_chat(result.probe.completion) for result in results)
    form, other = ("chat", "plain text") if chat else ("plain text", "chat messages")
    findings = []
    for way, weight, words, action in (
        (
            "alone",
            "blocks",
            "the reward pays another value for a completion that it is called with alone: the batch decides",
            "score each completion by itself",
        ),
        (
            "thread",
            "warns",
            "the reward pays another value when a thread calls it, as a trainer or server may",
            "do not use signals or per-thread state in it",
        ),
        (
            "other form",
            "warns",
            f"the reward pays another value for the same completion as {other}; it does no harm while it is {form}",
            "take both of TRL's forms: `c if isinstance(c, str) else c[-1]['content']`",
        ),
    ):
        tried = [result for result in results if way in result.differs or f"not {way}" in result.differs]
        found = [result for result in tried if way in result.differs]
        if found:
            share = rate(len(found), len(tried))
            seen = next((one for one in found if said(one.probe.completion).strip(" \n`")), found[0]).probe
            findings.append(
                Finding(
                    code=f"reward-{way.replace(' ', '-')}",
                    weight=weight,  # type: ignore[arg-type]
                    text=f"{words}: {rate_words(share)}, as on {shown(seen.completion, seen.about)}",
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
            text=f"the reward takes {seconds:.1f} s a completion: {rate_words(rate(len(slow), len(timed)))}, "
            f"as on {shown(worst.probe.completion, worst.probe.about)}",
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
