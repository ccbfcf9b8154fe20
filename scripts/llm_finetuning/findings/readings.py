"""What the labels say of themselves: which stand, who disagrees with whom, and what cannot be a reading."""

import datetime as dt
import statistics as medians
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from llm_finetuning.findings.evidence import Evidence, Read, Rule, Scored, Word
from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import kappa
from llm_finetuning.types import Finding, Label

_PAUSE_S = 300.0  # a longer gap between two labels is a break, not a reading
_TIMED = 10  # gaps from which a median says something
_AT_ONCE = ("page", "terminal")  # where a label is made as it is read


@dataclass(frozen=True, slots=True)
class Standing:
    """The labels that count, and what is said of those that do not."""

    labels: list[Label]
    notes: list[str]


def standing_labels(labels: Sequence[Label], seen: Mapping[str, str]) -> list[Label]:
    """Return each reader's last label of each sample among those that still show what was read.

    The order in the file decides, since a clock may jump.
    """
    valid = (label for label in labels if seen.get(label.sample_id) == label.seen_sha256)
    return list({(label.sample_id, label.reader): label for label in valid}.values())


def standing(labels: Sequence[Label], seen: Mapping[str, str], rule: Rule) -> Standing:
    """Return the labels that count: a program's in the demo alone."""
    kept, programs = [], set()
    for label in standing_labels(labels, seen):
        if label.reader_kind == "program":
            programs.add(label.reader)
        if label.reader_kind == "person" or rule.program_labels_count:
            kept.append(label)
    names = ", ".join(sorted(programs))
    notes = []
    if programs and rule.program_labels_count:
        notes.append(f"the reader is a program ({names}), which counts in the demo alone")
    elif programs:
        notes.append(f"labels by a program ({names}) do not count: a person has to read")
    return Standing(kept, notes)


def read_samples(labels: Iterable[Label], scored_of: Mapping[str, Scored]) -> list[Read]:
    """Return one reading a sample with every reader's word on it."""
    by_sample: dict[str, list[Label]] = {}
    for label in labels:
        by_sample.setdefault(label.sample_id, []).append(label)
    return [
        Read(scored_of[sample_id], _word(found), found, any(label.part == "chosen" for label in found))
        for sample_id, found in by_sample.items()
    ]


def _word(labels: Sequence[Label]) -> Word:
    words = {label.verdict for label in labels} - {"unsure"}
    if not words:
        return "unsure"
    return "contested" if len(words) > 1 else words.pop()


def findings(
    evidence: Evidence, labels: Sequence[Label], seen: Mapping[str, str], *, labels_cut: bool = False
) -> list[Finding]:
    """Return what is to be said of the labels themselves; `labels` are all that the file holds, in its order."""
    cut = Finding(
        code="labels-cut",
        weight="warns",
        text="the last line of labels.jsonl is half written, as by a killed writer, and does not count",
        next_action="label that sample again with `finetune review RUN`",
    )
    return [
        *_enough(evidence),
        *_between_readers(evidence),
        *_set_aside(labels, seen),
        *_twice(labels, seen),
        *_clock(labels),
        *_hasty(labels, evidence.rule),
        *([cut] if labels_cut else []),
    ]


def _enough(evidence: Evidence) -> list[Finding]:
    """Count the policy samples that were judged: what training will draw, not what low temperature shows."""
    judged = sum(item.word != "unsure" and item.scored.sample.pass_name == "policy" for item in evidence.read)
    needed, there = evidence.rule.labels, len(evidence.policy)
    wanting = needed - judged
    action = None
    if wanting > 0:
        action = f"read {wanting} more completions with `finetune review RUN`"
    if there < needed:
        action = f"draw more: {there} completions are there; raise `prompts`, then `finetune sample RUN --fresh`"
    return [
        Finding(
            code="labels",
            weight="insufficient" if wanting > 0 else "fine",
            text=f"{judged} of the {needed} completions that are needed were judged by a reader"
            if wanting > 0
            else f"{judged} completions judged by a reader, {needed} needed",
            next_action=action if wanting > 0 else None,
        )
    ]


def _between_readers(evidence: Evidence) -> list[Finding]:
    """Compare readers two by two; a sample on which two differ is unresolved, so neither word on it counts."""
    tables: dict[tuple[str, str], list[int]] = {}
    for item in evidence.read:
        said = sorted((label.reader, label.verdict == "accept") for label in item.labels if label.verdict != "unsure")
        for (one, first), (other, second) in combinations(said, 2):
            table = tables.setdefault((one, other), [0, 0, 0, 0])
            table[2 * (not first) + (not second)] += 1
    if not tables:
        return []
    contested = [item.scored.sample.sample_id for item in evidence.read if item.word == "contested"]
    pairs = []
    for (one, other), table in sorted(tables.items()):
        found = kappa(*table)
        beyond = f", kappa {found.value:.2f} ({found.low:.2f} to {found.high:.2f})" if found else ""
        pairs.append(f"{one} and {other} agree on {table[0] + table[3]} of {sum(table)}{beyond}")
    return [
        Finding(
            code="readers-disagree",
            weight="blocks" if contested else "fine",
            text="readers beside one another: " + "; ".join(pairs),
            next_action=f"let the readers settle {listed(contested, 3)}: each labels it again, the last label stands"
            if contested
            else None,
            sample_ids=contested,
        )
    ]


def _set_aside(labels: Sequence[Label], seen: Mapping[str, str]) -> list[Finding]:
    gone = [label.sample_id for label in labels if label.sample_id not in seen]
    changed = [label.sample_id for label in labels if seen.get(label.sample_id, label.seen_sha256) != label.seen_sha256]
    if not gone and not changed:
        return []
    return [
        Finding(
            code="labels-set-aside",
            weight="warns",
            text=f"{len(gone) + len(changed)} labels do not count, and are kept: the samples of {len(gone)} are gone, "
            f"{len(changed)} saw another prompt, gold or completion than is there now",
            next_action="read those samples again with `finetune review RUN`, which asks for them alone",
            sample_ids=sorted({*gone, *changed}),
        )
    ]


def _twice(labels: Sequence[Label], seen: Mapping[str, str]) -> list[Finding]:
    counts: dict[tuple[str, str], list[str]] = {}
    for label in labels:
        if seen.get(label.sample_id) == label.seen_sha256:
            counts.setdefault((label.sample_id, label.reader), []).append(label.verdict)
    again = {key: words for key, words in counts.items() if len(words) > 1}
    turned = sum(len(set(words)) > 1 for words in again.values())
    if not again:
        return []
    return [
        Finding(
            code="labels-twice",
            weight="fine",
            text=f"{len(again)} samples were labelled more than once by one reader, {turned} with another verdict: "
            "the last one stands, all are kept",
            next_action=None,
            sample_ids=sorted({sample_id for sample_id, _ in again}),
        )
    ]


def _times(labels: Iterable[Label]) -> dict[str, list[float]]:
    """Return each reader's times in the file's order, in seconds; what is no time is left out."""
    times: dict[str, list[float]] = {}
    for label in labels:
        try:
            at = dt.datetime.fromisoformat(label.at.replace("Z", "+00:00"))
        except ValueError:
            continue
        aware = at if at.tzinfo else at.replace(tzinfo=dt.timezone.utc)
        times.setdefault(label.reader, []).append(aware.timestamp())
    return times


def _clock(labels: Sequence[Label]) -> list[Finding]:
    back = sum(later < earlier for times in _times(labels).values() for earlier, later in pairwise(times))
    if not back:
        return []
    return [
        Finding(
            code="clock-back",
            weight="fine",
            text=f"the clock went back between labels, {back} time(s): the order in the file decides which is the last",
            next_action=None,
        )
    ]


def _hasty(labels: Sequence[Label], rule: Rule) -> list[Finding]:
    found = []
    live = [label for label in labels if label.source in _AT_ONCE and label.reader_kind == "person"]
    for reader, times in sorted(_times(live).items()):
        gaps = [later - earlier for earlier, later in pairwise(times) if 0 <= later - earlier <= _PAUSE_S]
        if len(gaps) >= _TIMED and medians.median(gaps) < rule.reading_s:
            found.append(
                Finding(
                    code="labels-hasty",
                    weight="warns",
                    text=f"{reader} took {medians.median(gaps):.1f} s a label in the median of {len(gaps)}: "
                    "too short to have read",
                    next_action=f"let {reader} read again, or someone else",
                )
            )
    return found
