"""The points at which expressions are compared, drawn from a seed that is secret and new in every run."""

import functools
import hashlib
import secrets
from fractions import Fraction

_SEED = secrets.token_bytes(16)
_SPREAD = 1 << 40


class Point:
    """Values for the variables; `kind` is positive, signed or whole, `turn` tells points of a kind apart."""

    def __init__(self, kind: str, turn: int) -> None:
        """Name the point; its coordinates follow from the secret seed and each variable's name."""
        self.kind = kind
        self.turn = turn

    def coordinate(self, name: str) -> Fraction:
        """Return this point's value of a variable."""
        return _coordinate(self.kind, self.turn, name)


@functools.lru_cache(maxsize=4096)
def _coordinate(kind: str, turn: int, name: str) -> Fraction:
    digest = hashlib.blake2b(f"{kind}{turn}{name}".encode(), key=_SEED, digest_size=8).digest()
    draw = int.from_bytes(digest, "big")
    if kind == "whole":
        return Fraction(2 + draw % 9)
    size = Fraction(draw % _SPREAD, _SPREAD) * 3 + Fraction(1, 7)
    # By turns all negative, all positive and as drawn: |x + 2| is x + 2, and |60 - x| is 60 - x, on one side alone.
    is_negative = kind != "positive" and (turn % 4 == 0 or (draw >> 63 and turn % 4 != 1))
    if kind == "wide":
        size = size * (40 if turn < 4 else 10**5) + 10  # noqa: PLR2004  the second four lie far out
    return -size if is_negative else size


POINTS: tuple[Point, ...] = (
    Point("positive", 0),
    Point("signed", 0),
    Point("signed", 1),
    Point("positive", 1),
    Point("signed", 2),
)
POINTS += (
    Point("wide", 0),
    Point("wide", 1),
    Point("wide", 2),
    Point("wide", 4),
    Point("wide", 5),
    Point("signed", 3),
    Point("whole", 0),
    Point("whole", 1),
    Point("whole", 2),
    Point("whole", 3),
)
NEEDED_POINTS = 3
