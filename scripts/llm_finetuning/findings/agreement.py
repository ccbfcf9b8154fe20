"""The reward against the reader: what is paid though rejected, what is not paid though accepted, and kappa."""

from collections.abc import Iterable, Sequence
from typing import Literal

from llm_finetuning.findings.abstentions import COSTS_NOTHING, PAY_ZERO
from llm_finetuning.findings.evidence import Evidence, Read, Rule, is_paid, silent_ones
from llm_finetuning.findings.wording import listed, quoted, rate_words, share_words, text_of
from llm_finetuning.statistics import kappa, rate, stratified_share
from llm_finetuning.types import Disagreement, Estimate, Finding

_KINDS: tuple[tuple[Literal["false_pass", "false_fail"], Literal["accept", "reject"], str], ...] = (
    ("false_pass", "reject", "rejected completions that the reward pays"),
    ("false_fail", "accept", "accepted completions that the reward does not pay"),
)


_CELLS = (
    "paid_accept",
    "paid_reject",
    "unpaid_accept",
    "unpaid_reject",
    "unscored_accept",
    "unscored_reject",
    "unsure",
    "contested",
)


def table(read: Iterable[Read], rule: Rule) -> dict[str, int]:
    """Return the counts of reward against reader; a sample on which readers differ is counted as `contested`."""
    counts = dict.fromkeys(_CELLS, 0)
    for item in read:
        if item.word in ("unsure", "contested"):
            counts[item.word] += 1
        elif item.scored.reward is None:
            counts[f"unscored_{item.word}"] += 1
        else:
            paid = "paid" if is_paid(item.scored.reward, rule) else "unpaid"
            counts[f"{paid}_{item.word}"] += 1
    return counts


def disagreements(evidence: Evidence) -> list[Disagreement]:
    """Return every completion that the reward and the reader judge differently, with its texts."""
    found = []
    silent = {item.scored.sample.sample_id for item in _silent(evidence)}
    for item in evidence.read:
        kind = "unscored" if item.scored.sample.sample_id in silent else _kind(item, evidence.rule)
        if kind is None:
            continue
        sample, answer = item.scored.sample, item.scored.sample.columns.get("answer")
        found.append(
            Disagreement(
                sample_id=sample.sample_id,
                verdict="accept" if item.word == "accept" else "reject",
                reward=item.scored.reward,
                kind=kind,
                prompt=text_of(sample.prompt),
                answer=None if answer is None else str(answer),
                completion=text_of(sample.completion),
                note="; ".join(dict.fromkeys(label.note for label in item.labels if label.note)),
            )
        )
    return found


def _kind(item: Read, rule: Rule) -> Literal["false_pass", "false_fail"] | None:
    if item.scored.reward is None or item.word not in ("accept", "reject"):
        return None
    paid = is_paid(item.scored.reward, rule)
    if paid == (item.word == "accept"):
        return None
    return "false_pass" if paid else "false_fail"


def reward_against_reader(evidence: Evidence) -> Estimate | None:
    """Return Cohen's kappa of reward and reader over what was read; None where it is not defined."""
    counts = table(evidence.read, evidence.rule)
    return kappa(counts["paid_accept"], counts["paid_reject"], counts["unpaid_accept"], counts["unpaid_reject"])


def _silent(evidence: Evidence) -> list[Read]:
    """Return what a reader judged and every reward abstained from, one of them without a reason to."""
    silent = silent_ones(evidence)
    return [
        item for item in evidence.read if item.word in ("accept", "reject") and item.scored.sample.sample_id in silent
    ]


def findings(evidence: Evidence) -> list[Finding]:
    """Return the rate of false passes and of false fails, what no reward scored, and kappa: agreement beyond chance."""
    compared = [item for item in evidence.read if item.word in ("accept", "reject") and item.scored.reward is not None]
    found = [_rate_finding(evidence, compared, *kind) for kind in _KINDS]
    found += _unscored_finding(evidence)
    beyond = reward_against_reader(evidence)
    if compared:
        words = (
            f"{beyond.value:.2f} (95% interval {beyond.low:.2f} to {beyond.high:.2f}, n {beyond.n})"
            if beyond
            else f"not defined: reward and reader say the same of all {len(compared)}"
        )
        left = sum(item.word in ("accept", "reject") for item in evidence.read) - len(compared)
        words += f"; {left} judged ones that no reward scores are left out" if left else ""
        found.append(
            Finding(
                code="kappa",
                weight="fine",
                text=f"agreement of reward and reader beyond chance (Cohen's kappa): {words}",
                next_action=None,
                estimate=beyond,
            )
        )
    return found


def _unscored_finding(evidence: Evidence) -> list[Finding]:
    """Return what the reader judged though the reward said nothing of it; one such completion may be a row's fault."""
    silent = _silent(evidence)
    if not silent:
        return []
    judged = sum(item.word in ("accept", "reject") for item in evidence.read)
    found = rate(len(silent), judged)
    rejected = sum(item.word == "reject" for item in silent)
    shown = silent[0].scored.sample
    return [
        Finding(
            code="judged-unscored",
            weight="blocks" if len(silent) > 1 else "warns",
            text=f"the reward abstains (returns None) from completions that the reader judged: {rate_words(found)}, "
            f"{rejected} of them rejected, as {shown.sample_id}: {quoted(shown.completion)}; {COSTS_NOTHING}",
            next_action=f"mend the reward: {PAY_ZERO}",
            rate=found,
            sample_ids=[item.scored.sample.sample_id for item in silent],
        )
    ]


def _rate_finding(
    evidence: Evidence,
    compared: Sequence[Read],
    kind: Literal["false_pass", "false_fail"],
    word: Literal["accept", "reject"],
    what: str,
) -> Finding:
    judged = [item for item in compared if item.word == word]
    ids = [item.scored.sample.sample_id for item in judged if _kind(item, evidence.rule) == kind]
    found = rate(len(ids), len(judged))
    whole = over_all(evidence, judged, kind)
    words = rate_words(found) if found.n else "not known, none was judged"
    if whole is not None and whole.n:
        words += f"; over all {len(evidence.policy)} completions, as they would be {word}ed: {share_words(whole)}"
    return Finding(
        code=kind.replace("_", "-"),
        weight="blocks" if ids else "fine",
        text=f"{what}: {words}",
        next_action=f"fix the reward: read {listed(ids, 3)}" if ids else None,
        rate=found,
        estimate=whole,
        sample_ids=ids,
    )


def over_all(evidence: Evidence, judged: Sequence[Read], kind: str) -> Estimate | None:
    """Return the rate as it is over all policy completions; None where both parts were not read.

    The part that was chosen since errors hide there was read whole and stands for itself alone. The random part stands
    for every other completion: its stratum is as large as the share of the random part that a reader judged so makes
    expect. That size is taken as known, so the interval is a little too narrow where the random part is small.
    """
    policy = [item for item in judged if item.scored.sample.pass_name == "policy"]
    chosen, drawn = [item for item in policy if item.chosen], [item for item in policy if not item.chosen]
    looked = [
        item
        for item in evidence.read
        if item.scored.sample.pass_name == "policy"
        and item.scored.reward is not None
        and item.word in ("accept", "reject")
    ]
    chosen_read = sum(item.chosen for item in looked)
    drawn_read = len(looked) - chosen_read
    if not chosen_read or not drawn_read:
        return None
    rest = round((len(evidence.policy) - chosen_read) * len(drawn) / drawn_read)
    parts = ((len(chosen), chosen), (max(rest, len(drawn)), drawn))
    return stratified_share(
        [(size, sum(_kind(item, evidence.rule) == kind for item in part), len(part)) for size, part in parts]
    )
