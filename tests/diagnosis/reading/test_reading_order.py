"""Which rows of a log count: resumed runs, repeated steps, several runs, files that are being written."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.diagnosis import reading
from llm_finetuning.diagnosis.log import RunLog
from llm_finetuning.errors import Refusal


def read(folder: Path, text: str | bytes, name: str = "x.jsonl") -> RunLog:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return reading.read(path)


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def life(first: int, last: int, reward: float, *, every: int = 1) -> list[dict[str, Any]]:
    return [{"step": step, "loss": 0.1, "reward": reward} for step in range(first, last + 1, every)]


def test_a_resumed_run_is_one_run(tmp_path: Path) -> None:
    """What was logged after the checkpoint from which it went on belongs to a model that is gone."""
    rows = [*life(1, 10, 0.0), {"step": 5, "eval_reward": 0.0}, {"step": 10, "eval_reward": 0.0}, *life(6, 8, 1.0)]
    log = read(tmp_path, lines(rows))
    assert log.steps.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert log.series["reward"].values.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert log.held_out_steps.tolist() == [5]
    assert log.notes == ("training went on before 6: 5 rows of its life before were left out",)


def test_a_run_may_be_resumed_several_times(tmp_path: Path) -> None:
    """The later life counts, also where it went back further than one before it."""
    log = read(tmp_path, lines(life(1, 10, 0.0) + life(6, 9, 1.0) + life(4, 5, 2.0) + life(6, 7, 2.0)))
    assert log.series["reward"].values.tolist() == [0, 0, 0, 2, 2, 2, 2]
    assert log.notes == ("training went on before 4: 11 rows of its life before were left out",)
    log = read(tmp_path, lines(life(1, 10, 0.0) + life(8, 12, 1.0) + life(11, 13, 2.0)))
    assert log.series["reward"].values.tolist() == [0] * 7 + [1] * 3 + [2] * 3
    assert [note.split(":")[1].split()[0] for note in log.notes] == ["3", "2"]


def test_of_several_runs_in_one_file_the_last_counts(tmp_path: Path) -> None:
    """Steps that begin again are another run, and that is said."""
    log = read(tmp_path, lines(life(1, 30, 0.0) + life(1, 20, 1.0)))
    assert log.steps.tolist() == list(range(1, 21))
    assert set(log.series["reward"].values) == {1.0}
    assert log.notes == ("an earlier run in the same log, 30 rows, was left out: its steps begin again",)


def test_a_console_shows_a_restart_by_its_epoch(tmp_path: Path) -> None:
    """A log without steps is counted after the rows of the gone life are left out."""
    text = "".join(f"{{'loss': 0.1, 'reward': {life}, 'epoch': {at / 10}}}\n" for life, at in [(0, 1), (0, 2), (0, 3)])
    text += "Traceback\n{'loss': 0.1, 'reward': 1, 'epoch': 0.2}\n{'eval_reward': 0.5, 'epoch': 0.2}\n"
    log = read(tmp_path, text, "x.log")
    assert not log.numbered
    assert log.steps.tolist() == [1, 2]
    assert log.series["reward"].values.tolist() == [0, 1]
    assert log.held_out_steps.tolist() == [2]


def test_two_runs_of_one_wandb_export(tmp_path: Path) -> None:
    """The run with most values is read, the other named."""
    text = "Step,b - train/reward,a - train/reward,a - train/reward__MIN\n1,0.5,0.25,0\n2,,0.5,0\n3,,0.75,0\n"
    log = read(tmp_path, text, "x.csv")
    assert log.series["reward"].values.tolist() == [0.25, 0.5, 0.75]
    assert log.notes == ("holds 2 runs; a, the one with most values, was read, b not",)


def test_a_step_in_several_rows_is_one_row(tmp_path: Path) -> None:
    """Metrics of one step are merged; of one that was written twice the last value counts, and that is said."""
    rows = [
        {"step": 1, "loss": 0.5, "epoch": 0.1},
        {"step": 1, "reward": 0.25, "epoch": 0.1},
        {"step": 1, "eval_reward": 0.75, "epoch": 0.1},
        {"reward": 0.5, "step": 1},
        {"step": 2, "loss": 0.25, "eval_reward": 0.875},
    ]
    log = read(tmp_path, lines(rows))
    assert log.steps.tolist() == [1, 2]
    assert log.series["loss"].values.tolist() == [0.5, 0.25]
    assert np.array_equal(log.series["reward"].values, [0.5, np.nan], equal_nan=True)
    assert log.held_out["reward"].values.tolist() == [0.75, 0.875]
    assert log.notes == ("1 step logged again; the last value counts",)


def test_the_last_row_counts_whatever_else_it_has(tmp_path: Path) -> None:
    """Rows with the same names are taken together, and yet none between them wins over one after it."""
    rows = [{"reward": 0.125, "loss": 0.5}, {"reward": 0.25}, {"reward": 0.5, "loss": 0.25}]
    log = read(tmp_path, lines([{"step": 1, **row} for row in rows]))
    assert (log.series["reward"].values.tolist(), log.series["loss"].values.tolist()) == ([0.5], [0.25])
    log = read(tmp_path, lines([{"step": 1, "eval_reward": 0.5}, {"step": 1, "eval_reward": 0.25, "loss": 1}]))
    assert log.held_out["reward"].values.tolist() == [0.25]
    assert log.notes == ("1 evaluation logged again; the last value counts",)
    log = read(tmp_path, lines([{"step": 1, "reward": reward} for reward in (0.5, 0.25, 0.125)]))
    assert log.series["reward"].values.tolist() == [0.125]
    assert log.notes == ("1 step logged again; the last value counts",)
    rows = [{"step": step, "reward": 0.5, "loss": 1.0} for step in (1, 1, 2, 2, 3)]
    assert read(tmp_path, lines(rows)).notes == ("2 steps logged again; the last value counts",)


@given(st.permutations(range(1, 13)))
def test_rows_in_no_order_are_sorted(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    """A file sorted in another way is no run that was resumed over and over."""
    folder = tmp_path_factory.mktemp("order")
    falls = sum(later < earlier for earlier, later in itertools.pairwise(steps))
    log = read(folder, lines([{"step": step, "reward": step / 16} for step in steps]))
    assert (np.diff(log.steps) > 0).all()
    assert log.series["reward"].values.tolist() == (log.steps / 16).tolist()
    if falls > 3:
        assert log.steps.tolist() == list(range(1, 13))
        assert "not in the order" in log.notes[0]


def test_few_rows_without_a_step_are_left_out(tmp_path: Path) -> None:
    """They cannot be placed; an evaluation without one belongs to the row before it."""
    rows = [*life(1, 3, 0.5), {"loss": 9.0}, {"eval_reward": 0.25}, {"step": -1, "loss": 9.0}, *life(4, 6, 0.5)]
    log = read(tmp_path, lines(rows))
    assert log.numbered
    assert log.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert 9.0 not in log.series["loss"].values
    assert log.held_out_steps.tolist() == [3]
    assert log.notes == ("2 of 8 rows name no step and were left out",)


def test_rows_of_which_half_name_no_step_are_counted(tmp_path: Path) -> None:
    """Then the steps that some have say nothing, also those of evaluations."""
    rows = [{"step": 7, "loss": 0.5}, {"loss": 0.25}, {"step": 300, "eval_reward": 0.5}, {"step": None, "loss": 0.125}]
    rows.append({"step": 9, "loss": 0.0625})
    log = read(tmp_path, lines(rows))
    assert not log.numbered
    assert log.series["loss"].values.tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert log.steps.tolist() == [1, 2, 3, 4]
    assert log.held_out_steps.tolist() == [2]


def test_one_name_of_the_step_counts(tmp_path: Path) -> None:
    """Wandb's own count of calls runs faster than the trainer's steps and never stands in for them."""
    rows = [{"_step": 3 * step, "train/global_step": step, "train/loss": 0.5} for step in (1, 2, 3)]
    rows.insert(1, {"_step": 4, "train/loss": 0.25})
    log = read(tmp_path, lines(rows))
    assert log.steps.tolist() == [1, 2, 3]
    assert log.series["loss"].values.tolist() == [0.5, 0.5, 0.5]
    only = read(
        tmp_path, lines([{"_step": step, "_runtime": 1, "_timestamp": 2, "train/loss": 0.5} for step in (4, 8)])
    )
    assert only.steps.tolist() == [4, 8]


@pytest.mark.parametrize(
    ("name", "torn"),
    [("x.jsonl", '{"step": 4, "loss": 0.'), ("x.jsonl", '{"step": 4, "los\xe9'), ("x.csv", "4,0."), ("x.csv", "4")],
)
def test_a_line_that_is_being_written_is_left_out(tmp_path: Path, name: str, torn: str) -> None:
    """The log of a run that trains ends anywhere, in a letter too."""
    rows = life(1, 3, 0.5)
    text = lines(rows) if name == "x.jsonl" else "step,loss,reward\n1,0.1,0.5\n2,0.1,0.5\n3,0.1,0.5\n"
    log = read(tmp_path, (text + torn).encode()[: -1 if "\xe9" in torn else None], name)
    assert log.steps.tolist() == [1, 2, 3]
    assert any("torn" in note for note in log.notes)


def test_a_step_cut_in_its_figures_is_no_restart(tmp_path: Path) -> None:
    """`12` that stands as `1` at the end of a growing table would end the life of all rows before it."""
    log = read(tmp_path, "loss,step\n0.5,10\n0.25,11\n0.125,1", "x.csv")
    assert log.steps.tolist() == [10, 11]


def test_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    """A warning between the rows takes nothing with it, and where it stands is said."""
    log = read(tmp_path, lines(life(1, 2, 0.5)) + "warning\n[1]\n" + lines(life(3, 4, 0.5)))
    assert log.steps.tolist() == [1, 2, 3, 4]
    assert log.notes == ("lines 3, 4: no JSON object each; 2 lines left out",)


REFUSED = {
    "empty": ("x.json", "\n", "is empty"),
    "text": ("x.log", "no metric here\n{'a': 1}\n", "no training log was found"),
    "no metrics": ("x.json", '[{"a": 1, "b": 2}]', "none of its 1 rows has a metric of a trainer"),
    "evaluations alone": ("x.jsonl", '{"step": 1, "eval_reward": 0.5}\n' * 2, "no row of training"),
    "summary alone": ("x.json", '[{"train_runtime": 1.0, "reward": 1.0}]', "none of its 1 rows"),
    "binary": ("x.bin", b"\0\1\2" * 99, "no training log was found"),
    "too many names": ("x.json", json.dumps([{f"rewards/{i}": 1.0 for i in range(4001)}]), "4001 different metrics"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    """The line says what, where and how to mend it."""
    name, body, expected = REFUSED[case]
    with pytest.raises(Refusal) as refused:
        read(tmp_path, body, name)
    (line,) = refused.value.lines
    assert line.startswith(str(tmp_path / name))
    assert expected in line
    assert "give" in line or "export" in line or "is it one" in line
    assert "\n" not in line
