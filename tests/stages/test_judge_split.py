"""Which labels count for a judge, which items are sealed, and what verdicts came to."""

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.stages.calibrate import (
    Floors,
    Item,
    Split,
    Wanting,
    labelled,
    rates_line,
    reasons_line,
    split,
    tally,
    words_of,
)
from llm_finetuning.types import JudgeVerdict, Label, Sample

FLOORS = Floors(50, 20, 0.05)


def sample(name: str, **rest: Any) -> Sample:
    fields = {
        "prompt_id": name.partition("/")[0],
        "row": 1,
        "pass_name": "policy",
        "index": 0,
        "prompt": "p",
        "columns": {},
        "completion": "c",
        "completion_ids": None,
        "tokens": 1,
        "finish_reason": "stop",
        "temperature": 1.0,
    }
    return Sample(sample_id=name, **{**fields, **rest})


def label(name: str, verdict: Any, **rest: Any) -> Label:
    fields = {
        "reader": "ada",
        "reader_kind": "person",
        "note": "",
        "at": "2026-01-20T10:00:00+00:00",
        "seen_sha256": f"seen {name}",
        "source": "page",
    }
    return Label(sample_id=name, verdict=verdict, **{**fields, **rest})


def items(*groups: tuple[int, int]) -> list[Item]:
    """Return items of as many prompts, each with so many passes and fails."""
    return [
        Item(sample(f"q{i}/{place}"), f"s{i}/{place}", f"q{i}", place < passes, ("ada",), ("2026-01-20",))
        for i, (passes, fails) in enumerate(groups)
        for place in range(passes + fails)
    ]


COUNTED: dict[str, tuple[list[Label], Any]] = {
    "accept": ([label("a", "accept")], [True]),
    "reject": ([label("a", "reject")], [False]),
    "unsure": ([label("a", "unsure")], "undecided"),
    "nothing": ([], []),
    "the last word stands": ([label("a", "accept"), label("a", "reject")], [False]),
    "two agree": ([label("a", "accept"), label("a", "accept", reader="bo")], [True]),
    "two differ": ([label("a", "accept"), label("a", "reject", reader="bo")], "contested"),
    "one is unsure": ([label("a", "accept"), label("a", "unsure", reader="bo")], [True]),
    "a program": ([label("a", "accept", reader_kind="program")], "by_program"),
    "the demo": ([label("a", "accept", source="demo")], "by_program"),
    "a program beside a person": (
        [label("a", "accept", reader_kind="program", reader="x"), label("a", "reject")],
        None,
    ),
    "another text was seen": ([label("a", "accept", seen_sha256="old")], []),
    "at low temperature": ([label("low", "accept")], []),
}


@pytest.mark.parametrize(("labels", "expected"), COUNTED.values(), ids=COUNTED)
def test_which_labels_count(labels: list[Label], expected: Any) -> None:
    """A person's decided and uncontested word on what training will draw; what is left out is counted."""
    samples = [sample("a"), sample("low", pass_name="low_temperature")]
    found = labelled(samples, labels, {"a": "seen a", "low": "seen low"}, {"a": "p", "low": "p"})
    counts = {
        "contested": found.contested,
        "undecided": found.undecided,
        "repeated": found.repeated,
        "by_program": found.by_program,
    }

    if expected is None:
        assert ([False], 1) == ([item.passed for item in found.items], found.by_program)
    elif isinstance(expected, str):
        assert found.items == []
        assert counts == {**dict.fromkeys(counts, 0), expected: 1}
    else:
        assert [item.passed for item in found.items] == expected
        assert set(counts.values()) == {0}


def test_one_completion_twice_is_one_item() -> None:
    """Equal completions of a prompt tell no more than one; two words on them are a contest."""
    samples = [sample("a/0"), sample("a/1"), sample("a/2")]
    seen, prompts = {"a/0": "s", "a/1": "s", "a/2": "other"}, dict.fromkeys(("a/0", "a/1", "a/2"), "p")
    same = [label("a/0", "accept", seen_sha256="s", note="so"), label("a/1", "accept", seen_sha256="s", reader="bo")]
    found = labelled(samples, same, seen, prompts)
    assert (1, 1, 0) == (len(found.items), found.repeated, found.contested)
    assert (("ada", "bo"), ("so",)) == (found.items[0].people, found.items[0].notes)

    differing = [same[0], label("a/1", "reject", seen_sha256="s")]
    assert (0, 1) == ((again := labelled(samples, differing, seen, prompts)).items.__len__(), again.contested)


@st.composite
def enough(draw: st.DrawFn) -> list[Item]:
    """Draw items that a test can be made of."""
    groups = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=12, max_size=60))
    found = items(*groups, *[(2, 2)] * 8, *[(1, 3), (3, 1)] * 8)
    return draw(st.permutations(found))


@given(enough(), st.integers(0, 5))
def test_a_split_is_by_prompt_whole_and_large_enough(found: list[Item], seed: int) -> None:
    """No prompt is on two sides, nothing is lost, each class is in the test, and order does not matter."""
    made = split(found, FLOORS, seed=seed)
    assert isinstance(made, Split)
    sealed = Counter(item.passed for item in made.test)

    assert {item.seen for item in made.test} == {item.seen for item in found if made.sides[item.prompt] == "test"}
    assert set(made.sides) == {item.prompt for item in found}
    assert sealed[True] >= 20
    assert sealed[False] >= 20
    assert sealed.total() >= max(53, len(found) / 2)
    again = split(list(reversed(found)), FLOORS, seed=seed)
    assert isinstance(again, Split)
    assert (made.sides, {i.seen for i in made.test}) == (again.sides, {i.seen for i in again.test})


def test_the_shares_and_the_seed() -> None:
    """Half is sealed; the rest goes two to three; another seed seals others."""
    found = items(*[(2, 2)] * 60)
    made = [split(found, FLOORS, seed=seed) for seed in (0, 1)]
    sides = [Counter(one.sides.values()) for one in made if isinstance(one, Split)]

    assert sides == [{"test": 30, "dev": 18, "train": 12}] * 2
    assert len({tuple(sorted(one.sides.items())) for one in made if isinstance(one, Split)}) == 2


def test_a_scarce_class_is_in_the_test_first() -> None:
    """22 of 30 right ones are sealed, so that two may stay without a verdict, though wrong ones abound."""
    made = split(items(*[(1, 0)] * 30, *[(0, 1)] * 300), FLOORS, seed=0)
    assert isinstance(made, Split)

    assert Counter(item.passed for item in made.test) == {True: 22, False: 150}


LACKING = [
    (items((19, 100)), Wanting(1, 0, 0), "1 that people accept"),
    (items((100, 18)), Wanting(0, 2, 0), "2 that people reject"),
    (items((20, 29)), Wanting(0, 0, 1), "1 of either kind"),
    (items((19, 20)), Wanting(1, 0, 10), "1 that people accept, 10 of either kind"),
    ([], Wanting(20, 20, 10), "20 that people accept, 20 that people reject, 10 of either kind"),
]


@pytest.mark.parametrize(("found", "expected", "words"), LACKING, ids=[words for *_, words in LACKING])
def test_what_is_missing_is_counted(found: list[Item], expected: Wanting, words: str) -> None:
    """By class, and then in all."""
    assert split(found, FLOORS, seed=0) == expected
    assert words_of(expected) == words


def test_a_later_split_seals_prompts_that_are_not_known() -> None:
    """What was sealed before is there to read; every other side stays."""
    first = split(items(*[(2, 2)] * 40), FLOORS, seed=0)
    assert isinstance(first, Split)
    assert split(items(*[(2, 2)] * 40), FLOORS, seed=0, known=first.sides) == Wanting(20, 20, 10)
    second = split(items(*[(2, 2)] * 80), FLOORS, seed=0, known=first.sides)
    assert isinstance(second, Split)

    for prompt, side in first.sides.items():
        assert second.sides[prompt] == ("dev" if side == "test" else side)
    assert not {item.prompt for item in second.test} & set(first.sides)


def said(value: float | None, reason: str = "judge_cut") -> JudgeVerdict:
    word = reason if value is None else "pass" if value else "fail"
    return JudgeVerdict(judge="j", question="q", value=value, reason=word, words="")


def test_a_tally_keeps_the_four_cells_and_abstentions_apart() -> None:
    """Each cell from its own pairs; an abstention is in none."""
    pairs = [(True, 1.0)] * 5 + [(True, 0.0)] * 4 + [(False, 0.0)] * 3 + [(False, 1.0)] * 2
    found = tally([*((passed, said(value)) for passed, value in pairs), (True, said(None)), (False, said(None, "x"))])

    assert (5, 4, 3, 2, 2) == (
        found.true_positives,
        found.false_negatives,
        found.true_negatives,
        found.false_positives,
        found.unanswered,
    )
    line = rates_line("dev", found)
    assert "5 of 9 (0.27 to 0.81)" in line  # Wilson's interval, statsmodels 0.15.0
    assert "3 of 5 (0.23 to 0.88)" in line
    assert line.split()[1] == "16"
    assert line.endswith("0.14           2")
    assert reasons_line(found) == "judge_cut 1, x 1"
    assert "-" in rates_line("dev", tally([]))
    assert list(itertools.chain(tally([]).reasons)) == []
