"""Values: plain data crosses exactly, subclasses lose their tricks, and hostile messages are refused quickly."""

import collections
import datetime as dt
import enum
import fractions
import time
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.sandbox.box import frames
from llm_finetuning.sandbox.box.values import MAX_DEPTH, Decoder, Encoder, Malformed, Refused, plain

HASH_MODULUS = (1 << 61) - 1
_DECIMALS = st.decimals().filter(lambda value: not value.is_snan())
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.binary()
    | st.complex_numbers() | _DECIMALS | st.fractions() | st.dates() | st.datetimes(timezones=st.timezones())
    | st.timedeltas() | st.times()
)  # fmt: skip
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=15,
)
Point = collections.namedtuple("Point", "x y")  # noqa: PYI024  what programs write


class _Level(enum.IntEnum):
    HIGH = 3


class _Liar(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([9])

    def __len__(self) -> int:
        return 77

    def __getitem__(self, key: Any) -> Any:
        return 9

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _Half(float):
    __slots__ = ()

    def __str__(self) -> str:
        return "9"

    __repr__ = __float__ = __str__  # type: ignore[assignment]


class _Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "lie"

    def __getitem__(self, key: Any) -> str:
        return "lie"


def crossed(value: Any, **options: Any) -> Any:
    return Decoder(**options).decode(frames.unpack(frames.pack(plain(value))[4:]))


def alike(left: Any, right: Any) -> bool:
    """Say whether two values have the same types and texts all through: NaN, zero's sign and surrogates count."""
    if type(left) is not type(right):
        return False
    if isinstance(left, set | frozenset):
        return all(any(alike(one, other) for other in right) for one in left) and len(left) == len(right)
    if isinstance(left, dt.datetime):  # a zone is reduced to its offset
        return left.isoformat() == right.isoformat() and left.fold == right.fold
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict):
        return alike(list(left.items()), list(right.items()))
    return bool(left == right) if isinstance(left, int) else repr(left) == repr(right)


@given(VALUES)
def test_plain_data_comes_back_exactly(value: Any) -> None:
    """The same types, the same order, the same bits."""
    assert alike(value, crossed(value))


@pytest.mark.parametrize(
    "value",
    [
        1 << 20_000,
        -(1 << 63),
        "\ud83d\ude00",
        "\ud800",
        float("-inf"),
        -0.0,
        range(10**30),
        slice(1, None, 2),
        ...,
        NotImplemented,
        bytearray(b"\xff"),
        dt.timezone.utc,
        dt.timezone(dt.timedelta(hours=1), "X"),
        collections.OrderedDict([(2, 1), (1, 2)]),
        collections.defaultdict(list, {1: [2]}),
        collections.Counter("aab"),
        collections.deque([1, 2], 5),
        [1, 2.5, None, "a", True, 1 << 70, "é"],
        np.float64(1.5),
        np.int8(3),
        np.bool_(1),
        np.str_("a"),
        np.datetime64("2020-01-01"),
        np.arange(6).reshape(2, 3),
        np.array(3.5),
        np.empty((0, 3)),
        np.array([1, "a", None], dtype=object),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rarer_kinds_come_back_exactly(value: Any) -> None:
    """Each kind of the standard library and numpy that programs return."""
    assert alike(value, crossed(value))


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Point(1, [2]), (1, [2])),
        (_Level.HIGH, 3),
        (_Liar([1, 2]), [1, 2]),
        (_Text("true"), "true"),
        (_Half(0.5), 0.5),
        ({_Text("k"): _Liar([_Level.HIGH])}, {"k": [3]}),
    ],
)
def test_a_subclass_is_reduced_to_what_its_base_holds(value: Any, base: Any) -> None:
    """What it overrides never runs."""
    assert alike(base, crossed(value))


def test_a_zone_becomes_its_offset() -> None:
    """A time of a named zone stays the same moment."""
    moment = dt.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("UTC"))
    assert crossed(moment) == moment


def test_what_is_shared_stays_shared() -> None:
    """A list that stands in three places is one list; equal lists stay several."""
    row = [0]
    grid, other = crossed(([row, row, {"k": row}], [[0], [0]]))
    assert grid[0] is grid[1] is grid[2]["k"]
    assert other[0] is not other[1]


def test_known_objects_cross_as_places() -> None:
    """An answer that returns or holds its argument says so, and a changed argument is told by its contents."""
    argument: list[Any] = [1]
    encoder = Encoder(known=[argument])
    answer, contents = encoder.encode([argument, [1]]), encoder.contents(argument)
    theirs: list[Any] = ["theirs"]
    decoder = Decoder(known=[theirs])
    result = decoder.decode(answer)
    assert result[0] is theirs
    assert result[1] == [1]
    assert decoder.decode(contents) == [1]
    argument.append(argument)
    again = Decoder(known=[theirs]).decode(Encoder(known=[argument]).contents(argument))
    assert again[1] is theirs


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append([value])
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (cyclic(), "contains itself"),
        (nested(100_000), "nested"),
        (nested(MAX_DEPTH), "nested"),
        (object(), "of type object"),
        ([lambda: 0], "of type function"),
        (int, "of type type"),
    ],
    ids=["cycle", "very deep", "deep", "object", "function", "class"],
)
def test_what_is_no_plain_data_is_refused(value: Any, reason: str) -> None:
    """With the reason."""
    with pytest.raises(Refused, match=reason):
        plain(value)


def test_the_deepest_value_crosses() -> None:
    """What may be written can be read."""
    assert crossed(nested(MAX_DEPTH - 1)) == nested(MAX_DEPTH - 1)


@pytest.mark.parametrize(
    "message",
    [
        [],
        [[]],
        ["?", 1],
        ["l"],
        ["l", 3],
        ["l", {"a": 1}],
        {"a": 1},
        ["s", [["l", []]]],
        ["d", [1, 2], [1]],
        ["r", 0],
        ["r", -1],
        ["r", True],
        ["a", 0],
        ["i", "zz"],
        ["u", "zz"],
        ["b", "?"],
        ["F", "1", "0"],
        ["F", "f" * 100_000, "3"],
        ["D", "x"],
        ["E", 0, 0, 0],
        ["Y", 1, 1, 1, 1, 1, 1, 1, 7, None],
        ["U", [], [], "exec"],
        ["k", "exit"],
        ["h", 1, [1]],
        ["n", "O", [3], []],
        ["n", "<f8", [1 << 40], ""],
        ["n", "<f8", [2], "AAAA"],
        ["n", "|V8", [1], "AAAAAAAAAAA="],
        ["n", "|O8", [1], "AAAAAAAAAAA="],
        ["n", "<U0", [1 << 30, 1 << 30], ""],
    ],
    ids=lambda message: repr(message)[:30],
)
def test_a_malformed_message_is_told(message: Any) -> None:
    """Whatever it holds, it is Malformed and nothing else."""
    with pytest.raises(Malformed):
        Decoder().decode(message)


@pytest.mark.parametrize("tag", ["s", "f", "d"])
def test_colliding_hashes_do_not_stall_the_reader(tag: str) -> None:
    """A set or dict of integers of one hash value takes quadratic time to build; the reader stops."""
    keys = [number * HASH_MODULUS for number in range(1, 200_000)]
    message = [tag, keys] if tag != "d" else [tag, keys, keys]
    began = time.monotonic()
    with pytest.raises(Malformed, match="too long"):
        Decoder(deadline=began + 0.5).decode(message)
    assert time.monotonic() - began < 3


def test_fractions_of_many_digits_do_not_stall_the_reader() -> None:
    """Reducing a fraction takes quadratic time; within the bound it is exact."""
    value = fractions.Fraction(3**20_000, 2**20_000)
    assert crossed(value) == value
    assert crossed(Decimal("1E+999999999")) == Decimal("1E+999999999")
