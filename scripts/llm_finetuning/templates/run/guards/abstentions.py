"""When a reward that abstains is a fault: it never answers, falls silent, or abstains on more and more prompts."""

import math
from collections.abc import Sequence

from guards import ending

Tally = dict[int, tuple[int, int]]

ENOUGH_PROMPTS = 32  # a reward that is meant for some prompts alone has met one of them by then, or is meant for few
CHANCE = 0.01  # that a sound run of the length so far was ended by chance, by either rule; spread over its looks
MEND = (
    "what it needs (a judge, a sandbox) fails, and what is left is another objective; mend that and start again, it "
    "goes on from the last checkpoint"
)


class Abstentions:
    """Counts prompts, not completions: a reward abstains for a prompt's sake, so its completions say one thing.

    A brief may hold rewards that abstain by design on prompts that are not theirs. So a share alone says nothing; it
    has to rise above what it was before, by more than chance lets it.
    """

    def __init__(self, names: Sequence[str], share: float, logs: int) -> None:
        """Take the share of prompts from which on abstaining is a fault, and how many logs it has to last."""
        self._share, self._logs = share, logs
        self._seen: dict[str, list[tuple[int, int]]] = {name: [] for name in names}  # a log: prompts, abstained on
        self._warned = False

    def look(self, tallies: Sequence[dict[str, Tally]]) -> str | None:
        """Add one log's tallies of all processes; returns why the run should stop, or None."""
        if not any(tally for of_process in tallies for tally in of_process.values()):
            return None  # a step that reused its completions called no reward
        for name, seen in self._seen.items():
            seen.append(_prompts([of_process[name] for of_process in tallies]))
        rules = (self._fallen_silent, self._rising)
        return self._silent() or next((words for name in self._seen for rule in rules if (words := rule(name))), None)

    def _silent(self) -> str | None:
        """Tell of rewards that never answered: in a line at first, as the end of the run after enough prompts."""
        totals = {name: tuple(map(sum, zip(*seen, strict=True))) for name, seen in self._seen.items()}
        silent = {name: prompts for name, (prompts, abstained) in totals.items() if prompts == abstained}
        uncalled = [name for name, prompts in silent.items() if prompts == 0]
        if uncalled:
            return f"reward {uncalled[0]} was not called in the first step"
        if silent and not self._warned:
            self._warned = True
            ending.say(f"{', '.join(silent)} abstained on every completion of the first step")
        lasting = [name for name, prompts in silent.items() if prompts >= ENOUGH_PROMPTS]
        if not lasting:
            return None
        return (
            f"reward {lasting[0]} has abstained on every completion of the first {silent[lasting[0]]} prompts: it "
            "takes no part in the objective; look at its reasons in completions/, mend it or drop it, and gate anew"
        )

    def _fallen_silent(self, name: str) -> str | None:
        """Tell of a reward that answered and has answered nothing since, for longer than chance lets it.

        One that had answered on every prompt ends the run after enough logs and prompts; one that is for some prompts
        alone is given as much longer as it answered seldom. Each silence is one chance to be wrong, and follows an
        answer: the k-th has CHANCE / (k (k + 1)) of all, which add up to CHANCE.
        """
        seen = self._seen[name]
        answering = [place for place, (prompts, abstained) in enumerate(seen) if abstained < prompts]
        if not answering:
            return None
        heard = answering[-1] + 1
        before, now = _total(seen[:heard]), _total(seen[heard:])
        if len(seen) - heard < self._logs or now[0] < ENOUGH_PROMPTS:
            return None
        if before[1] and _rose(before, now) >= CHANCE / (len(answering) * (len(answering) + 1)):
            return None
        return (
            f"reward {name} abstained on each of the {now[0]} prompts of the last {len(seen) - heard} logs, and on "
            f"{before[1]} of {before[0]} before: {MEND}"
        )

    def _rising(self, name: str) -> str | None:
        """Compare windows of several lengths that end now with all that came before them."""
        seen, length = self._seen[name], self._logs
        windows = max(1, int(math.log2(max(1.0, len(seen) / length))))
        while 2 * length <= len(seen):
            before, now = _total(seen[:-length]), _total(seen[-length:])
            share = now[1] / now[0]
            each = all(abstained > self._share * prompts for prompts, abstained in seen[-length:])
            chance = CHANCE / (len(seen) * windows)
            if each and _above(now, self._share) < chance and _rose(before, now) < chance:
                return (
                    f"reward {name} abstained on {share:.0%} of the prompts of the last {length} logs, and on "
                    f"{before[1]} of {before[0]} before: {MEND}"
                )
            length *= 2
        return None


def _prompts(tallies: Sequence[Tally]) -> tuple[int, int]:
    """Return how many prompts were judged, and on how many most completions got no value."""
    judged: dict[int, list[int]] = {}
    for tally in tallies:
        for row, (completions, abstained) in tally.items():
            sums = judged.setdefault(row, [0, 0])
            sums[0] += completions
            sums[1] += abstained
    return len(judged), sum(2 * abstained > completions for completions, abstained in judged.values())


def _total(seen: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(prompts for prompts, _ in seen), sum(abstained for _, abstained in seen)


def _above(now: tuple[int, int], share: float) -> float:
    """Return the chance of so many abstentions, or more, where each prompt meets one with the probability `share`."""
    n, hits = now
    if not 0.0 < share < 1.0:
        return 0.0 if share <= 0.0 else 1.0
    p, q = math.log(share), math.log1p(-share)
    return math.fsum(math.exp(_log_ways(n, k) + k * p + (n - k) * q) for k in range(hits, n + 1))


def _rose(before: tuple[int, int], now: tuple[int, int]) -> float:
    """Return the chance that so many of all abstentions, or more, fall into the later prompts: Fisher's exact test."""
    n, hits = now
    total, abstained = before[0] + n, before[1] + hits
    every = _log_ways(total, n)
    ways = (_log_ways(abstained, k) + _log_ways(total - abstained, n - k) for k in range(hits, min(n, abstained) + 1))
    return math.fsum(math.exp(way - every) for way in ways)


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf
