"""The pictures of gate.html: what is drawn of a run, and what each says in words."""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from llm_finetuning.findings.evidence import Evidence, Scored, is_paid
from llm_finetuning.types import GateReport
from llm_finetuning.web import drawing
from llm_finetuning.web.drawing import Column

_BINS = 16
_FEW = 16  # distinct rewards that get a column each


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture with the sentence below it."""

    title: str
    drawn: Markup
    caption: str


def pictures(evidence: Evidence, report: GateReport) -> list[Picture]:
    """Return the pictures that this run has something for, in reading order."""
    found = [_readers(evidence), _rewards(evidence), _success(evidence), _signal(evidence, report), _lengths(evidence)]
    found.append(_components(report))
    return [picture for picture in found if picture is not None]


def _paid(scored: Scored, evidence: Evidence) -> bool:
    return scored.reward is not None and is_paid(scored.reward, evidence.rule)


def _bins(values: list[float]) -> tuple[list[str], dict[float, int]]:
    """Return labels of columns and the column of each value: one each where few values occur, else equal widths."""
    distinct = sorted(set(values))
    if len(distinct) <= _FEW:
        return [f"{value:g}" for value in distinct], {value: place for place, value in enumerate(distinct)}
    low, high = distinct[0], distinct[-1]
    width = (high - low) / _BINS
    labels = [f"{low + place * width:.3g}" for place in range(_BINS)]
    return labels, {value: min(_BINS - 1, int((value - low) / width)) for value in distinct}


def _rewards(evidence: Evidence) -> Picture | None:
    scored = [item for item in evidence.policy if item.reward is not None]
    if not scored:
        return None
    rewards = [item.reward for item in scored if item.reward is not None]
    labels, place_of = _bins(rewards)
    counts = Counter(place_of[reward] for reward in rewards)
    paid = {place_of[reward] for reward in rewards if is_paid(reward, evidence.rule)}
    drawn = [Column(label, counts[place], "good" if place in paid else "weak") for place, label in enumerate(labels)]
    share = sum(_paid(item, evidence) for item in scored) / len(scored)
    return Picture(
        "Reward distribution",
        drawing.columns(
            drawn,
            title="Reward distribution",
            about="; ".join(f"{column.label}: {column.value:g} completions" for column in drawn),
            x_label="weighted reward",
            y_label="completions",
        ),
        f"What {len(scored)} completions are paid. Green: paid as a success ({evidence.rule.success:g} or more), "
        f"{share:.0%} of them.",
    )


def _success(evidence: Evidence) -> Picture | None:
    shares = []
    for group in evidence.groups:
        known = [item for item in group if item.reward is not None]
        if known:
            shares.append(round(sum(_paid(item, evidence) for item in known) / len(known), 6))
    if not shares:
        return None
    labels, place_of = _bins(shares)
    counts = Counter(place_of[share] for share in shares)
    drawn = [
        Column(_percent(label), counts[place], "weak" if label in ("0", "1") else "good")
        for place, label in enumerate(labels)
    ]
    ends = sum(share in (0.0, 1.0) for share in shares)
    return Picture(
        "Success per prompt",
        drawing.columns(
            drawn,
            title="Success per prompt",
            about="; ".join(f"success {column.label}: {column.value:g} prompts" for column in drawn),
            x_label="share of a prompt's completions that succeed",
            y_label="prompts",
        ),
        f"{ends} of {len(shares)} prompts always or never succeed (grey): success itself teaches nothing there.",
    )


def _percent(label: str) -> str:
    return f"{float(label):.0%}"


def _lengths(evidence: Evidence) -> Picture | None:
    scored = [item for item in evidence.policy if item.reward is not None]
    if not scored:
        return None
    x_labels, x_of = _bins([float(item.sample.tokens) for item in scored])
    y_labels, y_of = _bins([float(item.reward or 0.0) for item in scored])
    cells = [[0] * len(x_labels) for _ in y_labels]
    for item in scored:
        cells[y_of[float(item.reward or 0.0)]][x_of[float(item.sample.tokens)]] += 1
    cut = sum(item.sample.finish_reason == "length" for item in scored)
    means = []
    for words, wanted in (("successes", True), ("the others", False)):
        tokens = [item.sample.tokens for item in scored if _paid(item, evidence) == wanted]
        if tokens:
            means.append(f"{words} {sum(tokens) / len(tokens):.0f} in the mean")
    return Picture(
        "Length against reward",
        drawing.heat(
            cells,
            x_labels,
            y_labels,
            title="Length against reward",
            about="; ".join(means),
            x_label="tokens of the completion",
            y_label="weighted reward",
        ),
        f"In tokens: {'; '.join(means)}; {cut} cut at the cap. A reward that pays for length shows a slope.",
    )


def _readers(evidence: Evidence) -> Picture | None:
    judged = [item for item in evidence.read if item.word in ("accept", "reject") and item.scored.reward is not None]
    if not judged:
        return None
    x_labels, x_of = _bins([float(item.scored.reward or 0.0) for item in judged])
    cells = [[0] * len(x_labels) for _ in range(2)]
    for item in judged:
        cells[item.word == "accept"][x_of[float(item.scored.reward or 0.0)]] += 1
    paid = {x_of[float(item.scored.reward or 0.0)] for item in judged if _paid(item.scored, evidence)}
    about = "; ".join(
        f"{word} at reward {label}: {count}"
        for word, row in zip(("rejected", "accepted"), cells, strict=True)
        for label, count in zip(x_labels, row, strict=True)
        if count
    )
    return Picture(
        "Reward against reader",
        drawing.heat(
            cells,
            x_labels,
            ["reject", "accept"],
            kinds=[[_colour(place in paid, accepted) for place in range(len(x_labels))] for accepted in (False, True)],
            title="Reward against reader",
            about=about,
            x_label=f"weighted reward (paid from {evidence.rule.success:g})",
            y_label="",
        ),
        f"{len(judged)} completions as a reader and the reward judge them. Green: they agree. Red: they do not.",
    )


def _colour(paid: bool, accepted: bool) -> str:  # noqa: FBT001  the two judges
    return "good" if paid == accepted else "bad"


def _signal(evidence: Evidence, report: GateReport) -> Picture | None:
    if not report.signal:
        return None
    points = [
        (size, share, int(size) == evidence.generations)
        for size, share in sorted(report.signal.items(), key=lambda pair: int(pair[0]))
    ]
    return Picture(
        "Predicted signal by group size",
        drawing.intervals(
            points,
            title="Predicted signal by group size",
            about="; ".join(
                f"{size}: {share.value:.0%}, {share.low:.0%} to {share.high:.0%}" for size, share, _ in points
            ),
            x_label="num_generations",
            y_label="groups with a signal",
        ),
        "The share of groups whose rewards will differ, with its 95% interval. Groups that do not differ cost a step's "
        "time and teach nothing.",
    )


def _components(report: GateReport) -> Picture | None:
    if len(report.component_shares) < 2:  # noqa: PLR2004  one is all of it
        return None
    shares = list(report.component_shares.items())
    return Picture(
        "Component shares of the variance",
        drawing.bars(
            shares,
            title="Component shares of the variance",
            about="; ".join(f"{name} {share:.0%}" for name, share in shares),
            x_label="share of the variance of the sum within groups",
            y_label="",
        ),
        "Which reward the differences within groups come from: what training will follow.",
    )
