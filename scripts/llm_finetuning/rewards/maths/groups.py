"""Reading lists, unions, sets, tuples, intervals and ratios."""

import itertools
import re
from collections.abc import Sequence

from llm_finetuning.rewards.maths.cuts import SEPARATORS, closes_last, cut, cut_items, cut_rule
from llm_finetuning.rewards.maths.forms import (
    DOTS,
    Group,
    Matrix,
    Named,
    Ratio,
    Read,
    Region,
    Relation,
    Scalar,
    Span,
    Value,
    Words,
    as_region,
    span_between,
)
from llm_finetuning.rewards.maths.nodes import Node, TooLargeError, UnreadableError, UnsupportedError, number
from llm_finetuning.rewards.maths.regions import minus
from llm_finetuning.rewards.maths.scalars import expression

MAX_ITEMS = 200


def listed(pieces: Sequence[str], separators: Sequence[str], read: Read) -> Value:  # noqa: D103  reads pieces as the kind it is named for
    kept = [piece for piece in pieces if piece]
    if not kept or len(kept) > MAX_ITEMS:
        raise TooLargeError("too many items") if kept else UnreadableError("nothing but separators")
    if len(kept) < len(pieces) - sum(
        one == "," and other in {"and", "or"} for one, other in itertools.pairwise(separators)
    ):
        raise UnreadableError("an empty item")
    if any(piece == DOTS for piece in kept):
        return Group("series", tuple(Words(DOTS) if piece == DOTS else read(piece) for piece in kept))
    items = [part for piece in kept for part in _spread_signs(read(piece))]
    if any(isinstance(item, Words) for item in items) and not all(isinstance(item, Words) for item in items):  # noqa: SIM102  the comment is about the inner test
        # Prose with a comma in it is one text, unless every part of it is an answer of its own.
        if any(isinstance(item, Words) and " " in item.text for item in items):
            raise UnreadableError("prose")
    joined = _joined_regions(items, separators)
    if joined is not None:
        return joined
    items = _with_shared_name(items)
    return items[0] if len(items) == 1 else Group("list", tuple(items))


def _spread_signs(item: Value) -> Sequence[Value]:
    r"""Return the two values of a `\pm 1` among others; any other item alone."""
    return item.items if isinstance(item, Group) and item.kind == "list" and not item.brackets else (item,)


def _with_shared_name(items: Sequence[Value]) -> list[Value]:
    """Turn `x = 1, 2` and `x = 1 or x = 2` into the plain list of values of one variable."""
    if len(items) < 2 or not isinstance(items[0], Named):  # noqa: PLR2004  several
        return list(items)
    name = items[0].name
    if all(isinstance(item, Named) and item.name == name for item in items):
        return [item.value for item in items if isinstance(item, Named)]
    if all(not isinstance(item, Named | Relation | Region) for item in items[1:]):
        return [items[0].value, *items[1:]]
    return list(items)


def _joined_regions(items: Sequence[Value], separators: Sequence[str]) -> Value | None:
    """Return the union (or) or the intersection (and, comma) of inequalities in one variable."""
    if not all(isinstance(item, Region) for item in items):
        return _either(items, separators)
    regions = [item for item in items if isinstance(item, Region)]
    names = {region.name for region in regions}
    if len(names) > 1 or "" in names:
        return _either(items, separators)
    if "or" in separators or "\\lor" in separators:
        return Region(tuple(span for region in regions for span in region.spans), regions[0].name)
    spans = [region.spans for region in regions]
    if len(regions) == 2 and all(len(one) == 1 for one in spans):  # noqa: PLR2004  a pair
        first, second = spans[0][0], spans[1][0]
        if first.low is not None and first.high is None and second.low is None:
            return Region((Span(first.low, second.high, first.has_low, second.has_high),), regions[0].name)
        if second.low is not None and second.high is None and first.low is None:
            return Region((Span(second.low, first.high, second.has_low, first.has_high),), regions[0].name)
    return None


def _either(items: Sequence[Value], separators: Sequence[str]) -> Value | None:
    r"""Read `(-\infty, -1) or (1, \infty)` as a union: pairs are intervals where one of them can be nothing else."""
    if not set(separators) <= {"or", "\\lor"} or not any(_is_interval(item) for item in items):
        return None
    regions = [as_region(item) for item in items if not isinstance(item, Group) or item.kind == "tuple"]
    if len(regions) < len(items) or any(region is None or region.name for region in regions):
        return None
    return Region(tuple(span for region in regions if region is not None for span in region.spans))


def _is_interval(item: Value) -> bool:
    region = as_region(item)
    return isinstance(item, Region) or any(None in {span.low, span.high} for span in (region.spans if region else ()))


_EVENT = re.compile(r"[A-Z](?:'|\s*\^\s*(?:c|\{\s*c\s*\}))?")


def of_named_sets(pieces: Sequence[str], sign: str) -> Value | None:
    r"""Read `A \cup B` as words that do not depend on the order, None where the pieces are no letters."""
    if not all(_EVENT.fullmatch(piece) for piece in pieces):
        return None
    return Words(" ".join([sign, *sorted("".join(piece.split()) for piece in pieces)]))


def united(pieces: Sequence[str], read: Read) -> Value:  # noqa: D103  likewise
    spans: list[Span] = []
    name = ""
    for piece in pieces:
        value = read(piece)
        if isinstance(value, Region):
            name = name or value.name
        region = as_region(value)
        if region is None:
            raise UnsupportedError("a union of something else than sets")
        spans.extend(region.spans)
    return Region(tuple(spans), name)


def ratio(pieces: Sequence[str]) -> Value:  # noqa: D103  likewise
    if any(piece == DOTS for piece in pieces):
        return Group(
            "series", tuple(Words(DOTS) if piece == DOTS else Scalar(expression(piece)) for piece in pieces), "::"
        )
    return Ratio(tuple(expression(piece) for piece in pieces))


_NAMED_SETS = re.compile(
    r"\\(?:mathbb|mathbf|mathcal)\s*\{?\s*([RZNQC])\s*\}?(?P<part>\s*[\^_]\s*(?:[-+]|\{\s*(?:[-+]|(?:>|\\ge)\s*0)\s*\}))?|(?<![A-Za-z])(?:all real numbers|all reals|the real numbers)(?![A-Za-z])"  # noqa: E501  a pattern, whole on a line
)
_BRACKETED = re.compile(r"(?P<open>\\\{|\\langle|[(\[])(?P<inside>.*)(?P<close>\\\}|\\rangle|[)\]])", re.DOTALL)
_BUILDER = re.compile(
    r"(?P<name>[A-Za-z](?:_\w)?(?:\s*(?:\\in|in)\s*\\mathbb\s*\{?\s*R\s*\}?)?)\s*(?:\||:)\s*(?P<rule>.*)", re.DOTALL
)


def bracketed(text: str, read: Read) -> Value | None:  # noqa: C901, PLR0911  one return a kind of bracketed thing
    """Read a set, tuple or interval whose bracket opens at the start and closes at the end."""
    named = _named_set(text)
    if named is not None:
        return named
    without = _without(text, read)
    if without is not None:
        return without
    match = _BRACKETED.fullmatch(text)
    if match is None or not closes_last(text):
        return None
    opening, closing, inside = match["open"], match["close"], match["inside"].strip()
    if opening == "\\{":
        return _set(inside, read)
    pieces, separators = cut_items(inside)
    if not separators:
        if opening == "[" and closing == "]" and inside.startswith("["):
            raise UnsupportedError("a nested list of one")
        return None
    items = tuple(read(piece.strip()) for piece in pieces)
    both = _with_both_signs(items)
    if both is not None:
        return both
    brackets = ("(" if opening == "\\langle" else opening) + (")" if closing == "\\rangle" else closing)
    if (
        opening == "["
        and closing == "]"
        and all((isinstance(item, Group) and item.brackets == "[]") or isinstance(item, Region) for item in items)
    ):
        rows = _rows_of(items)
        if rows is not None:
            return Matrix(rows)
    if len(items) == 2 and brackets != "()" and opening != "\\langle":  # noqa: PLR2004  an interval
        low, high = items
        if isinstance(low, Scalar) and isinstance(high, Scalar):
            return Region((span_between(low.node, high.node, has_low=brackets[0] == "[", has_high=brackets[1] == "]"),))
        raise UnsupportedError("an interval of something else than numbers")
    if brackets not in {"()", "[]"}:
        raise UnreadableError("brackets that do not match")
    return Group("tuple", items, "<>" if opening == "\\langle" else brackets)


def _named_set(text: str) -> Value | None:
    r"""Read `\mathbb{Z}`, and `\mathbb{R}^+` as a region."""
    named = _NAMED_SETS.fullmatch(text)
    if named is None:
        return None
    whole_line = named[1] in {"R", None}
    part = re.sub(r"[\s{}^_]", "", named["part"] or "").replace("\\", "")
    if part:
        return _half(part) if whole_line else Words(f"set {named[1]}{'+' if part == '>0' else part}")
    return Region((Span(None, None, has_low=False, has_high=False),)) if whole_line else Words(f"set {named[1]}")


def transposed(value: Value) -> Value | None:
    """Return a matrix turned over, a row or tuple of numbers as a column, None for anything else."""
    if isinstance(value, Matrix):
        return Matrix(tuple(zip(*value.rows, strict=True)))
    if isinstance(value, Group) and value.kind == "tuple" and all(isinstance(item, Scalar) for item in value.items):
        return Matrix(tuple((item.node,) for item in value.items if isinstance(item, Scalar)))
    rows = _rows_of([value]) if isinstance(value, Region) else None
    return Matrix(tuple((cell,) for cell in rows[0])) if rows else None


def _half(part: str) -> Region:
    """Return the positive, negative or not negative numbers."""
    zero = number(0)
    if part == "-":
        return Region((Span(None, zero, has_low=False, has_high=False),))
    return Region((Span(zero, None, has_low=part == "ge0", has_high=False),))


def _with_both_signs(items: Sequence[Value]) -> Value | None:
    r"""Return `(\pm 1, 0)` as the list of its two tuples, None where not exactly one item has both signs."""
    signed = [place for place, item in enumerate(items) if len(_spread_signs(item)) > 1]
    if len(signed) != 1:
        return None
    before, after = tuple(items[: signed[0]]), tuple(items[signed[0] + 1 :])
    return Group(
        "list", tuple(Group("tuple", (*before, item, *after), "()") for item in _spread_signs(items[signed[0]]))
    )


def _rows_of(items: Sequence[Value]) -> tuple[tuple[Node, ...], ...] | None:
    """Return `[[1,2],[3,4]]` as rows; a row of two was read as an interval."""
    rows: list[tuple[Node, ...]] = []
    for item in items:
        if isinstance(item, Region):
            span = item.spans[0]
            if len(item.spans) != 1 or span.low is None or span.high is None or not (span.has_low and span.has_high):
                return None
            rows.append((span.low, span.high))
        elif isinstance(item, Group) and all(isinstance(part, Scalar) for part in item.items):
            rows.append(tuple(part.node for part in item.items if isinstance(part, Scalar)))
        else:
            return None
    return tuple(rows) if len({len(row) for row in rows}) == 1 else None


def _set(inside: str, read: Read) -> Value:
    builder = _BUILDER.fullmatch(inside)
    if builder:
        value = read(builder["rule"])
        if isinstance(value, Region):
            return value
        raise UnsupportedError("a set by a rule")
    if not inside:
        return Group("set", ())
    pieces, _ = cut_items(inside)
    if any(piece.strip() == DOTS for piece in pieces):
        return Group(
            "series",
            tuple(Words(DOTS) if piece.strip() == DOTS else read(piece.strip()) for piece in pieces),
            "{}",
        )
    if len(pieces) == 1 and cut(inside, SEPARATORS)[1]:
        pieces = cut(inside, SEPARATORS)[0]
    if any(mark in inside for mark in (":", "|")) and cut_rule(inside):
        raise UnsupportedError("a set by a rule")
    items = [read(piece.strip()) for piece in pieces]
    spread: list[Value] = []
    for item in items:
        spread.extend(item.items if isinstance(item, Group) and item.kind == "list" else [item])
    return Group("set", tuple(spread))


_TAKEN = re.compile(r"^(\\mathbb\s*\{?\s*[RZNQC]\s*\}?)\s*-\s*(?=\\\{)")  # a set without points, written with a minus


def _without(text: str, read: Read) -> Value | None:
    r"""Read `\mathbb{R} \setminus \{0\}` as the spans that are left."""
    if "\\setminus" not in text and "\\mathbb" not in text:
        return None
    pieces, found = cut(_TAKEN.sub(r"\1\\setminus ", text), frozenset(["\\setminus"]))
    if len(found) != 1:
        return None
    base, taken = (
        as_region(read(pieces[0].strip())),
        as_region(read(pieces[1].strip())),
    )
    if base is None or taken is None:
        raise UnsupportedError("a difference of sets")
    return Region(minus(base.spans, taken.spans), base.name)
