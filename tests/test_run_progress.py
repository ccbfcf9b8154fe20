"""How far a run is by its own log: evaluations cost what they cost, apart from steps, and silence is explained."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_finetuning import run_progress

STEP_S, EVALUATION_S = 93.0, 48.0
AT = 1.8e9


class Trainer:
    """The loop of transformers 5 with a clock: what it logs at which second."""

    def __init__(self, options: Mapping[str, Any], most: int, epoch: int) -> None:
        """Take the options of config.yaml, the number of steps, and the steps of an epoch."""
        self.options, self.most, self.epoch = options, most, epoch
        self.at = AT
        self.lines: list[dict[str, Any]] = []

    def log(self, step: int, **metrics: Any) -> None:
        """Add a line of progress.jsonl."""
        self.lines.append({"step": step, "max_steps": self.most, "at": self.at, "metrics": metrics})

    def evaluate(self, step: int) -> None:
        """Measure the held-out rows."""
        self.at += EVALUATION_S
        self.log(step, eval_reward=0.5, eval_runtime=EVALUATION_S, epoch=step / self.epoch)

    def train(self, begun: int, until: int) -> None:
        """Go on from a step to another one, as a start of the run does."""
        self.at += 1000.0
        self.log(begun)
        if self.options["eval_on_start"]:
            self.evaluate(begun)
        for step in range(begun + 1, until + 1):
            self.at += STEP_S
            if step % self.options["logging_steps"] == 0 or step == 1:
                self.log(step, loss=0.5, epoch=step / self.epoch)
            if self.is_due(step):
                self.evaluate(step)

    def is_due(self, step: int) -> bool:
        """Tell whether an evaluation follows a step, by transformers' DefaultFlowCallback."""
        if self.options["eval_strategy"] == "steps":
            return step % self.options["eval_steps"] == 0 or step == self.most
        return self.options["eval_strategy"] == "epoch" and (step % self.epoch == 0 or step == self.most)


@st.composite
def trainings(draw: st.DrawFn) -> tuple[Trainer, int]:
    """Draw a run that was begun, perhaps broken and gone on with, to its end; and the lines of its last start."""
    most, epoch = draw(st.integers(1, 40)), draw(st.integers(1, 15))
    options = {
        "eval_strategy": draw(st.sampled_from(["no", "steps", "epoch"])),
        "eval_steps": draw(st.integers(1, 12)),
        "eval_on_start": draw(st.booleans()),
        "logging_steps": draw(st.integers(1, 3)),
        "max_steps": most,
        "num_train_epochs": 1.0,
    }
    trainer = Trainer(options, most, epoch)
    begun = draw(st.integers(0, most - 1))
    if begun:
        trainer.train(0, begun)
    first = len(trainer.lines)
    trainer.train(begun, most)
    return trainer, first


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trainings())
def test_the_time_left_is_the_time_that_is_left(tmp_path: Path, drawn: tuple[Trainer, int]) -> None:
    """At every line of a run, whatever it evaluates and when: steps at their own pace, evaluations at their own cost.

    Before this start has timed an evaluation, and no earlier one did, those to come count nothing. In a log of every
    third step, whether the one that is due follows is not known before it is logged.
    """
    trainer, first = drawn
    (tmp_path / "config.yaml").write_text(json.dumps({"trainer": trainer.options, "versions": {"trl": "1.16.0"}}))
    for count in range(first + 1, len(trainer.lines) + 1):
        write(tmp_path, trainer.lines[:count])
        found = run_progress.read(tmp_path)
        last = trainer.lines[count - 1]
        assert found is not None
        if last["step"] == trainer.lines[first]["step"]:
            assert found.seconds_left is None
            continue
        coming = sum("eval_runtime" in line["metrics"] for line in trainer.lines[count:])
        timed = any("eval_runtime" in line["metrics"] for line in trainer.lines[:count])
        truth = (trainer.most - last["step"]) * STEP_S + coming * (EVALUATION_S if timed else 0.0)
        assert found.pace == pytest.approx(STEP_S)
        assert found.evaluations_left == coming
        assert found.seconds_left == pytest.approx(truth)
        assert found.measuring == (coming > 0 and trainer.is_due(last["step"]) and "loss" in last["metrics"])


def write(folder: Path, lines: list[dict[str, Any]], *, more: str = "") -> None:
    """Write progress.jsonl."""
    (folder / "logs").mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "logs" / "progress.jsonl").write_text(text + more, "utf-8")


def config(folder: Path, **options: Any) -> None:
    """Write the part of config.yaml that counts."""
    (folder / "config.yaml").write_text(json.dumps({"trainer": options, "versions": {"trl": "1.16.0"}}), "utf-8")


EVALUATED: Mapping[str, tuple[dict[str, Any], int, list[int]]] = {
    "none": ({"eval_strategy": "no", "eval_steps": 2}, 10, []),
    "nothing said": ({}, 10, []),
    "steps": ({"eval_strategy": "steps", "eval_steps": 4}, 8, [4, 8]),
    "and the last step": ({"eval_strategy": "steps", "eval_steps": 4}, 10, [4, 8, 10]),
    "a share of all steps": ({"eval_strategy": "steps", "eval_steps": 0.25}, 10, [3, 6, 9, 10]),
    "as it logs": ({"eval_strategy": "steps", "eval_steps": None, "logging_steps": 5}, 10, [5, 10]),
    "after a delay": ({"eval_strategy": "steps", "eval_steps": 2, "eval_delay": 5}, 9, [6, 8, 9]),
    "epochs": ({"eval_strategy": "epoch", "num_train_epochs": 2.0, "max_steps": -1}, 10, [5, 10]),
    "half an epoch more": ({"eval_strategy": "epoch", "num_train_epochs": 2.5, "max_steps": -1}, 10, [4, 8, 10]),
    "epochs of a length nobody knows yet": (
        {"eval_strategy": "epoch", "num_train_epochs": 1.0, "max_steps": 10},
        10,
        [],
    ),
}


@pytest.mark.parametrize("name", EVALUATED)
def test_evaluations_to_come_are_those_of_the_config(tmp_path: Path, name: str) -> None:
    """As `DefaultFlowCallback` of transformers 5.17.0 decides them; none is made up where the config says nothing."""
    options, most, wanted = EVALUATED[name]
    config(tmp_path, **options)
    for step in range(1, most + 1):
        write(tmp_path, [row(0, most), row(step, most, 90.0 * step, loss=0.5)])
        found = run_progress.read(tmp_path)
        assert found is not None
        assert found.evaluations_left == sum(place >= step for place in wanted)
        assert found.measures_next == (step + 1 in wanted)
        assert found.measuring == (step in wanted)


def row(step: int, most: int, at: float = 0.0, **metrics: Any) -> dict[str, Any]:
    """Return a line, `at` seconds after the beginning."""
    return {"step": step, "max_steps": most, "at": AT + at, "metrics": metrics}


def seen() -> Iterator[tuple[str, list[dict[str, Any]], str, str]]:
    """Yield moments of the run of the first-time user whose report this file answers, and a restart of it."""
    begin = row(0, 4)
    base = row(0, 4, 56.0, eval_reward=0.875, eval_runtime=48.0)
    first = row(1, 4, 149.0, loss=0.1, reward=0.8)
    yield "it has begun", [begin], "measuring the held-out rows before the first step", ""
    yield "the base is measured", [begin, base], "taking the first step", ""
    yield "one step", [begin, base, first], "", "about 5 min left"
    last = row(4, 4, 428.0, loss=0.1)
    yield "the last step", [begin, base, first, last], "measuring the held-out rows", "about 48 s left"
    end = row(4, 4, 480.0, train_runtime=480.0)
    yield "its end", [begin, base, first, last, end], "", "about 48 s left"
    yield "started after its last step", [begin, base, first, last, row(4, 4, 500.0)], "", ""
    again = row(1, 4, 900.0)
    yield (
        "it goes on",
        [begin, base, first, again],
        "measuring the held-out rows before step 2, about 48 s",
        "",
    )
    measured = row(1, 4, 950.0, eval_reward=0.5, eval_runtime=48.0)
    yield (
        "measured once more",
        [begin, base, first, again, measured],
        "taking step 2, the first of this start",
        "",
    )


@pytest.mark.parametrize(("lines", "doing", "left"), [pytest.param(*rest, id=name) for name, *rest in seen()])
def test_what_a_run_does_beside_steps_is_said(
    tmp_path: Path, lines: list[dict[str, Any]], doing: str, left: str
) -> None:
    """For minutes nothing is logged: the held-out rows come before the first step."""
    config(tmp_path, eval_strategy="steps", eval_steps=4, eval_on_start=True)
    write(tmp_path, lines)
    found = run_progress.read(tmp_path)
    assert found is not None
    assert found.doing == doing
    if "train_runtime" not in lines[-1]["metrics"]:
        assert found.time_left == left


def test_evaluations_that_were_never_timed_are_named_beside_the_time(tmp_path: Path) -> None:
    """Their cost is not known and not made up."""
    config(tmp_path, eval_strategy="steps", eval_steps=4)
    write(tmp_path, [row(0, 8), row(2, 8, 100.0, loss=0.1)])
    found = run_progress.read(tmp_path)
    assert found is not None
    assert found.time_left == "about 5 min left and 2 evaluations of the held-out rows"


def test_lines_that_a_kill_cut_are_passed_over(tmp_path: Path) -> None:
    """Also the first line of a start, which was added to half a line: until a whole one follows it has not begun."""
    whole = [row(0, 8), row(2, 8, 100.0, loss=0.1)]
    torn = '{"step": 3, "max_st' + json.dumps(row(2, 8, 500.0)) + "\n"
    write(tmp_path, whole, more='{"step": 3')
    found = run_progress.read(tmp_path)
    assert found is not None
    assert (found.step, found.pace) == (2, 50.0)
    write(tmp_path, whole, more=torn)
    assert run_progress.read(tmp_path) is None
    write(tmp_path, whole, more=torn + json.dumps(row(4, 8, 700.0, loss=0.1)) + "\n")
    found = run_progress.read(tmp_path)
    assert found is not None
    assert (found.step, found.begun) == (4, 4)


def test_a_config_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """What was read is kept only while both files are as they were."""
    config(tmp_path, eval_strategy="no")
    write(tmp_path, [row(0, 8), row(2, 8, 100.0, loss=0.1)])
    before = run_progress.read(tmp_path)
    config(tmp_path, eval_strategy="steps", eval_steps=4)
    after = run_progress.read(tmp_path)
    assert before is not None
    assert after is not None
    assert (before.evaluations_left, after.evaluations_left) == (0, 2)
