"""The weight of the words that a request shares with each description (inverse document frequency)."""

import math
import re
from collections import Counter
from collections.abc import Mapping

ENDINGS = ("ing", "ed", "es", "s")
SHORTEST_STEM = 3


def stems(text: str) -> set[str]:
    """Return the words of a text without their endings: `graders` and `grader` are one."""
    return {_stem(word) for word in re.findall(r"[a-z0-9_]+", text.lower())}


def _stem(word: str) -> str:
    cut = (word.removesuffix(end) for end in ENDINGS if word.endswith(end) and len(word) - len(end) >= SHORTEST_STEM)
    return next(cut, word)


class Lexicon:
    """The words of all descriptions, each with its weight: much where few have it."""

    def __init__(self, listing: Mapping[str, str]) -> None:
        """Take the descriptions by full name; the words of the name count too."""
        self._words = {name: stems(f"{name} {text}".replace("-", " ")) for name, text in listing.items()}
        self._have = Counter(word for words in self._words.values() for word in words)

    def weight(self, word: str) -> float:
        """Return how much a word says; one that no description has says most, and is shared with none."""
        return math.log(1 + len(self._words) / (self._have[word] + 0.5))

    def shared(self, say: str, name: str) -> float:
        """Return the share, by weight, of a request's words that a description has."""
        asked = stems(say)
        return sum(self.weight(word) for word in asked & self._words[name]) / sum(self.weight(word) for word in asked)
