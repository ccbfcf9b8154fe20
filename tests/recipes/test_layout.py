"""The batch layout: TRL's rules, the recipe within them, and layouts to choose from where a brief breaks them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.recipes import layout
from llm_finetuning.recipes.layout import Layout, layout_of

groups = st.integers(2, 64)
processes = st.integers(1, 16)
sizes = st.integers(1, 40)
ratios = st.sampled_from([1, 4])


def holds_whole_groups(batch: Layout) -> bool:
    """TRL's rule, written down once more: GRPOConfig.__post_init__ of TRL 1.16.0."""
    return (batch.per_device * batch.processes * batch.steps_per_generation) % batch.group == 0


@pytest.mark.parametrize(
    ("training", "group", "off_policy", "expected"),
    [
        ({}, 8, 1, (8, 4, 4)),
        ({}, 4, 1, (8, 4, 4)),
        ({}, 16, 1, (8, 8, 8)),
        ({}, 6, 1, (8, 6, 6)),
        ({}, 8, 4, (8, 1, 4)),
        ({"per_device_train_batch_size": 1}, 8, 1, (1, 32, 32)),
        ({"per_device_train_batch_size": 1}, 8, 4, (1, 8, 32)),
        ({"gradient_accumulation_steps": 1}, 8, 1, (8, 1, 1)),
        ({"gradient_accumulation_steps": 1}, 12, 1, (12, 1, 1)),
        ({"gradient_accumulation_steps": 4}, 8, 4, (8, 4, 16)),
        ({"steps_per_generation": 8}, 8, 4, (8, 2, 8)),
        ({"steps_per_generation": 8}, 8, 1, (8, 4, 8)),
        ({"generation_batch_size": 64}, 8, 1, (8, 4, 8)),
        ({"generation_batch_size": 12}, 4, 1, (6, 5, 2)),
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}, 8, 1, (1, 4, 4)),
    ],
    ids=str,
)
def test_the_recipe_fills_in_what_the_brief_leaves_open(
    training: dict[str, int], group: int, off_policy: int, expected: tuple[int, int, int]
) -> None:
    """Four prompts a device and step, whole groups, less memory where asked; named values stand."""
    batch = layout_of(training, group, 1, off_policy=off_policy)

    assert expected == (batch.per_device, batch.accumulation, batch.steps_per_generation)


@given(group=groups, processes=processes, off_policy=ratios, device=st.none() | sizes)
def test_the_recipe_is_valid_and_gives_enough_prompts(
    group: int, processes: int, off_policy: int, device: int | None
) -> None:
    """Whatever the groups, processes and memory: TRL takes it, with four prompts of each process or more at once."""
    training = {} if device is None else {"per_device_train_batch_size": device}
    batch = layout_of(training, group, processes, off_policy=off_policy)

    assert holds_whole_groups(batch)
    assert batch.completions_per_call >= 4 * group
    assert batch.steps_per_generation == off_policy * batch.accumulation
    assert batch.per_device == (device or 8)


@given(group=groups, processes=processes, off_policy=ratios, steps=sizes)
def test_a_named_accumulation_is_kept(group: int, processes: int, off_policy: int, steps: int) -> None:
    """The completions a device follow, as few over the recipe's as whole groups need."""
    batch = layout_of({"gradient_accumulation_steps": steps}, group, processes, off_policy=off_policy)

    assert (steps, True) == (batch.accumulation, holds_whole_groups(batch))
    assert batch.per_device <= max(8, group)


@given(group=groups, processes=processes, device=sizes, steps=sizes, ratio=ratios)
def test_every_layout_that_is_offered_is_valid(group: int, processes: int, device: int, steps: int, ratio: int) -> None:
    """Some are offered, the first with as much memory as asked; groups, processes and off-policy steps stay."""
    wanted = Layout(
        per_device=device, processes=processes, accumulation=steps, steps_per_generation=steps * ratio, group=group
    )
    offered = layout.nearest(wanted)

    assert 1 <= len(offered) <= 3
    assert device == offered[0].per_device
    for one in offered:
        assert holds_whole_groups(one)
        assert (group, processes, ratio) == (one.group, one.processes, one.steps_per_generation // one.accumulation)


@given(group=groups, processes=processes, device=sizes, steps=sizes)
def test_only_what_trl_refuses_is_refused(group: int, processes: int, device: int, steps: int) -> None:
    """A fault is found exactly where a generation is no whole groups."""
    training = {"per_device_train_batch_size": device, "gradient_accumulation_steps": steps}
    batch = layout_of(training, group, processes)

    assert holds_whole_groups(batch) == (not list(layout.faults(batch, training)))
    if holds_whole_groups(batch):
        least = batch.prompts_per_generation
        assert [] == list(layout.faults(batch, training, least))
        assert [True] == [fault.rows for fault in layout.faults(batch, training, least - 1)]


@pytest.mark.parametrize(
    ("training", "group", "processes", "rows", "option", "what", "mend"),
    [
        (
            {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
            8,
            1,
            100,
            "gradient_accumulation_steps",
            "4 completions is no multiple of num_generations 8; TRL refuses it",
            "gradient_accumulation_steps: 8` (1 prompt an optimizer step, 1 completion held at once a device to train",
        ),
        (
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1},
            8,
            1,
            100,
            "gradient_accumulation_steps",
            "4 completions is no multiple of num_generations 8",
            "write `per_device_train_batch_size: 4, gradient_accumulation_steps: 2` (1 prompt",
        ),
        ({"generation_batch_size": 30}, 8, 1, 100, "generation_batch_size", "30 completions", "leave `generation_"),
        (
            {"generation_batch_size": 24, "per_device_train_batch_size": 8},
            4,
            2,
            9,
            "generation_batch_size",
            "16",
            "out",
        ),
        (
            {"generation_batch_size": 32, "steps_per_generation": 4},
            8,
            1,
            100,
            "generation_batch_size",
            "refuses it beside `steps_per_generation`",
            "leave one of them out",
        ),
        ({"steps_per_generation": 3}, 7, 1, 2, "steps_per_generation", "2 rows are fewer than the 3 prompts", "add"),
        (
            {},
            8,
            1,
            3,
            "per_device_train_batch_size",
            "3 rows are fewer than the 4 prompts of one generation batch: TRL trains zero steps and exits 0",
            "add rows, or write `per_device_train_batch_size: 8, gradient_accumulation_steps: 3` (3 prompts",
        ),
        ({}, 8, 1, 0, "per_device_train_batch_size", "0 rows", "add rows"),
    ],
    ids=["B43 first", "B43 second", "batch", "devices", "both", "steps", "too few rows", "no rows"],
)
def test_a_broken_rule_is_told_with_what_to_write(
    training: dict[str, int], group: int, processes: int, rows: int, option: str, what: str, mend: str
) -> None:
    """The nearest layouts are named with the prompts of a step and the completions held at once (B43)."""
    (fault,) = layout.faults(layout_of(training, group, processes), training, rows)

    assert option == fault.option
    assert what in fault.what
    assert mend in fault.mend


@given(group=groups, processes=processes, rows=st.integers(1, 400))
def test_what_is_offered_for_few_rows_trains(group: int, processes: int, rows: int) -> None:
    """Where rows are too few for the recipe, the batch that is offered takes at least one step over them."""
    batch = layout_of({}, group, processes)
    for fault in layout.faults(batch, {}, rows):
        assert fault.rows
        if "write" in fault.mend:
            numbers = [int(part.split(": ")[1]) for part in fault.mend.split("`")[1].split(", ")]
            smaller = Layout(
                per_device=numbers[0],
                processes=processes,
                accumulation=numbers[1],
                steps_per_generation=numbers[1],
                group=group,
            )
            assert layout.steps_of(smaller, rows) >= 1


@pytest.mark.parametrize(
    ("rows", "change", "expected"),
    [
        (100, {}, 25),
        (103, {}, 25),
        (103, {"epochs": 2.0}, 50),
        (100, {"max_steps": 7}, 7),
        (100, {"iterations": 3}, 75),
        (100, {"epochs": 0.5}, 13),
        (3, {"max_steps": 7}, 0),
        (3, {}, 0),
    ],
)
def test_optimizer_steps_are_counted(rows: int, change: dict[str, Any], expected: int) -> None:
    """As transformers counts them, over the generations that the rows fill; none are taken where they fill none."""
    assert expected == layout.steps_of(layout_of({}, 8, 1), rows, **change)


def test_a_step_over_parts_of_generations_is_counted() -> None:
    """Three generations of two micro-batches make one step of four and one of two."""
    batch = layout_of({"steps_per_generation": 2, "gradient_accumulation_steps": 4}, 8, 1)

    assert 2 == layout.steps_of(batch, 6)


def test_off_policy_takes_more_steps_over_the_same_rows() -> None:
    """A generation that serves four steps makes four times as many of them, of a quarter of the prompts."""
    on, off = layout_of({}, 8, 1), layout_of({}, 8, 1, off_policy=4)

    assert (25, 100) == (layout.steps_of(on, 100), layout.steps_of(off, 100))
    assert (4.0, 1.0) == (on.prompts_per_step, off.prompts_per_step)


@given(group=st.integers(1, 32), processes=processes, wanted=sizes)
def test_an_evaluation_holds_whole_groups(group: int, processes: int, wanted: int) -> None:
    """TRL refuses another batch; what the recipe chooses is taken, near what is wanted."""
    size = layout.eval_batch(group, processes, wanted)

    assert 0 == size * processes % group
    assert size <= max(wanted, group)
    assert not list(layout.eval_faults({"per_device_eval_batch_size": size}, group, processes))


def test_an_evaluation_batch_of_parts_of_groups_is_refused() -> None:
    """The next size that fits is named."""
    (fault,) = layout.eval_faults({"per_device_eval_batch_size": 6}, 4, 1)

    assert "write `per_device_eval_batch_size: 4`" == fault.mend


@pytest.mark.parametrize(
    ("hardware", "expected"), [("auto", 1), ("cpu", 1), ("h100", 1), ("8xh100", 4), ("2x8xh100", 8)]
)
def test_processes_are_those_that_train(hardware: str, expected: int) -> None:
    """GPUs that serve vLLM hold no trainer, and machines count."""
    assert expected == layout.processes_of(hardware, {})


@pytest.mark.parametrize(("group", "expected"), [(2, 0.2952), (8, 0.7956)])
def test_two_generations_waste_most_groups(group: int, expected: float) -> None:
    """At a pass rate of 0.18 about 30% of groups of two carry a signal, and about 80% of groups of eight (B38)."""
    assert math.isclose(expected, layout.share_with_signal(0.18, group), abs_tol=1e-4)
