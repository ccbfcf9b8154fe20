"""Versions and the bounds that packages put on each other, as far as releases have numbers."""

import re

Numbers = tuple[int, ...]

_CLAUSE = re.compile(r"\s*(==|!=|>=|<=|~=|>|<)\s*([0-9][^\s,;)]*)\s*")


def numbers(version: str) -> Numbers:
    """Return the release's numbers, as in (2, 13, 0) for 2.13.0+cpu or 2.13.0rc1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def meets(version: str, bounds: str) -> bool:
    """Tell whether a version lies within bounds such as `>=5.10.4,<5.18`; a local part (+cu130) does not count.

    What has no numbers to compare, as a bound on a URL, is taken as met.
    """
    return all(_meets(numbers(version), *clause) for clause in _CLAUSE.findall(bounds))


def split(requirement: str) -> tuple[str, str]:
    """Return name and bounds of a requirement without markers, as in ("torch", "==2.13.0")."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)", requirement)
    if found is None:
        return "", ""
    return re.sub(r"[-_.]+", "-", found[1]).lower(), found[2].strip()


def _meets(version: Numbers, sign: str, bound: str) -> bool:
    if bound.endswith(".*"):
        wanted = numbers(bound)
        same = _padded(version, len(wanted))[: len(wanted)] == wanted
        return same if sign == "==" else not same
    wanted = numbers(bound)
    length = max(len(version), len(wanted))
    have, want = _padded(version, length), _padded(wanted, length)
    if sign == "~=":
        return have >= want and have[: len(wanted) - 1] == want[: len(wanted) - 1]
    return {
        "==": have == want,
        "!=": have != want,
        ">=": have >= want,
        "<=": have <= want,
        ">": have > want,
        "<": have < want,
    }[sign]


def _padded(version: Numbers, length: int) -> Numbers:
    return version + (0,) * (length - len(version))
