"""The calls that measure an evaluation's model again: its own options, and names that nothing has."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import evaluations
from llm_finetuning import artifact, brief
from llm_finetuning.evaluating import calls, kept

SERVER = {"server": {"url": "http://127.0.0.1:1/v1", "api_key_env": "KEY"}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with twenty held-out rows, of four completions each."""
    return evaluations.write_run(tmp_path / "run")


def evaluation(
    run: Path, model: str, name: str, *, settings: dict[str, Any] | None = None, greedy: bool = False, samples: int = 4
) -> kept.Kept:
    """Return an evaluation of this model that stands in the run."""
    found = dataclasses.replace(
        evaluations.of_rewards([[1.0] * samples]), name=name, model=model.replace("{run}", str(run)), greedy=greedy
    )
    path = run / "eval" / f"{name}.json"
    return artifact.Artifact(path, artifact.header_for(path, {}, settings), [found])


@pytest.mark.parametrize(
    ("model", "name", "options", "named"),
    [
        ("some/model", "base", "", ""),
        ("some/model", "again", "", " --name again"),
        ("{run}/train/model", "final", " --checkpoint final", ""),
        ("{run}/train/checkpoints/checkpoint-30", "checkpoint-30", " --checkpoint 30", ""),
        ("{run}/train/checkpoints/checkpoint-30", "mine", " --checkpoint 30", " --name mine"),
        ("{run}/train/merged", "merged", " --model {run}/train/merged", ""),
        ("{run}/train/merged-checkpoint-30", "m", " --model {run}/train/merged-checkpoint-30", " --name m"),
        ("hub/other", "other", " --model hub/other", " --name other"),
    ],
)
def test_a_call_names_the_model_as_it_was_named(run: Path, model: str, name: str, options: str, named: str) -> None:
    """The base by nothing, a checkpoint by its step, any other by its folder or id."""
    loaded, found = brief.load(run), evaluation(run, model, name)
    begin = f"finetune evaluate {run}{options.replace('{run}', str(run))}"
    assert calls.drift(loaded, found) == f"{begin} --suite drift{named}"
    assert calls.afresh(loaded, found) == f"{begin} --fresh{named}"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, " --checkpoint final --fresh"),
        ({"samples": 8}, " --checkpoint final --samples 8 --fresh"),
        ({"samples": 1, "greedy": True}, " --checkpoint final --greedy --fresh"),
        (
            {"settings": SERVER},
            " --endpoint http://127.0.0.1:1/v1 --api-key-env KEY --model {run}/train/model --fresh --name final",
        ),
        ({"settings": {"imported": {}}}, " --results PATH --name final"),
    ],
    ids=["as the brief", "more completions", "greedy", "a server", "another program"],
)
def test_a_call_measures_as_was_measured(run: Path, changed: dict[str, Any], expected: str) -> None:
    """As many completions, greedily or not, from the same server; what another program measured is its to measure."""
    found = evaluation(run, "{run}/train/model", "final", **changed)
    assert calls.afresh(brief.load(run), found) == f"finetune evaluate {run}{expected.replace('{run}', str(run))}"


def test_both_are_measured_under_names_that_nothing_has(run: Path) -> None:
    """Not even the completions of a killed evaluation, and the two never have one name."""
    loaded = brief.load(run)
    sides = [evaluation(run, "some/model", "base"), evaluation(run, "{run}/train/model", "final")]
    folder = run / "eval"
    folder.mkdir()
    for name in ("base-2.json", "base-3.samples.jsonl", "base-4.drift.json", "final-16.drift.samples.jsonl"):
        (folder / name).write_text("")
    assert calls.both(loaded, sides) == [
        f"finetune evaluate {run} --name base-5",
        f"finetune evaluate {run} --checkpoint final --name final-2",
        f"finetune compare {run} base-5 final-2",
    ]
    assert calls.both(loaded, sides, samples=16) == [
        f"finetune evaluate {run} --samples 16 --name base-16",
        f"finetune evaluate {run} --checkpoint final --samples 16 --name final-16-2",
        f"finetune compare {run} base-16 final-16-2",
    ]
    elsewhere = dataclasses.replace(sides[1], path=run / "other" / "eval" / "base.json")
    names = [calls.both(loaded, [sides[0], elsewhere])[2].split()[-2:]]
    assert names == [["base-5", "base-6"]]
    longest = "x" * calls.LONGEST_NAME
    (folder / f"{longest}.json").write_text("")
    assert len(calls.another_name(folder, longest)) <= calls.LONGEST_NAME


def test_what_was_promoted_is_made_use_of(run: Path) -> None:
    """An adapter of the run is merged, a model goes on in the next run, and what is not here is exported."""
    loaded = brief.load(run)
    following = calls.free_run(run)
    assert following == run.with_name("run-2")
    folder = run / "train" / "checkpoints" / "checkpoint-30"
    folder.mkdir(parents=True)
    whole, adapter = evaluation(run, "some/tuned", "tuned"), evaluation(run, str(folder), "checkpoint-30")
    assert calls.place(loaded, whole, following) == f"finetune new {run}-2 --from {run} --model some/tuned"
    (folder / "adapter_config.json").write_text("{}")
    assert calls.place(loaded, adapter, following) == f"finetune merge {run} --checkpoint 30"
    served = evaluation(run, "tuned", "tuned", settings=SERVER)
    assert calls.place(loaded, served, following) == f"finetune export {run} tuned tuned.json"
    following.mkdir()
    assert calls.free_run(run) == run.with_name("run-3")
