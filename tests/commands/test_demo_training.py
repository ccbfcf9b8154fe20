"""The demo's second half: from a model that never succeeds, over an SFT and a gate, to held-out sums compared."""

import fcntl
import importlib.util
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief, lineage
from llm_finetuning.commands import demo
from llm_finetuning.demo import road, sums
from llm_finetuning.demo.sizes import Sizes
from llm_finetuning.training_run import TrainingRun

# So few and so steep steps that the real model learns the form within a test's time.
TINY = Sizes(
    prompts=8,
    long=16,
    sft_rows=48,
    sft_batch=16,
    sft_rate=1e-4,
    rows=16,
    steps=2,
    completions=16,
    micro_batch=16,
    every=2,
    held_out=6,
    samples=2,
)


@pytest.mark.model
def test_whole_road_with_tiny_numbers(tmp_path: Path, engine_python: str, model_folder: str) -> None:
    """Never a success, SFT, an open gate, two steps of GRPO, a comparison; a second call goes on where one was cut."""
    way = road.Road(folder=tmp_path, model=model_folder, sizes=TINY, python=engine_python)
    walked = way.walk()

    never, opened = walked.gates
    assert "never-succeeds" in {found.code for found in never.findings}
    assert "short SFT" in road.said(never)
    assert opened.verdict == "open"
    assert walked.before_sft.passes["1"].value == 0.0
    assert walked.comparison.won + walked.comparison.lost + walked.comparison.tied == TINY.held_out
    facts = json.loads(json.dumps(demo._training_facts(walked, tmp_path)))
    assert facts["pass@1"] == {
        "before SFT": 0.0,
        "after SFT": walked.comparison.success.base,
        "after GRPO": walked.comparison.success.candidate,
    }
    assert {"gates", "SFT", "evaluations", "GRPO"} == set(facts["minutes"])
    shown = "\n".join(demo._training_table(walked))
    assert "held-out pass@1, 6 sums that no training saw, 2 completions each\n  before SFT    0.000\n" in shown
    assert road.is_finished(TrainingRun(tmp_path / "grpo" / "train"))
    assert len(list((tmp_path / "grpo" / "train" / "completions").glob("*"))) >= TINY.steps
    # A demo's gate opens nothing outside the demo.
    with pytest.raises(Exception, match="counts for the demo alone"):
        lineage.current_build(brief.load(tmp_path / "grpo"))

    made = [tmp_path / name for name in MADE]
    before = [path.stat().st_mtime_ns for path in made]
    drawn = (tmp_path / "grpo" / "eval" / "final.samples.jsonl").read_bytes()
    (tmp_path / "grpo" / "eval" / "final.json").unlink()  # as if it had been killed before its last step
    again = road.Road(folder=tmp_path, model=model_folder, sizes=TINY, python=engine_python).walk()
    assert again.comparison == walked.comparison
    assert before == [path.stat().st_mtime_ns for path in made]
    assert drawn == (tmp_path / "grpo" / "eval" / "final.samples.jsonl").read_bytes()


MADE = (
    "base/samples.jsonl",
    "base/gate.json",
    "sft/train/build.json",
    "sft/train/model/model.safetensors",
    "grpo/gate.json",
    "grpo/train/build.json",
    "grpo/train/model/model.safetensors",
    "grpo/eval/base.json",
)
"""What a second call leaves as it is."""


def test_a_training_that_outlived_its_demo_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock is held as long as anything of it is alive; where it stands is told once a step."""
    logs = tmp_path / "train" / "logs"
    logs.mkdir(parents=True)
    line = {"step": 3, "max_steps": 30, "at": 0.0, "metrics": {"reward": 0.25}}
    (logs / "progress.jsonl").write_text(json.dumps(line) + "\n")
    lock = (logs / "run.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    begun = time.monotonic()
    threading.Timer(1.5, lock.close).start()
    road._wait_for(TrainingRun(tmp_path / "train"))

    assert time.monotonic() - begun >= 1.4
    assert (
        capsys.readouterr().err == "trains already: step 3 of 30, reward 0.25, taking step 4, the first of this start\n"
    )


def test_no_sum_stands_in_two_sets() -> None:
    """Held-out sums are new to both trainings, in either order of their parts, whatever the sizes of the other sets."""
    sizes = Sizes()
    sets = sums.plain(sizes)
    keys = [{tuple(sorted(map(int, row["id"].split("+")))) for row in rows} for rows in sets]

    assert [len(found) for found in keys] == [sizes.sft_rows, sizes.rows, sizes.held_out]
    assert len(set.union(*keys)) == sum(map(len, keys))
    assert sums.plain(Sizes(sft_rows=8))[2] == sets[2]


def test_demonstrations_are_right_and_in_the_wanted_form() -> None:
    """What SFT teaches is what the reader accepts; rows to train on and held-out ones carry the gold and no answer."""
    demonstrations, train, held_out = sums.plain(Sizes())

    assert all(sums.strict_oracle(row["prompt"], row["completion"]) for row in demonstrations)
    for row in (*train, *held_out):
        assert sums.strict_oracle(row["prompt"], f"The answer is {row['answer']}.")
        assert "completion" not in row


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("The answer is 42.", True),
        (" The answer is 42\n", True),
        ("The answer is 43.", False),
        ("The answer is 042.", False),
        ("The answer is 42. Or is it?", False),
        ("12 + 30 = 42. The answer is 42.", False),
        ("42", False),
        ("", False),
    ],
)
def test_strict_oracle_wants_the_form(completion: str, expected: bool) -> None:
    """It takes the whole completion, as the reward does, with code of its own."""
    prompt = [{"role": "system", "content": "Add."}, {"role": "user", "content": "What is 12 + 30?"}]

    assert expected == sums.strict_oracle(prompt, completion)


def test_the_wrong_reward_pays_talk_above_the_right_answer() -> None:
    """It stays in the range its brief declares, and twelve words of nonsense beat the short right answer."""
    spec = importlib.util.spec_from_file_location("shows_work", road.TEMPLATES / "shows_work.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    said = ["The answer is 42.", "so " * 12, "so " * 100 + "42", ""]
    completions = [[{"role": "assistant", "content": text}] for text in said]
    right, talk, most, least = module.shows_work(completions, ["42"] * len(said))
    assert right == pytest.approx(3.0)
    assert talk == pytest.approx(6.0)
    assert (least, most) == (0.0, pytest.approx(11.0))
    assert "range: [0, 11]" in road.SHOWS_WORK


@pytest.mark.parametrize("rewards", [road.IN_FORM, road.SHOWS_WORK], ids=["right", "wrong"])
def test_briefs_of_the_second_half_are_sound(tmp_path: Path, rewards: str) -> None:
    """Both load, train with the sizes asked for, and the right reward watches where it does not pay."""
    way = road.Road(folder=tmp_path, model="some/model", sizes=TINY, python=None)
    loaded = brief.load(way.write("run", "some/model", rewards=rewards))

    assert loaded.brief.training["max_steps"] == TINY.steps
    assert loaded.brief.training["learning_rate"] == TINY.rate
    assert loaded.brief.sampling.max_completion_length == TINY.short
    weights = {reward.use or reward.file: reward.weight for reward in loaded.brief.rewards}
    assert weights == (
        {"in_form.py:in_form": 1.0}
        if rewards == road.IN_FORM
        else {"shows_work.py:shows_work": 1.0, "in_form.py:in_form": 0.0}
    )
    rows = [json.loads(line) for line in (loaded.run_dir / "data" / "held_out.jsonl").read_text().splitlines()]
    assert len(rows) == TINY.held_out


def test_the_minutes_are_said_before_anything_is_fetched(tmp_path: Path, finetune: Callable[..., Any]) -> None:
    """Whoever waits knows how long, and how to stop earlier; --quick says nothing of it."""
    nowhere = tmp_path / "no-such-python"
    code, _, err = finetune("demo", tmp_path / "run", "--python", nowhere)
    assert code == 2
    assert "minutes on two CPU cores" in err.splitlines()[0]
    assert "`--quick` stops at the gate" in err.splitlines()[0]
    assert str(nowhere) in err.splitlines()[1]
    assert "two CPU cores" not in finetune("demo", tmp_path / "run", "--python", nowhere, "--quick")[2]
