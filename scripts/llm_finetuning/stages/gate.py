"""Decide from samples, scores and labels whether a reward may be trained on.

The reward is compared with a reader; the model's success is compared with never and always. Every share has its n and
its 95% interval (`statistics`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from llm_finetuning.statistics import rate
from llm_finetuning.types import (
    Disagreement,
    Finding,
    GateReport,
    GateVerdict,
    Label,
    Rate,
    Sample,
    Score,
    Text,
)

WITHIN = 1e-6  # TRL keeps rewards as float32; a smaller difference cannot be seen in training


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The thresholds of the gate; a share blocks when it is beyond its limit."""

    success: float  # weighted reward from which a completion counts as a success
    labels: int = 50  # completions that a person must have judged
    abstained: float = 0.05  # share of completions that no reward scores
    truncated: float = 0.20  # share of completions cut at `max_completion_length`
    saturated: float = 0.95  # success at which nothing is left to learn
    signal: float = 0.30  # share of groups with a signal below which the gate warns
    program_labels_count: bool = False  # the demo alone: its reader is a program


@dataclass(frozen=True, slots=True)
class _Read:
    """One completion with the reward's and a reader's word on it."""

    sample: Sample
    score: Score
    label: Label


def judge(
    samples: Sequence[Sample],
    scores: Sequence[Score],
    labels: Sequence[Label],
    seen: Mapping[str, str],
    *,
    rule: Rule,
    fingerprint: str,
) -> GateReport:
    """Return the gate's report; `seen` maps a sample id to the digest of what a reader of it sees today."""
    score_of = {score.sample_id: score for score in scores}
    sample_of = {sample.sample_id: sample for sample in samples}
    standing, notes = _standing(labels, seen, rule)
    read = [_Read(sample_of[label.sample_id], score_of[label.sample_id], label) for label in standing]
    disagreements = _disagreements(read, rule)
    policy = [score for score in scores if score.pass_name == "policy"]
    findings = [
        *_value_findings(scores),
        _abstention_finding(policy, sample_of, rule),
        *_label_findings(read, disagreements, len(policy), rule),
        *_success_findings(policy, [score for score in scores if score.pass_name != "policy"], rule),
        _truncation_finding([sample for sample in samples if sample.pass_name == "policy"], rule),
        *_constant_findings(policy),
    ]
    verdict, next_action = _verdict(findings)
    return GateReport(
        verdict=verdict,
        next_action=next_action,
        findings=findings,
        disagreements=disagreements,
        agreement=_agreement(read, rule),
        success_threshold=rule.success,
        fingerprint=fingerprint,
        notes=notes,
    )


def is_paid(reward: float, rule: Rule) -> bool:
    """Tell whether a weighted reward counts as a success; 0.6 + 0.3 + 0.1 is a little below 1 in binary."""
    return reward >= rule.success - WITHIN


def rate_words(found: Rate) -> str:
    """Return a rate as `3 of 60 (5%, 95% interval 2% to 14%)`."""
    share = found.hits / found.n if found.n else 0.0
    return f"{found.hits} of {found.n} ({share:.0%}, 95% interval {found.low:.0%} to {found.high:.0%})"


def text_of(text: Text) -> str:
    """Return a prompt or completion as one text; chat messages are marked with their role where there are several."""
    if isinstance(text, str):
        return text
    if len(text) == 1:
        return str(text[0].get("content") or "")
    return "\n".join(f"[{message.get('role')}] {message.get('content') or ''}" for message in text)


def standing_labels(labels: Sequence[Label], seen: Mapping[str, str]) -> list[Label]:
    """Return each reader's last label of each sample among those that still show what was read."""
    valid = (label for label in labels if seen.get(label.sample_id) == label.seen_sha256)
    return list({(label.sample_id, label.reader): label for label in valid}.values())


def _standing(labels: Sequence[Label], seen: Mapping[str, str], rule: Rule) -> tuple[list[Label], list[str]]:
    """Return each reader's last label of each sample that still shows what was read, and what was left out."""
    stale = sum(seen.get(label.sample_id) != label.seen_sha256 for label in labels)
    notes: list[str] = []
    kept, programs = [], set()
    for label in standing_labels(labels, seen):
        if label.reader_kind == "program" and not rule.program_labels_count:
            programs.add(label.reader)
        else:
            kept.append(label)
            if label.reader_kind == "program":
                programs.add(label.reader)
    if stale:
        notes.append(f"{stale} labels do not count: their samples are gone or were drawn again since they were read")
    if programs and rule.program_labels_count:
        notes.append(f"the reader is a program ({', '.join(sorted(programs))}), which counts in the demo alone")
    elif programs:
        notes.append(f"labels by a program ({', '.join(sorted(programs))}) do not count: a person has to read")
    return kept, notes


def _disagreements(read: Iterable[_Read], rule: Rule) -> list[Disagreement]:
    found = []
    for item in read:
        reward, verdict = item.score.reward, item.label.verdict
        if reward is None or verdict == "unsure" or is_paid(reward, rule) == (verdict == "accept"):
            continue
        answer = item.sample.columns.get("answer")
        found.append(
            Disagreement(
                sample_id=item.sample.sample_id,
                verdict=verdict,
                reward=reward,
                kind="false_fail" if verdict == "accept" else "false_pass",
                prompt=text_of(item.sample.prompt),
                answer=None if answer is None else str(answer),
                completion=text_of(item.sample.completion),
                note=item.label.note,
            )
        )
    return found


def _agreement(read: Iterable[_Read], rule: Rule) -> dict[str, int]:
    table = {"paid_accept": 0, "paid_reject": 0, "unpaid_accept": 0, "unpaid_reject": 0, "unsure": 0, "unscored": 0}
    for item in read:
        if item.label.verdict == "unsure":
            table["unsure"] += 1
        elif item.score.reward is None:
            table["unscored"] += 1
        else:
            paid = "paid" if is_paid(item.score.reward, rule) else "unpaid"
            table[f"{paid}_{item.label.verdict}"] += 1
    return table


def _value_findings(scores: Sequence[Score]) -> list[Finding]:
    words = {
        "nan": "returned NaN, which TRL treats as an abstention",
        "infinite": "paid infinity, which sets its whole group's advantages to zero or breaks the gradient",
        "unstable": "paid another value when the batch was reversed",
        "out_of_range": "paid outside its declared range",
    }
    hits: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        for value in score.values:
            if value.fault:
                hits.setdefault((value.name, value.fault), []).append(score.sample_id)
    return [
        Finding(
            code=f"reward-{fault.replace('_', '-')}",
            weight="blocks",
            text=f"`{name}` {words[fault]}: {rate_words(rate(len(ids), len(scores)))}",
            next_action=f"fix `{name}` (first: {ids[0]}), then score again",
            rate=rate(len(ids), len(scores)),
            sample_ids=ids,
        )
        for (name, fault), ids in sorted(hits.items())
    ]


def _abstention_finding(policy: Sequence[Score], sample_of: Mapping[str, Sample], rule: Rule) -> Finding:
    unscored = [score for score in policy if score.reward is None]
    found = rate(len(unscored), len(policy))
    share = found.hits / found.n if found.n else 1.0
    blocks = share > rule.abstained
    rows = sorted({sample_of[score.sample_id].row for score in unscored})
    listed = ", ".join(str(row) for row in rows[:10]) + (", ..." if len(rows) > 10 else "")  # noqa: PLR2004
    return Finding(
        code="unscored",
        weight="blocks" if blocks else "fine",
        text=f"completions that no reward scores: {rate_words(found)}" + (f" (data set rows {listed})" if rows else ""),
        next_action="make those rows scorable or remove them" if blocks else None,
        rate=found,
        sample_ids=[score.sample_id for score in unscored],
    )


def _reading_finding(read: Sequence[_Read], n_policy: int, rule: Rule) -> Finding:
    """Count the policy samples that were judged: what training will draw, not what low temperature shows."""
    judged = {
        item.sample.sample_id for item in read if item.label.verdict != "unsure" and item.sample.pass_name == "policy"
    }
    wanting = rule.labels - len(judged)
    action = None
    if wanting > 0:
        action = f"read {wanting} more completions with `finetune review`"
    if n_policy < rule.labels:
        action = f"draw more: {n_policy} completions are there; raise `prompts`, then `finetune sample --fresh`"
    return Finding(
        code="labels",
        weight="insufficient" if wanting > 0 else "fine",
        text=f"{len(judged)} completions judged by a reader, {rule.labels} needed",
        next_action=action,
    )


def _label_findings(
    read: Sequence[_Read], disagreements: Sequence[Disagreement], n_policy: int, rule: Rule
) -> list[Finding]:
    findings = [_reading_finding(read, n_policy, rule)]
    compared = [item for item in read if item.label.verdict != "unsure" and item.score.reward is not None]
    for kind, verdict, what in (
        ("false_pass", "reject", "rejected completions that the reward pays"),
        ("false_fail", "accept", "accepted completions that the reward does not pay"),
    ):
        ids = [found.sample_id for found in disagreements if found.kind == kind]
        found = rate(len(ids), sum(item.label.verdict == verdict for item in compared))
        findings.append(
            Finding(
                code=kind.replace("_", "-"),
                weight="blocks" if ids else "fine",
                text=f"{what}: {rate_words(found) if found.n else 'not known, none was judged'}",
                next_action=f"fix the reward: read {', '.join(ids[:3])}" if ids else None,
                rate=found,
                sample_ids=ids,
            )
        )
    return findings


def _success_findings(policy: Sequence[Score], low: Sequence[Score], rule: Rule) -> list[Finding]:
    found, greedy = _success(policy, rule), _success(low, rule)
    words = f"base success: {rate_words(found)}; at low temperature {greedy.hits} of {greedy.n}"
    never = found.n > 0 and found.hits == 0
    always = found.n > 0 and found.hits / found.n >= rule.saturated
    if never and greedy.hits:
        weight, action = True, "lower `temperature`: the model succeeds at a low one and never at this one"
    elif never:
        weight, action = True, "teach it first: short SFT on demonstrations, then gate again (GRPO needs some success)"
    elif always:
        weight, action = True, "do not train on this: the model has it already; choose harder prompts"
    else:
        weight, action = False, None
    signal = _signal(policy)
    share = signal.hits / signal.n if signal.n else 0.0
    dead = signal.n > 0 and signal.hits == 0 and not (never or always)
    weak = share < rule.signal and not (never or always or dead)
    signal_action = None
    if dead or weak:
        signal_action = "raise `num_generations` or filter prompts that always or never succeed"
    return [
        Finding(
            code="never-succeeds" if never else "always-succeeds" if always else "base-success",
            weight="blocks" if weight else "fine",
            text=words,
            next_action=action,
            rate=found,
        ),
        Finding(
            code="groups-with-signal",
            weight="blocks" if dead else "warns" if weak or never or always else "fine",
            text=f"groups whose rewards differ, so that something can be learnt: {rate_words(signal)}",
            next_action=signal_action,
            rate=signal,
        ),
    ]


def _success(scores: Sequence[Score], rule: Rule) -> Rate:
    rewards = [score.reward for score in scores if score.reward is not None]
    return rate(sum(is_paid(reward, rule) for reward in rewards), len(rewards))


def _signal(policy: Sequence[Score]) -> Rate:
    """Count groups by their spread: the pooled spread hides that every group is constant."""
    rewards: dict[str, list[float]] = {}
    for score in policy:
        group = rewards.setdefault(score.prompt_id, [])
        if score.reward is not None:
            group.append(score.reward)
    live = sum(max(group) - min(group) > 1e-8 for group in rewards.values() if group)  # noqa: PLR2004  as torch.isclose
    return rate(live, len(rewards))


def _truncation_finding(policy: Sequence[Sample], rule: Rule) -> Finding:
    cut = [sample for sample in policy if sample.finish_reason == "length"]
    found = rate(len(cut), len(policy))
    blocks = len(policy) > 0 and len(cut) / len(policy) > rule.truncated
    finished = sorted(sample.tokens for sample in policy if sample.finish_reason == "stop")
    if finished:
        lengths = f"; finished ones reach {finished[min(len(finished) - 1, int(0.95 * len(finished)))]} tokens at 95%"
        action = "raise `max_completion_length`, or teach the model to end (short SFT)"
    else:
        lengths = "; none ended by itself"
        action = "check the end token first, then raise `max_completion_length`: no completion ended by itself"
    return Finding(
        code="truncated",
        weight="blocks" if blocks else "fine",
        text=f"cut at `max_completion_length`: {rate_words(found)}{lengths}",
        next_action=action if blocks else None,
        rate=found,
        sample_ids=[sample.sample_id for sample in cut],
    )


def _constant_findings(policy: Sequence[Score]) -> list[Finding]:
    findings = []
    for name in dict.fromkeys(value.name for score in policy for value in score.values):
        paid = [
            value.value for score in policy for value in score.values if value.name == name and value.value is not None
        ]
        if len(policy) > 1 and len(score_components(policy)) > 1 and len(set(paid)) <= 1:
            constant = f"{paid[0]:g}" if paid else "nothing"
            findings.append(
                Finding(
                    code="constant-reward",
                    weight="warns",
                    text=f"`{name}` pays {constant} for all {len(policy)} completions, so it teaches nothing",
                    next_action=f"check `{name}` against a completion that should be paid otherwise",
                )
            )
    return findings


def score_components(scores: Sequence[Score]) -> list[str]:
    """Return the names of the rewards in these scores, in the brief's order."""
    return list(dict.fromkeys(value.name for score in scores for value in score.values))


_FIRST = ("reward-", "unscored", "false-", "truncated", "labels", "never-", "always-", "groups-")
"""Which finding's action comes first: a wrong reward explains the numbers after it."""


def _verdict(findings: Sequence[Finding]) -> tuple[GateVerdict, str]:
    acting = [finding for finding in findings if finding.weight in ("blocks", "insufficient")]
    if not acting:
        return "open", "train: the reward means what the reader means, and there is something to learn"
    first = min(acting, key=lambda finding: next(i for i, code in enumerate(_FIRST) if finding.code.startswith(code)))
    verdict: GateVerdict = (
        "blocked" if any(finding.weight == "blocks" for finding in acting) else "insufficient-evidence"
    )
    return verdict, str(first.next_action)
