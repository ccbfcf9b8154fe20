"""The curves of a diagnosis: each metric over the steps, with the stretches that findings rest on marked behind it."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from llm_finetuning import console
from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.log import RunLog, Series
from llm_finetuning.diagnosis.record import Diagnosis, DiagnosisFinding
from llm_finetuning.web import drawing

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column

MOST_PARTS = 8  # components, and measures of evaluations alone, that get a picture
MOST_DOTS = 60  # evaluations that are few enough to be seen one by one
HIGHEST = 1e300  # an axis beyond has no width that is a number
POINTS = 400  # of one curve; of a longer log the lowest and the highest of each stretch are drawn

PANELS: Sequence[tuple[str, str, str]] = (  # metric, title, unit
    ("entropy", "Entropy", "nats a token"),
    ("kl", "KL from the reference", "nats a token"),
    ("completions/mean_length", "Length of completions", "tokens"),
    ("completions/clipped_ratio", "Completions cut at the cap", "share"),
    ("frac_reward_zero_std", "Groups without a signal", "share"),
    ("sampling/sampling_logp_difference/mean", "Sampler against trainer", "nats a token"),
    ("sampling/importance_sampling_ratio/mean", "Importance ratio of sampler and trainer", "ratio"),
    ("clip_ratio/region_mean", "Tokens that the clip met", "share"),
    ("grad_norm", "Gradient norm", ""),
)
"""Metrics that are drawn where they are there, beneath the reward and its components."""

FROM_ANYWHERE = ("reward", "completions/mean_length")
"""Metrics whose axis need not begin at 0, beside the components; of all others a low value is to look low."""

KINDS = {"failure": "bad", "consequence": "warn", "watch": "warn"}
"""Role of a finding -> the colour of its stretch; others rest on no range of steps."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture with what stands around it."""

    title: str
    unit: str
    drawn: Markup
    caption: str
    marks: tuple[str, ...]  # colours of its stretches


def pictures(log: RunLog, diagnosis: Diagnosis) -> list[Picture]:
    """Return a picture for each metric that is there: the reward, its components, evaluations, then `PANELS`."""
    parts = {f"rewards/{name}/mean": name for name in log.components}
    titled = [("reward", "Reward", "mean of a batch")]
    if len(parts) > 1:
        titled += [(name, f"Component {part}", "mean of a batch") for name, part in [*parts.items()][:MOST_PARTS]]
    known = {name for name, _, _ in (*titled, *PANELS)} | set(parts)
    titled += [(name, f"Held-out {name}", "") for name in [*_only_held_out(log, known)][:MOST_PARTS]]
    found = [_picture(log, diagnosis, *wanted) for wanted in (*titled, *PANELS)]
    return [picture for picture in found if picture is not None]


def _only_held_out(log: RunLog, drawn: set[str]) -> Iterator[str]:
    for name in log.held_out:
        shown = name.startswith("rewards/") or "/" not in name
        if name not in drawn and name not in log.series and shown and not name.endswith("_std"):
            yield name


def _picture(log: RunLog, diagnosis: Diagnosis, metric: str, title: str, unit: str) -> Picture | None:
    training = _points(log.steps, log.series.get(metric))
    held_out = _points(log.held_out_steps, log.held_out.get(metric))
    if not training and not held_out:
        return None
    course = _course(training)
    shown = [
        drawing.Curve(label="", points=_thinned(training), kind="weak"),
        drawing.Curve(label="", points=_thinned(course), kind="plain"),
        drawing.Curve(label="", points=_thinned(held_out), kind="good", dotted=len(held_out) <= MOST_DOTS),
    ]
    floor = [] if metric in FROM_ANYWHERE or metric.startswith("rewards/") else [0.0]
    title = console.visible(title)  # the name of a component is its author's
    bottom, top = drawing.bounds([*floor, *(value for curve in shown for _, value in curve.points)])
    first, last = diagnosis.first_step, diagnosis.last_step
    if held_out:
        first, last = min(first, held_out[0][0]), max(last, held_out[-1][0])
    marked = _marked(log, diagnosis, metric)
    words = [*_words("training", training), *_words("held-out", held_out), *_bad(log.series.get(metric))]
    said = "; ".join(words)
    marks = [f"marked: {_range(finding, last)}, {finding.code.replace('_', ' ')}" for finding, _ in marked]
    own = [words for words, (_, kind) in zip(marks, marked, strict=True) if kind != "weak"]  # the key says the others
    drawn = drawing.curves(
        [curve for curve in shown if curve.points],
        top=top,
        bottom=bottom,
        first=first,
        last=last,
        stretches=[_stretch(finding, kind, last) for finding, kind in marked],
        title=title,
        about=f"{title} over steps {first:g} to {last:g}. {'. '.join([said, *marks])}",
        x_label="step",
        y_label="",
    )
    return Picture(title, unit, drawn, "; ".join([said, *own]), tuple(kind for _, kind in marked))


def _points(steps: "Column", series: Series | None) -> list[tuple[float, float]]:
    if series is None:
        return []
    import numpy as np

    there = trends.present(series.values) & (np.abs(series.values) < HIGHEST)
    return list(zip(steps[there].tolist(), series.values[there].tolist(), strict=True))


def _course(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the running median of a curve; none where it has so few points that it would be the curve itself."""
    import numpy as np

    if len(points) < trends.ROWS_OF_TREND:
        return []
    smooth = trends.smooth(np.array([value for _, value in points], dtype=float))
    return [(step, float(value)) for (step, _), value in zip(points, smooth, strict=True) if np.isfinite(value)]


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return a curve of at most `POINTS` points that keeps every spike of the whole one."""
    if len(points) <= POINTS:
        return points
    kept: list[tuple[float, float]] = []
    cuts = [round(part * len(points) / (POINTS // 2)) for part in range(POINTS // 2 + 1)]
    for begin, end in itertools.pairwise(cuts):
        stretch = points[begin:end]
        ends = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept


def _marked(log: RunLog, diagnosis: Diagnosis, metric: str) -> list[tuple[DiagnosisFinding, str]]:
    """Return the findings that are marked in a metric's picture: those that rest on it, and the verdict in all.

    One without a size is about numbers that are none, and rests on the metrics that have some.
    """
    series = log.series.get(metric)
    has_bad = series is not None and bool(series.bad.any())
    found = []
    for finding in diagnosis.findings:
        own = finding.effect.metric == metric if finding.effect is not None else has_bad
        ranged = finding.since is not None and finding.role in KINDS
        if ranged and (own or finding is diagnosis.findings[0]):
            found.append((finding, KINDS[finding.role] if own else "weak"))
    return found


def _stretch(finding: DiagnosisFinding, kind: str, last: float) -> drawing.Stretch:
    assert finding.since is not None
    return drawing.Stretch(first=finding.since, last=last if finding.until is None else finding.until, kind=kind)


def _range(finding: DiagnosisFinding, last: float) -> str:
    return f"steps {finding.since:g} to {last if finding.until is None else finding.until:g}"


def _words(name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    """Return where a curve begins and ends: the means of its first and last quarter."""
    if not points:
        return []
    quarter = max(1, len(points) // 4)
    start, end = (
        sum(value for _, value in part) / len(part) for part in (points[:quarter], points[len(points) - quarter :])
    )
    return [f"{name} {start:.3g} -> {end:.3g}"] if len(points) > 1 else [f"{name} {end:.3g}"]


def _bad(series: Series | None) -> list[str]:
    count = int(series.bad.sum()) if series is not None else 0
    return [f"no number in {count} rows"] if count else []
