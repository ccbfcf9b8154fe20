"""Choose which completions a person reads: a random part for honest rates, and a part where errors hide.

The chosen part takes by turns from these: a component that pays while another does not; the highest and the lowest
reward of a group; near duplicates in one group that were paid differently; the longest and the shortest; those cut at
the cap. The rest of the count is drawn at random from what was not chosen. Both parts are shuffled together, so that a
reader who stops early has read some of each.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from llm_finetuning.types import Reading, Sample, Score, Text

CHOSEN_SHARE = 0.4  # of what is read
ALIKE = 0.8  # Jaccard index of word triples from which two texts are near duplicates

_MAX_WORDS = 400  # of a text that is compared with its siblings
_ORDER = 0x5EED  # a fixed order lets a reader come back


def choose(
    samples: Sequence[Sample], scores: Sequence[Score], count: int, read: Sequence[Reading] = ()
) -> list[Reading]:
    """Return up to `count` readings of policy samples in reading order; without scores only texts are looked at.

    What was `read` already stands first and counts, so that a changed reward asks for nothing to be read again.
    """
    known = {item.sample_id for item in read}
    count = max(0, count - len(known))
    policy = [sample for sample in samples if sample.pass_name == "policy" and sample.sample_id not in known]
    score_of = {score.sample_id: score for score in scores}
    draw = random.Random(_ORDER)  # noqa: S311  an order, not a secret
    shuffled = sorted(policy, key=lambda sample: sample.sample_id)
    draw.shuffle(shuffled)
    wanted = round(min(count, len(policy)) * CHOSEN_SHARE)
    why = _chosen(shuffled, score_of, wanted) if count < len(policy) else {}
    rest = [sample.sample_id for sample in shuffled if sample.sample_id not in why]
    readings = [Reading(sample_id=sample_id, part="chosen", why=words) for sample_id, words in why.items()]
    readings += [Reading(sample_id=sample_id, part="random", why="") for sample_id in rest[: count - len(why)]]
    draw.shuffle(readings)
    return [*read, *readings]


def _chosen(samples: Sequence[Sample], score_of: Mapping[str, Score], wanted: int) -> dict[str, str]:
    """Return ids with the reason for each, taken by turns from every kind of suspicion."""
    groups = list(_groups(samples).values())
    queues: list[Iterator[tuple[str, str]]] = [
        iter(_disagreeing(samples, score_of)),
        iter(_extremes(groups, score_of)),
        iter(_twins(groups, score_of)),
        iter(_by_length(samples)),
        iter([(sample.sample_id, "cut at the cap") for sample in samples if sample.finish_reason == "length"]),
    ]
    found: dict[str, str] = {}
    while queues and len(found) < wanted:
        queue = queues.pop(0)
        fresh = next(((sample_id, words) for sample_id, words in queue if sample_id not in found), None)
        if fresh is not None:
            found[fresh[0]] = fresh[1]
            queues.append(queue)
    return found


def _groups(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt_id, []).append(sample)
    return groups


def _disagreeing(samples: Sequence[Sample], score_of: Mapping[str, Score]) -> list[tuple[str, str]]:
    """Return samples for which one component pays near its best and another near its worst, seen over all samples."""
    ends: dict[str, tuple[float, float]] = {}
    for score in score_of.values():
        for value in score.values:
            if value.value is not None:
                low, high = ends.get(value.name, (value.value, value.value))
                ends[value.name] = (min(low, value.value), max(high, value.value))
    found = []
    for sample in samples:
        shares = {}
        scored = score_of.get(sample.sample_id)
        for value in scored.values if scored else ():
            low, high = ends.get(value.name, (0.0, 0.0))
            if value.value is not None and high > low:
                shares[value.name] = (value.value - low) / (high - low)
        if len(shares) > 1 and max(shares.values()) - min(shares.values()) > 0.5:  # noqa: PLR2004  past the middle
            best, worst = max(shares, key=lambda name: shares[name]), min(shares, key=lambda name: shares[name])
            found.append((sample.sample_id, f"`{best}` pays, `{worst}` does not"))
    return found


def _extremes(groups: Sequence[Sequence[Sample]], score_of: Mapping[str, Score]) -> list[tuple[str, str]]:
    found = []
    for group in groups:
        paid = [(reward, sample.sample_id) for sample in group if (reward := _reward(sample, score_of)) is not None]
        if paid and max(paid)[0] > min(paid)[0]:
            found += [(max(paid)[1], "the highest reward of its group"), (min(paid)[1], "the lowest of its group")]
    return found


def _twins(groups: Sequence[Sequence[Sample]], score_of: Mapping[str, Score]) -> Iterator[tuple[str, str]]:
    """Yield both of two texts that are nearly the same and are paid differently; looked for only as far as needed."""
    for group in groups:
        rewards = {sample.sample_id: _reward(sample, score_of) for sample in group}
        if len(set(rewards.values())) < 2:  # noqa: PLR2004  nothing differs
            continue
        triples = {sample.sample_id: _triples(_text(sample.completion)) for sample in group}
        for place, one in enumerate(group):
            for other in group[place + 1 :]:
                ids = (one.sample_id, other.sample_id)
                differ = rewards[ids[0]] != rewards[ids[1]]
                if differ and _jaccard(triples[ids[0]], triples[ids[1]]) >= ALIKE:
                    yield ids[0], f"nearly the same as {ids[1]}, paid differently"
                    yield ids[1], f"nearly the same as {ids[0]}, paid differently"


def _by_length(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    """Return the longest and the shortest by turns."""
    ordered = sorted(samples, key=lambda sample: sample.tokens)
    found = []
    for short, long in zip(ordered, reversed(ordered), strict=True):
        found += [(long.sample_id, "among the longest"), (short.sample_id, "among the shortest")]
    return found


def _reward(sample: Sample, score_of: Mapping[str, Score]) -> float | None:
    score = score_of.get(sample.sample_id)
    return score.reward if score else None


def _text(completion: Text) -> str:
    if isinstance(completion, str):
        return completion
    return "\n".join(str(message.get("content") or "") for message in completion)


def _triples(text: str) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text.casefold())[:_MAX_WORDS]
    return frozenset(zip(words, words[1:], words[2:], strict=False)) or frozenset([tuple(words)])


def _jaccard(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other)
