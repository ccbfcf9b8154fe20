"""`soft_overlong` and `repetition_penalty`: from the token ids alone, values in range, each completion by itself."""

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.repetition_penalty import RepetitionPenalty
from llm_finetuning.rewards.soft_overlong import SoftOverlong

IDS = st.lists(st.integers(0, 5), max_size=60)
REWARDS = [
    SoftOverlong(max_completion_len=40, soft_punish_cache=15),
    SoftOverlong(max_completion_len=40, soft_punish_cache=0),
    RepetitionPenalty(),
    RepetitionPenalty(ngram_size=1, max_penalty=-0.5),
]


def reasons_and_values(reward: Any, ids: Sequence[list[int] | None]) -> list[tuple[str, float | None]]:
    said: dict[str, list[str]] = {}
    values = reward(
        completions=["x"] * len(ids), prompts=["p"] * len(ids), completion_ids=ids, log_extra=said.__setitem__
    )
    return list(zip(said[f"{reward.__name__}_reason"], values, strict=True))


@pytest.mark.parametrize(
    ("limit", "cache", "length", "expected"),
    [
        (100, 20, 0, ("short_enough", 0.0)),
        (100, 20, 80, ("short_enough", 0.0)),
        (100, 20, 81, ("near_limit", -0.05)),
        (100, 20, 90, ("near_limit", -0.5)),
        (100, 20, 100, ("near_limit", -1.0)),
        (100, 20, 101, ("over_limit", -1.0)),
        (100, 0, 100, ("short_enough", 0.0)),
        (100, 0, 101, ("over_limit", -1.0)),
        (100, 100, 0, ("short_enough", 0.0)),
        (100, 100, 1, ("near_limit", -0.01)),
    ],
)
def test_soft_overlong(limit: int, cache: int, length: int, expected: tuple[str, float]) -> None:
    """Nothing up to the stretch, a line down to -1 at the limit, -1 beyond; a stretch of 0 is a hard step."""
    reward = SoftOverlong(max_completion_len=limit, soft_punish_cache=cache)

    assert [expected] == reasons_and_values(reward, [[7] * length])


@pytest.mark.parametrize(
    ("size", "ids", "expected"),
    [
        (3, [], ("too_short_to_repeat", 0.0)),
        (3, [1, 1], ("too_short_to_repeat", 0.0)),
        (3, [1, 1, 1], ("no_repetition", 0.0)),
        (3, [1, 2, 3, 4, 1, 2], ("no_repetition", 0.0)),
        (3, [1, 2, 3, 1, 2, 3], ("repeats", -0.25)),
        (2, [5, 5, 5, 5, 5], ("repeats", -0.75)),
        (1, [1, 2, 1, 2], ("repeats", -0.5)),
        (3, [9] * 1002, ("repeats", -0.999)),
    ],
)
def test_repetition_penalty(size: int, ids: list[int], expected: tuple[str, float]) -> None:
    """The share of n-grams that repeat an earlier one."""
    ((reason, value),) = reasons_and_values(RepetitionPenalty(ngram_size=size), [ids])

    assert expected == (reason, pytest.approx(value))


@pytest.mark.parametrize("reward", REWARDS, ids=["soft", "step", "trigrams", "tokens"])
def test_unknown_ids_abstain(reward: Any) -> None:
    """A server that does not say its token ids is not the model's fault."""
    assert ("no_token_ids", None) == reasons_and_values(reward, [[1], None])[1]


@pytest.mark.parametrize("reward", REWARDS, ids=["soft", "step", "trigrams", "tokens"])
@given(batch=st.lists(IDS, max_size=6))
def test_any_ids_pay_in_range_and_each_by_itself(reward: Any, batch: list[list[int]]) -> None:
    """Values lie in the declared range and follow the completion when the batch is reversed or split."""
    values = reward(completion_ids=batch)

    assert all(reward.range[0] <= value <= reward.range[1] for value in values)
    assert values == reward(completion_ids=batch[::-1])[::-1]
    assert values == [value for ids in batch for value in reward(completion_ids=[ids])]


@given(shorter=st.integers(0, 300), longer=st.integers(0, 300), cache=st.integers(0, 200))
def test_longer_is_never_cheaper(shorter: int, longer: int, cache: int) -> None:
    """The punishment falls with the length, from 0 for the empty completion."""
    reward = SoftOverlong(max_completion_len=200, soft_punish_cache=cache)
    empty, short, long = reward(completion_ids=[[], [1] * min(shorter, longer), [1] * max(shorter, longer)])

    assert empty == 0.0
    assert short >= long  # type: ignore[operator]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (SoftOverlong, {"max_completion_len": 0, "soft_punish_cache": 0}, "max_completion_len: 0"),
        (SoftOverlong, {"max_completion_len": True, "soft_punish_cache": 0}, "max_completion_len: True"),
        (SoftOverlong, {"max_completion_len": 9.5, "soft_punish_cache": 0}, "max_completion_len: 9.5"),
        (SoftOverlong, {"max_completion_len": 9, "soft_punish_cache": -1}, "soft_punish_cache: -1 is not from 0 to"),
        (SoftOverlong, {"max_completion_len": 9, "soft_punish_cache": 10}, "would punish the empty completion"),
        (SoftOverlong, {"max_completion_len": 9, "soft_punish_cache": 2.0}, "soft_punish_cache: 2.0"),
        (RepetitionPenalty, {"ngram_size": 0}, "ngram_size: 0"),
        (RepetitionPenalty, {"ngram_size": -1}, "ngram_size: -1"),
        (RepetitionPenalty, {"ngram_size": True}, "ngram_size: True"),
        (RepetitionPenalty, {"max_penalty": 0.5}, "max_penalty: 0.5 is not below 0"),
        (RepetitionPenalty, {"max_penalty": 0}, "max_penalty: 0 is not below 0"),
        (RepetitionPenalty, {"max_penalty": float("nan")}, "max_penalty: nan"),
        (RepetitionPenalty, {"max_penalty": float("-inf")}, "max_penalty: -inf"),
    ],
)
def test_unsound_settings_are_refused(kind: Any, options: dict[str, Any], words: str) -> None:
    """What TRL divides by zero for, or pays for, is said when the brief is read."""
    with pytest.raises(ValueError, match=words):
        kind(**options)


@pytest.mark.parametrize("reward", REWARDS, ids=["soft", "step", "trigrams", "tokens"])
def test_a_megatoken_is_quick_and_leaves_no_memory(reward: Any) -> None:
    """A million tokens take under two seconds, and nothing of them is kept."""
    ids = [list(range(500)) * 2000]
    reward(completion_ids=ids)
    tracemalloc.start()
    begun = time.process_time()
    reward(completion_ids=ids)
    taken = time.process_time() - begun
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 2
    assert kept < 100_000
