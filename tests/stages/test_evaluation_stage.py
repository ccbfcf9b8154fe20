"""What graded completions say of one model: counts, graders apart from the reward, parts, a judge's errors."""

from collections.abc import Sequence
from typing import Any

import pytest

import evaluations
from llm_finetuning import statistics
from llm_finetuning.stages import evaluate as stage
from llm_finetuning.types import Evaluation, RewardValue, Sample, Score

N = 12

Values = Sequence[Sequence[float | None]]  # one list an item, one value a completion


def evaluated(
    grades: Values, *, paid: Values | None = None, columns: Sequence[dict[str, Any]] | None = None, **setting: Any
) -> Evaluation:
    """Evaluate items whose completions were graded, and paid, like this."""
    samples = [
        Sample(
            sample_id=f"{row}/{index}",
            prompt_id=str(row),
            row=row + 1,
            pass_name="policy",
            index=index,
            prompt="p",
            columns=dict(columns[row]) if columns else {},
            completion="c",
            completion_ids=None,
            tokens=5,
            finish_reason="stop",
            temperature=1.0,
        )
        for row, group in enumerate(grades)
        for index in range(len(group))
    ]
    made = stage.Setting(
        name="m",
        model="some/model",
        greedy=False,
        samples=max(map(len, grades)),
        success_threshold=0.5,
        fingerprint="0" * 64,
        **setting,
    )
    scores = None if paid is None else _scores(samples, "shaped", paid)
    return stage.evaluate(samples, _scores(samples, "right", grades), made, paid=scores)


def _scores(samples: Sequence[Sample], name: str, values: Values) -> list[Score]:
    flat = [value for group in values for value in group]
    return [
        Score(
            sample_id=sample.sample_id,
            prompt_id=sample.prompt_id,
            pass_name="policy",
            values=[RewardValue(name=name, value=value, reason=None, fault=None, seconds=0.0)],
            reward=value,
            advantage=None,
        )
        for sample, value in zip(samples, flat, strict=True)
    ]


def test_graders_decide_and_a_hacked_reward_shows() -> None:
    """The reward is full where no grader sees a success: both numbers stand in the record, apart."""
    found = evaluated([[0.0, 0.0]] * N, paid=[[1.0, 0.9]] * N)
    assert (found.passes["1"].value, found.graders) == (0.0, ["right"])
    assert found.reward is not None
    assert found.reward.value == pytest.approx(0.95)
    assert {name: mean.value for name, mean in found.components.items()} == {"shaped": pytest.approx(0.95), "right": 0}
    item = found.items[0]
    assert (item.grades, item.rewards, item.successes) == ([0.0, 0.0], [1.0, 0.9], 0)
    assert item.values == {"shaped": [1.0, 0.9], "right": [0.0, 0.0]}


def test_without_graders_the_rewards_grade() -> None:
    """Grades and rewards are then the same."""
    found = evaluated([[1.0, 0.0]] * N)
    assert (found.passes["1"].value, found.graders, found.buckets, found.corrected) == (0.5, ["right"], {}, None)
    assert found.items[0].grades == found.items[0].rewards == [1.0, 0.0]
    assert found.items[0].bucket is None


def test_what_a_grader_abstains_on_is_neither_success_nor_failure() -> None:
    """Though the training reward pays for it; the note counts graded completions alone."""
    found = evaluated([[1.0, None], *[[1.0, 1.0]] * (N - 1)], paid=[[0.0, 0.0]] * N)
    assert (found.items[0].n, found.items[0].successes, found.passes["1"].value) == (1, 1, 1.0)
    assert any(f"1 of {2 * N} completions were not scored" in note for note in found.notes)


def test_parts_of_the_items_have_a_figure_of_their_own() -> None:
    """By the column's value as text; what has none is a part too, the last one, and no item is missed."""
    values = ["b", "b", "a", 3, True, None, "", " ", float("nan"), "a"]
    grades = [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0], *[[1.0, 0.0]] * 6]
    columns = [{"topic": value, "from": "web" if row else None} for row, value in enumerate(values)]
    found = evaluated(grades, columns=columns, bucket="topic", source="from")
    assert {name: (share.value, share.n) for name, share in found.buckets.items()} == {
        "3": (0.0, 1),
        "a": (0.75, 2),
        "b": (0.5, 2),
        "true": (0.5, 1),
        stage.NO_BUCKET: (0.5, 4),
    }
    assert list(found.buckets)[-1] == stage.NO_BUCKET
    assert sum(share.n for share in found.buckets.values()) == len(found.items)
    assert [item.source for item in found.items[:2]] == [None, "web"]
    assert [item.bucket for item in found.items[4:7]] == ["true", stage.NO_BUCKET, stage.NO_BUCKET]
    assert found.buckets["b"] == statistics.pass_at_k([(2, 2), (0, 2)], 1)


GOOD = stage.JudgeRecord(true_positives=45, positives=50, true_negatives=40, negatives=50)


def test_a_judges_pass_rate_is_corrected_for_its_errors() -> None:
    """Rogan and Gladen's estimate from what it passed: TPR 0.9 and TNR 0.8 make 0.55 passed 0.5 true."""
    grades = [[1.0, 1.0]] * 5 + [[1.0, 0.0]] * 1 + [[0.0, 0.0]] * 4
    found = evaluated(grades, judge=GOOD)
    assert found.passes["1"].value == pytest.approx(0.55)
    assert found.corrected is not None
    assert found.corrected.value == pytest.approx((0.55 - 0.2) / 0.7)
    assert found.corrected.low < 0.5 < found.corrected.high
    wide = found.corrected.high - found.corrected.low
    assert wide > found.passes["1"].high - found.passes["1"].low


def test_a_judge_that_tells_nothing_corrects_nothing() -> None:
    """And it is said: an interval of all that is possible would look like a number."""
    poor = stage.JudgeRecord(true_positives=26, positives=50, true_negatives=26, negatives=50)
    found = evaluated([[1.0]] * N, judge=poor)
    assert found.corrected is None
    assert any("does not tell right from wrong work well enough" in note for note in found.notes)
    assert evaluated([[1.0]] * N).notes == []


@pytest.mark.parametrize(("samples", "expected"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_pass_at_k_is_told_for_powers_of_two_and_all(samples: int, expected: list[int]) -> None:
    """Never for more than were drawn."""
    assert stage.sizes(samples) == expected


def test_an_evaluation_counts_rows_lengths_and_abstentions() -> None:
    """Success from the threshold on; a completion that no reward scored is named."""
    found = evaluations.of_rewards([[0.5, 0.49, None], [1.0, 1.0, 1.0]], watched=0.25, tokens=5)
    assert [(item.successes, item.n) for item in found.items] == [(1, 2), (3, 3)]
    assert found.passes["1"].value == pytest.approx(0.75)
    assert found.passes["3"].n == 1  # the first row has two scored completions
    assert found.components["watched"].value == 0.25
    assert found.reward is not None
    assert found.reward.value == pytest.approx((0.495 + 1.0) / 2)
    assert found.tokens.value == 5.5
    assert found.cut.value == 0.0
    assert any("1 of 6 completions were not scored" in note for note in found.notes)
