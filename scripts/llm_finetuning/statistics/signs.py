"""Tests that ask whether every sign could as well have been the other one.

Sources: Fisher (1935) for the sign-flip test, which is McNemar's exact one where an item has one completion; Dixon and
Mood (1946) for the sign test.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

EXACT_ITEMS = 500  # differing items up to which signs are counted out; beyond, the normal approximation is as good
_FINEST = 1000  # parts of one that differences may come in to be counted out


def sign_flip(differences: Sequence[Fraction]) -> float:
    """Return the two-sided p-value of a sum of differences when each could as well have had the other sign.

    Counted out over all signs for up to `EXACT_ITEMS` items that differ, else by the normal distribution.
    """
    unequal = [value for value in differences if value]
    if not unequal:
        return 1.0
    parts = math.lcm(*(value.denominator for value in unequal))
    if len(unequal) > EXACT_ITEMS or parts > _FINEST:
        spread = math.sqrt(math.fsum(float(value) ** 2 for value in unequal))
        return math.erfc(abs(float(sum(unequal))) / spread / math.sqrt(2))
    steps = [int(value * parts) for value in unequal]
    width = len(steps)  # bits in which one count fits: the big number is a row of counts, one for each sum
    counts = 1
    for step in steps:
        counts += counts << (2 * abs(step) * width)
    whole, seen = sum(map(abs, steps)), abs(sum(steps))
    row = f"{counts:0{(2 * whole + 1) * width}b}"
    far = [place for place in range(2 * whole + 1) if abs(place - whole) >= seen]
    as_far = sum(int(row[place * width : (place + 1) * width], 2) for place in far)
    return float(Fraction(as_far, 1 << len(steps)))


def sign_test(won: int, lost: int) -> float:
    """Return the two-sided p-value of so many wins and losses when either were as likely, counted out; 1.0 for none.

    The exact binomial test at one half. Ties are left out before: they say nothing of which side is better (Dixon and
    Mood 1946, "The statistical sign test", J. Am. Stat. Assoc. 41:557). Each win or loss is taken as independent of the
    others: of several matches on one item, count one. Raises ValueError for a negative count.
    """
    if min(won, lost) < 0:
        raise ValueError(f"sign test: {won} won, {lost} lost: a count is at least 0")
    n, ways, tail = won + lost, 1, 0
    for place in range(min(won, lost) + 1):
        tail += ways
        ways = ways * (n - place) // (place + 1)
    return min(1.0, 2 * tail / (1 << n))
