"""Texts that are the same and texts that are nearly the same: pure functions over lists of texts.

Exact: equal after Unicode compatibility folding, without regard to case, white space, characters that nobody sees, and
words that hide letters of another script among those they look like. Near: the sets of their word 3-grams (shingles;
Broder, "On the resemblance and containment of documents", 1997) have a Jaccard similarity of at least 0.8. Shingles
that stand in more than a twentieth of the texts, and in more than three, are a template's and do not count. The pairs
are found without comparing all: two sets this similar share one of their rarest shingles (prefix filtering; Bayardo, Ma
and Srikant, "Scaling up all pairs similarity search", 2007), so none is missed.
"""

import math
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.look_alikes import unmixed
from llm_finetuning.rewards.invisible import INVISIBLE

WORDS = 3  # of a shingle
SIMILAR = 0.8  # Jaccard similarity from which two texts are near duplicates
TEMPLATE_SHARE = 0.05  # of the texts: a shingle in more of them belongs to a template
TEMPLATE_TEXTS = 3  # in as many texts a shingle may stand in any case
MAX_SHINGLES = 20_000_000  # of all texts together; of longer texts the first words count
MAX_COMPARISONS = 1_000_000
MAX_CANDIDATES = 20_000_000  # looked at, of which most are told apart by their length or joined already

METHOD = (
    f"near: {SIMILAR:.0%} of the {WORDS}-word shingles in common (exact Jaccard), those of a shared template left out"
)

_UNSEEN = re.compile(f"[{INVISIBLE}]")

# A word, one letter of a script without spaces, or a sign: 2 + 3 is another question than 2 * 3.
_TOKEN = re.compile(r"[a-z0-9\u00c0-\u052f]+|[^\W_]|[^\s\w.,:;?'\"]")


@dataclass(frozen=True, slots=True)
class Near:
    """Which texts are nearly the same, by their places."""

    groups: list[list[int]]  # of near and exact duplicates together; only groups with a near pair
    complete: bool  # False: too many candidates, so that not all were compared


def folded(text: str) -> str:
    """Return the text as exact comparison sees it: without zero-width spaces and the like, and without disguises.

    A Cyrillic letter for the Latin one that it looks like hides a text from a comparison, and from no model that read
    it. What looks alike is told before case is folded, since capitals and small letters look like different ones.
    """
    shown = text if text.isascii() else unmixed(_UNSEEN.sub("", unicodedata.normalize("NFKC", text)))
    return " ".join(shown.casefold().split())


def same(texts: Sequence[str]) -> list[list[int]]:
    """Return the places of equal texts, one list of at least two for each text that is there more than once."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    return [found for found in places.values() if len(found) > 1]


def near(texts: Sequence[str]) -> Near:
    """Return the groups of near duplicates among folded texts, no two of which are equal."""
    sets, prefixes = _shingle_sets(texts)
    index: dict[int, list[int]] = {}
    parent = list(range(len(texts)))
    budget = _Budget()
    # By size, so that a text meets only those that are no longer than itself and long enough for the similarity.
    for place in sorted(range(len(texts)), key=lambda place: len(sets[place])):
        own = sets[place]
        for other in _candidates(prefixes[place], index):
            apart = len(sets[other]) >= SIMILAR * len(own) and _root(parent, other) != _root(parent, place)
            if budget.is_spent(compares=apart):
                return Near(_groups(parent), complete=False)
            if apart and _jaccard(own, sets[other]) >= SIMILAR:
                parent[_root(parent, place)] = _root(parent, other)
        _enter(prefixes[place], place, index)
    return Near(_groups(parent), complete=True)


def near_across(texts: Sequence[str], others: Sequence[str]) -> tuple[list[tuple[int, int]], bool]:
    """Return for each text the place of one of `others` that is nearly the same, and whether all were compared."""
    sets, prefixes = _shingle_sets([*texts, *others])
    index: dict[int, list[int]] = {}
    for place in range(len(others)):
        _enter(prefixes[len(texts) + place], place, index)
    pairs: list[tuple[int, int]] = []
    budget = _Budget()
    for place in range(len(texts)):
        own = sets[place]
        for other in _candidates(prefixes[place], index):
            theirs = sets[len(texts) + other]
            alike_in_size = SIMILAR * len(own) <= len(theirs) and SIMILAR * len(theirs) <= len(own)
            if budget.is_spent(compares=alike_in_size):
                return pairs, False
            if alike_in_size and _jaccard(own, theirs) >= SIMILAR:
                pairs.append((place, other))
                break
    return pairs, True


@dataclass(frozen=True, slots=True)
class Across:
    """Which texts stand among others, as (place of the text, place of the first such other)."""

    same: list[tuple[int, int]]  # equal folded texts
    near: list[tuple[int, int]]  # of the rest
    complete: bool  # False: too many candidates, so that not all were compared


def across(texts: Sequence[str], others: Sequence[str]) -> Across:
    """Return which of some folded texts stand among others, exactly or nearly; an empty text stands nowhere."""
    first = {text: place for place, text in reversed(list(enumerate(others))) if text}
    distinct = list(first)
    fresh = [place for place, text in enumerate(texts) if text and text not in first]
    pairs, complete = near_across([texts[place] for place in fresh], distinct)
    return Across(
        same=[(place, first[text]) for place, text in enumerate(texts) if text in first],
        near=[(fresh[here], first[distinct[there]]) for here, there in pairs],
        complete=complete,
    )


@dataclass(slots=True)
class _Budget:
    """What may be looked at and compared, so that no data set holds the audit for longer than a minute."""

    candidates: int = 0
    comparisons: int = 0

    def is_spent(self, *, compares: bool) -> bool:
        self.candidates += 1
        self.comparisons += compares
        return self.candidates > MAX_CANDIDATES or self.comparisons > MAX_COMPARISONS


def _shingle_sets(texts: Sequence[str]) -> tuple[list[Any], list[list[int]]]:
    """Return each text's shingles as an array of 64-bit digests, without those of a template, and its prefix.

    Of the rarest shingles of a text, which are its prefix, two similar texts share at least one; so those that stand in
    one text alone are left out of it.
    """
    import numpy as np

    words_kept = max(WORDS, MAX_SHINGLES // max(1, len(texts)))
    known: dict[str, int] = {}
    sets = [np.unique(_shingles(_TOKEN.findall(text)[:words_kept], known)) for text in texts]
    if not sets:
        return [], []
    # One sort of all gives each shingle's count at its place; to look each up among millions takes ten times as long.
    _, places, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    ends = np.cumsum([len(own) for own in sets])
    most = max(TEMPLATE_TEXTS, TEMPLATE_SHARE * len(texts))
    kept_sets, prefixes = [], []
    for own, often in zip(sets, np.split(counts[places], ends[:-1]), strict=True):
        kept = often <= most
        order = np.lexsort((own[kept], often[kept]))
        ranked, counted = own[kept][order], often[kept][order]
        rarest = len(ranked) - math.ceil(SIMILAR * len(ranked) - 1e-9) + 1 if len(ranked) else 0
        kept_sets.append(ranked)
        prefixes.append(ranked[:rarest][counted[:rarest] > 1].tolist())
    return kept_sets, prefixes


def _shingles(words: Sequence[str], known: dict[str, int]) -> Any:
    """Return the digests of all runs of `WORDS` words; of a shorter text none, since it is compared as a whole."""
    import numpy as np

    if len(words) < WORDS:
        return np.empty(0, dtype=np.uint64)
    for word in words:
        if word not in known:
            data = word.encode(errors="surrogatepass")
            known[word] = zlib.crc32(data) << 32 | zlib.crc32(data[::-1])
    of_words = np.array([known[word] for word in words], dtype=np.uint64)
    digests: Any = np.zeros(len(words) - WORDS + 1, dtype=np.uint64)
    for place in range(WORDS):
        # An odd multiplier makes the sum depend on the order of the words; it wraps, which is what a digest may do.
        digests = digests * np.uint64(0x9E3779B97F4A7C15) + of_words[place : place + len(digests)]
    return digests


def _candidates(prefix: Sequence[int], index: dict[int, list[int]]) -> Iterator[int]:
    seen: set[int] = set()
    for shingle in prefix:
        for place in index.get(shingle, ()):
            if place not in seen:
                seen.add(place)
                yield place


def _enter(prefix: Sequence[int], place: int, index: dict[int, list[int]]) -> None:
    for shingle in prefix:
        index.setdefault(shingle, []).append(place)


def _jaccard(one: Any, other: Any) -> float:
    import numpy as np

    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / (len(one) + len(other) - both) if both else 0.0


def _root(parent: list[int], place: int) -> int:
    while parent[place] != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place


def _groups(parent: list[int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for place in range(len(parent)):
        found.setdefault(_root(parent, place), []).append(place)
    return [group for group in found.values() if len(group) > 1]
