"""Which completions a person is asked to read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.stages import reading
from llm_finetuning.types import RewardValue, Sample, Score


def sample(sample_id: str, text: str, *, prompt_id: str = "p", tokens: int = 10, **rest: Any) -> Sample:
    return Sample(
        **{
            "sample_id": sample_id,
            "prompt_id": prompt_id,
            "row": 1,
            "pass_name": "policy",
            "index": 0,
            "prompt": "?",
            "columns": {},
            "completion": text,
            "completion_ids": None,
            "tokens": tokens,
            "finish_reason": "stop",
            "temperature": 1.0,
            **rest,
        }
    )


def score(sample_id: str, *values: float | None) -> Score:
    parts = [
        RewardValue(name=f"r{place}", value=value, reason=None, fault=None, seconds=0.0)
        for place, value in enumerate(values)
    ]
    known = [value for value in values if value is not None]
    return Score(
        sample_id=sample_id,
        prompt_id="p",
        pass_name="policy",
        values=parts,
        reward=sum(known) if known else None,
        advantage=None,
    )


def plain(n: int) -> list[Sample]:
    return [sample(f"s{place:03}", f"text {place} of many words", prompt_id=f"p{place}") for place in range(n)]


def why(samples: list[Sample], scores: list[Score], count: int) -> dict[str, str]:
    return {item.sample_id: item.why for item in reading.choose(samples, scores, count) if item.part == "chosen"}


def test_each_kind_of_suspicion_is_read() -> None:
    """Components that disagree, extremes, twins, the longest, the shortest and those cut are all among the chosen."""
    samples = plain(200)
    samples += [
        sample("odd", "pays one, not the other", prompt_id="x"),
        sample("best", "a good one", prompt_id="y"),
        sample("worst", "quite another thing here", prompt_id="y"),
        sample("twin1", "the answer to this sum is five as you can see", prompt_id="z"),
        sample("twin2", "The answer to this sum is five as you can see.", prompt_id="z"),
        sample("long", "long", tokens=900),
        sample("short", "s", tokens=1),
        sample("cut", "cut", finish_reason="length"),
    ]
    scores = [score(item.sample_id, 0.0, 0.0) for item in samples]
    scores += [score("odd", 1.0, 0.0), score("best", 1.0, 1.0), score("worst", 0.0, 0.0), score("twin2", 1.0, 1.0)]
    found = why(samples, scores, 60)

    assert found["odd"] == "`r0` pays, `r1` does not"
    assert found["best"].startswith("the highest")
    assert "twin" in found["twin1"] or found["twin1"].startswith(("the lowest", "nearly"))
    assert {"worst", "twin2", "long", "short", "cut"} <= set(found)


def test_the_random_part_is_drawn_from_what_was_not_chosen() -> None:
    """Three fifths are random, none is read twice, and the order is the same each time."""
    samples = plain(300)
    scores = [score(item.sample_id, float(place % 2)) for place, item in enumerate(samples)]
    found = reading.choose(samples, scores, 60)

    assert len({item.sample_id for item in found}) == 60
    assert sum(item.part == "random" for item in found) == 36
    assert found == reading.choose(list(reversed(samples)), scores, 60)
    parts = [item.part for item in found[:20]]
    assert {"random", "chosen"} == set(parts)


def test_what_was_read_stays_and_counts() -> None:
    """After a change of the reward nothing is asked for again."""
    samples = plain(300)
    first = reading.choose(samples, [score(item.sample_id, 0.0) for item in samples], 60)
    scores = [score(item.sample_id, float(place % 2)) for place, item in enumerate(samples)]
    again = reading.choose(samples, scores, 60, first[:50])

    assert again[:50] == first[:50]
    assert len({item.sample_id for item in again}) == 60
    assert reading.choose(samples, scores, 60, first) == first


def test_low_temperature_samples_are_not_read() -> None:
    """Training never draws them."""
    samples = [*plain(5), sample("low", "x", pass_name="low_temperature")]
    assert "low" not in {item.sample_id for item in reading.choose(samples, [], 50)}


def test_a_small_set_is_read_whole_and_at_random() -> None:
    """Where all are read nothing has to be chosen."""
    found = reading.choose(plain(12), [], 60)
    assert len(found) == 12
    assert {item.part for item in found} == {"random"}


@pytest.mark.parametrize("scored", [True, False])
@given(
    rows=st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["a", "b"]), st.one_of(st.none(), st.floats(-1, 1)))),
    count=st.integers(1, 30),
)
def test_any_samples_can_be_chosen_from(scored: bool, rows: list[tuple[str, str, float | None]], count: int) -> None:
    """Whatever was drawn, as many readings come back as can be, all different."""
    samples = [sample(f"s{place}", text, prompt_id=group) for place, (text, group, _) in enumerate(rows)]
    scores = [score(f"s{place}", value) for place, (_, _, value) in enumerate(rows)] if scored else []
    found = reading.choose(samples, scores, count)

    assert len(found) == len({item.sample_id for item in found}) == min(count, len(rows))


def test_a_hundred_thousand_samples_are_chosen_from_in_seconds() -> None:
    """The twins are looked for only as far as needed."""
    import time

    samples = [
        sample(f"s{place}", f"some text {place} with words " * 20, prompt_id=str(place // 16))
        for place in range(100_000)
    ]
    scores = [score(item.sample_id, float(place % 3)) for place, item in enumerate(samples)]
    begun = time.process_time()
    reading.choose(samples, scores, 60)
    assert time.process_time() - begun < 10
