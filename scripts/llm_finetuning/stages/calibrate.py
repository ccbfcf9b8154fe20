"""How a judge is measured against labels by people: which items count, which are sealed, and what verdicts came to.

All completions of one prompt are on one side, since they resemble each other. Of the items that count one half is
sealed, or as many as the floors ask for; of the others two in five are to write the rubric with, three to mend it by.
"""

import datetime as dt
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from llm_finetuning import statistics
from llm_finetuning.findings.readings import standing_labels
from llm_finetuning.types import JudgeVerdict, Label, Sample, Side

TEST_SHARE = 0.5
TRAIN_SHARE = 0.4  # of what is not sealed


@dataclass(frozen=True, slots=True)
class Floors:
    """What a sealed test must hold to tell anything."""

    items: int
    each: int  # of those that people passed, and of those that they failed
    unanswered: float  # share of the test that may stay without a verdict, so that some more are sealed


@dataclass(frozen=True, slots=True)
class Item:
    """One completion that people judged, and what of it counts."""

    sample: Sample
    seen: str  # digest of what was on screen
    prompt: str  # digest of the prompt
    passed: bool
    people: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Labelled:
    """The items that count, and what was left out of them."""

    items: list[Item]
    contested: int  # readers disagree
    undecided: int  # unsure alone
    repeated: int  # the same completion of the same prompt as another item
    by_program: int


@dataclass(frozen=True, slots=True)
class Split:
    """The side of each prompt, and the sealed items."""

    sides: dict[str, Side]
    test: list[Item]


@dataclass(frozen=True, slots=True)
class Wanting:
    """How many more labels a sealed test needs."""

    passes: int
    fails: int
    any: int  # beside these, of either kind


@dataclass(frozen=True, slots=True)
class Tally:
    """Verdicts against labels; positive is a pass."""

    true_positives: int
    false_negatives: int
    true_negatives: int
    false_positives: int
    reasons: Mapping[str, int]  # of those without a verdict

    @property
    def unanswered(self) -> int:
        """Return how many have no verdict."""
        return sum(self.reasons.values())


def labelled(
    samples: Sequence[Sample], labels: Sequence[Label], seen: Mapping[str, str], prompts: Mapping[str, str]
) -> Labelled:
    """Return what people judged of the policy's samples, in the samples' order.

    `seen` holds the digest of what is on screen for each sample, `prompts` that of its prompt.
    """
    policy = {sample.sample_id: sample for sample in samples if sample.pass_name == "policy"}
    words: dict[str, list[Label]] = {}
    by_program: set[str] = set()
    for label in standing_labels(labels, {name: seen[name] for name in policy}):
        if label.reader_kind == "person" and label.source != "demo":
            words.setdefault(seen[label.sample_id], []).append(label)
        else:
            by_program.add(label.sample_id)
    items, counts = [], Counter[str]()
    shown: set[str] = set()
    for name, sample in policy.items():
        of_sample = words.get(seen[name], [])
        verdicts = {label.verdict for label in of_sample} - {"unsure"}
        if seen[name] in shown:
            counts["repeated"] += any(label.sample_id == name for label in of_sample)
            continue
        if not of_sample:
            continue
        shown.add(seen[name])
        if len(verdicts) != 1:
            counts["contested" if verdicts else "undecided"] += 1
            continue
        items.append(_item(sample, seen[name], prompts[name], of_sample))
    return Labelled(items, counts["contested"], counts["undecided"], counts["repeated"], len(by_program))


def _item(sample: Sample, seen: str, prompt: str, labels: Sequence[Label]) -> Item:
    decided = [label for label in labels if label.verdict != "unsure"]
    return Item(
        sample=sample,
        seen=seen,
        prompt=prompt,
        passed=decided[0].verdict == "accept",
        people=tuple(dict.fromkeys(label.reader for label in decided)),
        days=tuple(label.at[:10] for label in decided if _is_day(label.at[:10])),
        notes=tuple(label.note for label in decided if label.note),
    )


def _is_day(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


# --- what is sealed -------------------------------------------------------------------------------------------------


def split(
    items: Sequence[Item], floors: Floors, *, seed: int, known: Mapping[str, Side] | None = None
) -> Split | Wanting:
    """Return a split whose sealed items are of prompts that are not `known`, or what is missing for one.

    The same items and seed give the same split, in whatever order they come. Known prompts stay where they are, and
    those that were sealed before are there to mend the rubric by.
    """
    sides: dict[str, Side] = {prompt: "dev" if side == "test" else side for prompt, side in (known or {}).items()}
    groups: dict[str, list[Item]] = {}
    for item in items:
        if item.prompt not in sides:
            groups.setdefault(item.prompt, []).append(item)
    fresh = [item for group in groups.values() for item in group]
    if (lacks := wanting(fresh, floors)) is not None:
        return lacks
    order = sorted(groups, key=lambda prompt: hashlib.sha256(f"{seed}/{prompt}".encode()).digest())
    sealed = _sealed(groups, order, floors)
    sides.update(dict.fromkeys(sealed, "test"))
    outside = {side: sum(sides.get(item.prompt) == side for item in items) for side in ("train", "dev")}
    for prompt in order:
        if prompt not in sides:
            # At the shares asked for; what is mended by comes first, for there is no mending without it.
            is_short = outside["train"] * (1 - TRAIN_SHARE) < outside["dev"] * TRAIN_SHARE
            sides[prompt] = side = "train" if is_short else "dev"
            outside[side] += len(groups[prompt])
    return Split(sides, [item for prompt in sealed for item in groups[prompt]])


def wanting(items: Iterable[Item], floors: Floors) -> Wanting | None:
    """Return what is missing for these items to be a test, None where nothing is."""
    passes, fails = _classes(items)
    more_passes, more_fails = max(0, floors.each - passes), max(0, floors.each - fails)
    more = max(0, floors.items - passes - fails - more_passes - more_fails)
    return Wanting(more_passes, more_fails, more) if more_passes or more_fails or more else None


def _classes(items: Iterable[Item]) -> tuple[int, int]:
    counts = Counter(item.passed for item in items)
    return counts[True], counts[False]


def _sealed(groups: Mapping[str, Sequence[Item]], order: Sequence[str], floors: Floors) -> list[str]:
    """Return the prompts that are sealed: in this order, those that bring what a class still lacks, then any."""
    whole = _classes(item for group in groups.values() for item in group)
    most = 1 - floors.unanswered
    aims = [min(n, max(math.ceil(n * TEST_SHARE), math.ceil(floors.each / most))) for n in whole]
    aim = min(sum(whole), max(math.ceil(sum(whole) * TEST_SHARE), math.ceil(floors.items / most)))
    have, chosen = [0, 0], []
    for prompt in order:
        brings = _classes(groups[prompt])
        if any(there < wanted and more for there, wanted, more in zip(have, aims, brings, strict=True)):
            chosen.append(prompt)
            have = [there + more for there, more in zip(have, brings, strict=True)]
    for prompt in order:
        if prompt not in chosen and sum(have) < aim:
            chosen.append(prompt)
            have = [there + more for there, more in zip(have, _classes(groups[prompt]), strict=True)]
    return chosen


def words_of(lacks: Wanting) -> str:
    """Return how many more labels are needed, in words."""
    parts = [(lacks.passes, "that people accept"), (lacks.fails, "that people reject"), (lacks.any, "of either kind")]
    return ", ".join(f"{count} {kind}" for count, kind in parts if count)


# --- what verdicts came to ------------------------------------------------------------------------------------------


def tally(pairs: Iterable[tuple[bool, JudgeVerdict]]) -> Tally:
    """Return how verdicts stand against what people said; an abstention is neither right nor wrong."""
    cells: Counter[tuple[bool, float]] = Counter()
    reasons: Counter[str] = Counter()
    for passed, verdict in pairs:
        if verdict.value is None:
            reasons[verdict.reason] += 1
        else:
            cells[passed, verdict.value] += 1
    return Tally(cells[True, 1.0], cells[True, 0.0], cells[False, 0.0], cells[False, 1.0], reasons)


def rates_line(name: str, found: Tally) -> str:
    """Return a tally as one line of a table: side, items, both rates with their intervals, kappa, no verdict."""
    passed = found.true_positives + found.false_negatives
    failed = found.true_negatives + found.false_positives
    agreement = statistics.kappa(
        found.true_positives, found.false_negatives, found.false_positives, found.true_negatives
    )
    kappa = "-" if agreement is None else f"{agreement.value:.2f}"
    shares = f"{_share(found.true_positives, passed):<30}{_share(found.true_negatives, failed):<30}"
    return f"{name:<7}{passed + failed + found.unanswered:>6}   {shares}{kappa:>6}{found.unanswered:>12}"


HEAD = f"{'side':<7}{'items':>6}   {'true-positive rate':<30}{'true-negative rate':<30}{'kappa':>6}{'no verdict':>12}"


def _share(hits: int, n: int) -> str:
    if n == 0:
        return "-"
    found = statistics.rate(hits, n)
    return f"{hits} of {n} ({found.low:.2f} to {found.high:.2f})"


def reasons_line(found: Tally) -> str:
    """Return why there is no verdict, commonest first."""
    ordered = sorted(found.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason} {count}" for reason, count in ordered)
