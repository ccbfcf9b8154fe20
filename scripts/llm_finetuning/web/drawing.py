"""Small pictures as inline SVG: columns, a heat map, shares with intervals, bars, curves with marked stretches.

Every picture is one element with a title and a description, so that a screen reader says what it shows; colours come
from the page's style sheet. All texts are escaped, and their control characters are shown.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from llm_finetuning import console
from llm_finetuning.types import Estimate

_WIDTH, _HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 44
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_ROW = 32  # height of a shift with its label
_LABEL_LENGTH = 34  # characters of a shift's label that fit beside its numbers
_LABELS = 9  # along one axis at most
_LABEL_WIDTH = 80  # of a curve's label, about
_NARROWEST = 2  # of a marked stretch
_COUNTED = 40  # cells of a map that are few enough to have their counts written in them
_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a histogram; `kind` names its colour: plain, good, bad or weak."""

    label: str
    value: float
    kind: str = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over steps; `kind` names its colour, `shares` adds an interval to each point."""

    label: str
    points: Sequence[tuple[float, float]]  # (step, value)
    kind: str = "plain"
    shares: Sequence[tuple[float, Estimate]] = ()
    dotted: bool = False  # each point as a dot on the curve: few and far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A range of steps that is marked behind the curves; `kind` names its colour."""

    first: float
    last: float
    kind: str = "bad"


def columns(bars: Sequence[Column], *, title: str, about: str, x_label: str, y_label: str) -> Markup:
    """Return a histogram whose columns start at 0."""
    top = max(2.0, 2 * math.ceil(max((bar.value for bar in bars), default=0) / 2))  # its half is a whole count too
    step = _INNER_WIDTH / max(1, len(bars))
    every = max(1, -(-len(bars) // _LABELS))
    parts = [_grid(top, percent=False)]
    for place, bar in enumerate(bars):
        x, height = _LEFT + place * step, bar.value / top * _INNER_HEIGHT
        parts.append(
            Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                bar.kind, x + step * 0.08, _TOP + _INNER_HEIGHT - height, step * 0.84, height
            )
        )
        if bar.value and len(bars) <= 2 * _LABELS:
            parts.append(_text(x + step / 2, _TOP + _INNER_HEIGHT - height - 3, f"{bar.value:g}", "value"))
        if place % every == 0:
            parts.append(_text(x + step / 2, _TOP + _INNER_HEIGHT + 14, bar.label, "tick"))
    return _picture(parts, title, about, x_label, y_label)


def heat(
    cells: Sequence[Sequence[int]],
    xs: Sequence[str],
    ys: Sequence[str],
    *,
    kinds: Sequence[Sequence[str]] | None = None,
    **words: str,
) -> Markup:
    """Return a map of counts; `cells[row][column]`, rows from the bottom, as are the `kinds` that name colours."""
    most = max((count for row in cells for count in row), default=0) or 1
    width, height = _INNER_WIDTH / max(1, len(xs)), _INNER_HEIGHT / max(1, len(ys))
    parts = []
    for row, counts in enumerate(cells):
        y = _TOP + _INNER_HEIGHT - (row + 1) * height
        if row % max(1, -(-len(ys) // _LABELS)) == 0:
            parts.append(_text(_LEFT - 5, y + height / 2 + 3, ys[row], "tick end"))
        for column, count in enumerate(counts):
            if count:
                parts.append(
                    Markup(
                        '<rect class="{}" fill-opacity="{:.2f}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                    ).format(
                        kinds[row][column] if kinds else "plain",
                        0.15 + 0.55 * (count / most) ** 0.5,
                        _LEFT + column * width,
                        y,
                        width - 0.5,
                        height - 0.5,
                    )
                )
                if len(xs) * len(ys) <= _COUNTED:
                    parts.append(_text(_LEFT + (column + 0.5) * width, y + height / 2 + 4, str(count), "value"))
    every = max(1, -(-len(xs) // _LABELS))
    parts += [
        _text(_LEFT + (place + 0.5) * width, _TOP + _INNER_HEIGHT + 14, label, "tick")
        for place, label in enumerate(xs)
        if place % every == 0
    ]
    return _picture([_frame(), *parts], words["title"], words["about"], words["x_label"], words["y_label"])


def intervals(points: Sequence[tuple[str, Estimate, bool]], **words: str) -> Markup:
    """Return shares in 0..1 with their intervals; a point is (label, share, whether it is the one that is planned)."""
    step = _INNER_WIDTH / max(1, len(points))
    parts = [_grid(1.0, percent=True)]
    for place, (label, share, planned) in enumerate(points):
        x = _LEFT + (place + 0.5) * step
        kind = "good" if planned else "plain"
        low, high, middle = (_TOP + _INNER_HEIGHT * (1 - value) for value in (share.low, share.high, share.value))
        parts += [
            Markup('<line class="whisker {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(
                kind, x, x, low, high
            ),
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="5"/>').format(kind, x, middle),
            _text(x + 8, middle + 4, f"{share.value:.0%}", "value start"),
            _text(x, _TOP + _INNER_HEIGHT + 14, label + (" (planned)" if planned else ""), "tick"),
        ]
    return _picture(parts, words["title"], words["about"], words["x_label"], words["y_label"])


def bars(shares: Sequence[tuple[str, float]], **words: str) -> Markup:
    """Return shares as bars that lie; one below 0 is drawn to the left."""
    low, high = min(0.0, *(share for _, share in shares)), max(1.0, *(share for _, share in shares))
    height = _INNER_HEIGHT / max(1, len(shares))
    scale = _INNER_WIDTH / (high - low)
    zero = _LEFT - low * scale
    parts = [_frame()]
    for place, (label, share) in enumerate(shares):
        y = _TOP + place * height
        parts += [
            Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                "plain" if share >= 0 else "bad",
                min(zero, zero + share * scale),
                y + height * 0.45,
                abs(share) * scale,
                height * 0.4,
            ),
            _text(_LEFT + 4, y + height * 0.36, f"{label}: {share:.0%}", "value start"),
        ]
    return _picture(parts, words["title"], words["about"], words["x_label"], words["y_label"])


def shifts(rows: Sequence[tuple[str, Estimate, str]], *, budget: float | None = None, **words: str) -> Markup:
    """Return differences with their intervals, one below the other, around a line at 0; a row is (label, shift, kind).

    `budget` is the largest fall that is accepted: another line, at its place below 0.
    """
    marks = [0.0] if budget is None else [0.0, -budget]
    low, high = bounds([*marks, *(end for _, gap, _ in rows for end in (gap.low, gap.high))])
    inner = _ROW * len(rows)

    def place(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * _INNER_WIDTH

    parts = [
        Markup('<line class="{}" x1="{x:.1f}" x2="{x:.1f}" y1="{}" y2="{}"/>').format(
            "budget" if mark else "axis", _TOP, _TOP + inner, x=place(mark)
        )
        for mark in marks
    ]
    for number, (label, gap, kind) in enumerate(rows):
        y = _TOP + number * _ROW
        parts += [
            _text(_LEFT, y + 11, f"{_cut(label)}: {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})", "value start"),
            Markup('<line class="whisker {}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(
                kind, place(gap.low), place(gap.high), y + 21, y + 21
            ),
            Markup('<circle class="{}" cx="{:.1f}" cy="{}" r="5"/>').format(kind, place(gap.value), y + 21),
        ]
    for end, kind in ((low, "tick start"), (0.0, "tick"), (high, "tick end")):
        if kind == "tick" or end:
            parts.append(_text(place(end), _TOP + inner + 14, f"{end:+.3g}" if end else "0", kind))
    return _picture(parts, words["title"], words["about"], words["x_label"], "", height=_TOP + inner + _BOTTOM)


def _cut(label: str) -> str:
    return label if len(label) <= _LABEL_LENGTH else label[: _LABEL_LENGTH - 3] + "..."


def curves(
    found: Sequence[Curve],
    *,
    top: float,
    last: float,
    bottom: float = 0.0,
    first: float = 0.0,
    stretches: Sequence[Stretch] = (),
    **words: str,
) -> Markup:
    """Return curves from step `first` to `last`, from value `bottom` to `top`, each with its label beside its end.

    Stretches are marked behind them from the first to the last of their steps, as far as they lie within the picture.
    """
    wide, high = (last - first) or 1.0, (top - bottom) or 1.0

    def place(step: float, value: float) -> tuple[float, float]:
        return _LEFT + (step - first) / wide * _INNER_WIDTH, _TOP + _INNER_HEIGHT * (1 - (value - bottom) / high)

    parts = [_stretch(place, stretch, first, last) for stretch in stretches]
    parts.append(_grid(top, bottom=bottom, percent=False))
    for curve in found:
        seen = [place(step, value) for step, value in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in seen)
        parts.append(Markup('<polyline class="curve {}" points="{}"/>').format(curve.kind, path))
        if curve.dotted:
            parts += [
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(curve.kind, *at) for at in seen
            ]
        for step, share in curve.shares:
            (x, low), (_, upper), (_, y) = (place(step, value) for value in (share.low, share.high, share.value))
            parts += [
                Markup('<line class="whisker {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(
                    curve.kind, x, x, low, upper
                ),
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(curve.kind, x, y),
            ]
        if seen and curve.label:
            parts.append(_text(seen[-1][0] - 4, max(_TOP + 8, _highest(seen) - 8), curve.label, "value end"))
    parts += [
        _text(place(step, 0)[0], _TOP + _INNER_HEIGHT + 14, f"{step:.6g}", "tick")
        for step in (_whole(first + wide * part / 3, wide) for part in range(4))
    ]
    return _picture(parts, words["title"], words["about"], words["x_label"], words["y_label"])


def _highest(seen: Sequence[tuple[float, float]]) -> float:
    """Return the y of the highest place that a curve reaches beside its end, where its label stands."""
    left = seen[-1][0] - _LABEL_WIDTH
    beside = [y for x, y in seen if x >= left]
    for (x, y), (next_x, next_y) in itertools.pairwise(seen):
        if x < left < next_x:
            beside.append(y + (next_y - y) * (left - x) / (next_x - x))
    return min(beside)


def _whole(step: float, wide: float) -> float:
    """Return a step to write on the axis: a whole one where that is hardly another place."""
    return float(round(step)) if wide >= 6 else step  # noqa: PLR2004  two steps between ticks


def _stretch(
    place: Callable[[float, float], tuple[float, float]], stretch: Stretch, first: float, last: float
) -> Markup:
    """Return the mark of a range of steps; one of no width is a line that can be seen."""
    left, right = (place(min(last, max(first, step)), 0)[0] for step in (stretch.first, stretch.last))
    left = min(left, _LEFT + _INNER_WIDTH - _NARROWEST)
    return Markup('<rect class="stretch {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
        stretch.kind, left, _TOP, max(_NARROWEST, right - left), _INNER_HEIGHT
    )


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Return a round bottom and top around values: from 0 where they lie on one side of it, and not far from it."""
    held = [value for value in values if math.isfinite(value)]
    low, high = min(held, default=0.0), max(held, default=1.0)
    if low > 0 and low < high / 2:
        low = 0.0
    elif high < 0 and high > low / 2:
        high = 0.0
    wide = (high - low) or abs(high) or 1.0
    if high == low:
        low, high = (0.0, high) if high > 0 else (low, 0.0) if low < 0 else (0.0, 1.0)
        wide = high - low
    step = 10 ** math.floor(math.log10(wide) - 0.3)
    return float(f"{math.floor(low / step + 1e-9) * step:.6g}"), float(f"{math.ceil(high / step - 1e-9) * step:.6g}")


def _picture(
    parts: Sequence[Markup], title: str, about: str, x_label: str, y_label: str, *, height: int = _HEIGHT
) -> Markup:
    number = next(_ids)
    middle = _TOP + _INNER_HEIGHT / 2
    return Markup(
        '<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="t{number} d{number}">'
        '<title id="t{number}">{title}</title><desc id="d{number}">{about}</desc>{parts}{x}{y}</svg>'
    ).format(
        width=_WIDTH,
        height=height,
        number=number,
        title=console.visible(title),
        about=console.visible(about),
        parts=Markup("").join(parts),
        x=_text(_LEFT + _INNER_WIDTH / 2, height - 8, x_label, "label"),
        y=Markup('<text class="label" transform="translate(11 {:.0f}) rotate(-90)">{}</text>').format(middle, y_label)
        if y_label
        else "",
    )


def _frame() -> Markup:
    return Markup('<path class="axis" d="M{} {}V{}H{}"/>').format(
        _LEFT, _TOP, _TOP + _INNER_HEIGHT, _LEFT + _INNER_WIDTH
    )


def _grid(top: float, *, percent: bool, bottom: float = 0.0) -> Markup:
    lines = [_frame()]
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _INNER_HEIGHT * (1 - share)
        label = f"{share:.0%}" if percent else f"{bottom + (top - bottom) * share:.4g}"
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, _LEFT + _INNER_WIDTH, y, y
            )
        )
        lines.append(_text(_LEFT - 5, y + 4, label, "tick end"))
    return Markup("").join(lines)


def _text(x: float, y: float, words: str, kind: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, console.visible(words))
