"""`finetune new --from`: the brief of the next run, and the one change that a diagnosis advises."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import logged_runs
import runs
from llm_finetuning import brief
from llm_finetuning.commands import audit, score
from llm_finetuning.dataset import read_rows
from llm_finetuning.recipes import variants
from llm_finetuning.rewards import composition

Finetune = Callable[..., tuple[int, str, str]]

BRIEF = """\
# The run of a person, with what they thought.
name: sums
method: grpo
model: ./model   # a folder beside the brief
dataset: {path: data.jsonl, prompt: prompt, answer: answer, id: id, evaluation: "held out.jsonl"}

# Order and weights are what the trainer gets.
rewards:
  - use: exact_answer               # the library's
    weight: 1.0
    options: {extract: last_number}
  - file: mine.py:polite            # our own
    weight: 0.2
    range: [0, 1]
    files: [words.txt]
  - use: json_schema
    weight: 0.0
    options: {schema: {type: object}}

sampling:
  num_generations: 4            # completions a prompt
  prompts: 15
  max_completion_length: 256    # tokens
training:                       # only what deviates
  beta: 0.01                    # a trace
# gate: {success: 0.5}
hardware: cpu
"""

MINE = """\
from pathlib import Path

words = (Path(__file__).parent / "words.txt").read_text().split()


def polite(completions, **kwargs):
    return [float(any(word in text for word in words)) for text in completions]
"""

SPENT = logged_runs.columns(entropy=logged_runs.spent())
LONGER = logged_runs.columns(**{"completions/mean_length": np.linspace(60, 250, logged_runs.ROWS)})
CUT = logged_runs.columns(**{"completions/clipped_ratio": np.full(logged_runs.ROWS, 0.7)})
LOST = logged_runs.columns(kl=np.linspace(0, 4, logged_runs.ROWS) ** 1.2)
HEALTHY = logged_runs.columns(reward=logged_runs.rising())
SILENT = logged_runs.columns(frac_reward_zero_std=np.full(logged_runs.ROWS, 0.95))


def write(folder: Path, found: dict[str, Any] | None = None, text: str = BRIEF, **options: Any) -> Path:
    logged_runs.write(folder, found or SPENT, brief=text, **options)
    (folder / "mine.py").write_text(MINE, "utf-8")
    (folder / "words.txt").write_text("please thanks", "utf-8")
    (folder / "held out.jsonl").write_text('{"id": "h", "prompt": "What is 40 + 2?", "answer": "42"}\n', "utf-8")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}", "utf-8")
    return folder


def diagnosed(finetune: Finetune, folder: Path, found: dict[str, Any], text: str = BRIEF, **options: Any) -> Path:
    write(folder, found, text, **options)
    assert finetune("diagnose", folder)[0] in (0, 1, 3)
    return folder


def comments(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


@pytest.mark.parametrize("place", ["beside", "elsewhere/deep/run two", "run/inside"])
def test_the_new_brief_names_the_same_files(place: str, tmp_path: Path, finetune: Finetune) -> None:
    """Relative paths are made relative to the new folder; all else, comments too, is as it was."""
    old = write(tmp_path / "run")
    new = tmp_path / place
    code, out, _ = finetune("new", new, "--from", old)

    before, after = brief.load(old), brief.load(new)
    assert code == 0
    assert f"wrote: {new / 'brief.yaml'}" in out
    assert after.model_source() == before.model_source()
    assert read_rows(after) == read_rows(before)
    assert after.resolve(str(after.brief.dataset.evaluation)) == before.resolve("held out.jsonl")
    named = [[loaded.resolve(file) for file in composition.named_files(loaded)] for loaded in (before, after)]
    assert named[1] == named[0] == [old.resolve() / "mine.py", old.resolve() / "words.txt"]
    same = {"sampling", "training", "variant", "gate", "hardware", "name", "method"}
    dumps = [loaded.brief.model_dump(include=same) for loaded in (before, after)]
    assert dumps[0] == dumps[1]
    assert comments((new / "brief.yaml").read_text("utf-8")) == comments(BRIEF)


def test_what_names_no_file_is_copied_letter_by_letter(tmp_path: Path, finetune: Finetune) -> None:
    """Absolute paths and hub ids are the same from everywhere."""
    text = BRIEF.replace("./model ", "some/model ").replace("data.jsonl", str(tmp_path / "run" / "data.jsonl"))
    text = text.replace(', evaluation: "held out.jsonl"', "").replace("[words.txt]", "[]")
    text = text.replace("mine.py:polite", f"{tmp_path}/run/mine.py:polite").replace("[0, 1]", "[ 0,1 ]")
    old = write(tmp_path / "run", text=text)
    assert finetune("new", tmp_path / "two", "--from", old)[0] == 0
    assert (tmp_path / "two" / "brief.yaml").read_text("utf-8") == text


def test_the_new_run_walks_the_road(tmp_path: Path, finetune: Finetune) -> None:
    """Its rows are read and its rewards pay, from the folder that they stayed in."""
    text = BRIEF.replace("./model ", "some/model ")
    finetune("new", tmp_path / "two", "--from", write(tmp_path / "run", text=text))
    audit.run(tmp_path / "two")
    runs.write_samples(tmp_path / "two", text_of=lambda i, index: f"please {runs.completion(i, index)}")
    facts = score.run(tmp_path / "two")
    assert facts
    assert finetune("status", tmp_path / "two")[0] == 0


@pytest.mark.parametrize(
    ("found", "options", "variant", "sampling", "training"),
    [
        (SPENT, {}, "dapo", {}, {"beta": 0.0, "steps_per_generation": 32}),
        (LONGER, {"loss_type": "grpo"}, "dr_grpo", {}, {"beta": 0.0}),
        (CUT, {}, None, {"max_completion_length": 512}, {"beta": 0.01}),
        (LOST, {}, None, {}, {"beta": 0.01, "learning_rate": 2e-7}),
    ],
    ids=["entropy: a variant and what makes it act", "length: a variant", "cut: sampling", "kl: training"],
)
def test_the_one_change_is_applied_and_nothing_else(
    found: dict[str, Any],
    options: dict[str, Any],
    variant: str | None,
    sampling: dict[str, Any],
    training: dict[str, Any],
    tmp_path: Path,
    finetune: Finetune,
) -> None:
    """Options go where a brief has them, a variant under its name with the evidence, comments stay where they were.

    One beside a value that was changed was about the old one: it says where the new one is from.
    """
    old = diagnosed(finetune, tmp_path / "run", found, **options)
    advice = json.loads((old / "diagnosis.json").read_text("utf-8"))["advice"]
    code, out, _ = finetune("new", tmp_path / "two", "--from", old, "--apply")

    before, after = brief.load(old).brief, brief.load(tmp_path / "two").brief
    assert code == 0
    assert (after.variant.use if after.variant else None) == variant == advice["variant"]
    if after.variant:
        evidence = json.loads((old / "diagnosis.json").read_text("utf-8"))["text"]
        assert evidence in after.variant.because
    assert after.training == training
    assert after.sampling.model_dump() == {**before.sampling.model_dump(), **sampling}
    effective = {**variants.training_of(after), **after.sampling.model_dump()}
    assert {name: effective[name] for name in advice["options"]} == advice["options"]
    text = (tmp_path / "two" / "brief.yaml").read_text("utf-8")
    kept = [one for one in comments(text) if not one.startswith(" advised by `finetune diagnose` of the run before")]
    old_values, values = ({**one.training, **one.sampling.model_dump()} for one in (before, after))
    changed = {name for name, value in old_values.items() if values.get(name) != value}
    gone = {line.partition("#")[2] for line in BRIEF.splitlines() if line.strip().partition(":")[0] in changed}
    assert kept == [one for one in comments(BRIEF) if one not in gone]
    assert len(comments(text)) == len(comments(BRIEF))
    assert all(text.index(f"  {name}: ") < text.index("# gate:") for name in training)
    assert "changed: " in out
    assert f"next: finetune audit {tmp_path / 'two'}" in out


def test_an_option_of_the_brief_gives_way_to_the_variant(tmp_path: Path, finetune: Finetune) -> None:
    """`training` has the last word in a brief, so that what contradicts the variant there would undo it."""
    text = BRIEF.replace("  beta: 0.01 ", "  epsilon_high: 0.2\n  generation_batch_size: 64\n  beta: 0.01 ")
    old = diagnosed(finetune, tmp_path / "run", SPENT, text)
    _, out, _ = finetune("new", tmp_path / "two", "--from", old, "--apply")

    training = brief.load(tmp_path / "two").brief.training
    assert training == {"steps_per_generation": 32, "epsilon_high": 0.28, "beta": 0.0}
    assert "training.epsilon_high: 0.28, was 0.2" in out
    assert "generation_batch_size: taken out" in out


def test_iterations_are_left_to_the_variant(tmp_path: Path, finetune: Finetune) -> None:
    """A variant's generation serves several steps by itself; both together would be twice as far off-policy."""
    old = diagnosed(finetune, tmp_path / "run", SPENT, gradient_accumulation_steps=None, steps_per_generation=None)
    advised = json.loads((old / "diagnosis.json").read_text("utf-8"))["advice"]["options"]
    assert advised["num_iterations"] == 2
    assert finetune("new", tmp_path / "two", "--from", old, "--apply")[0] == 0
    assert "num_iterations" not in brief.load(tmp_path / "two").brief.training


@pytest.mark.parametrize(
    ("found", "words", "after"),
    [
        (HEALTHY, "keep plain GRPO", "finetune evaluate RUN --checkpoint last"),
        (SILENT, "it is no option of a brief", "finetune new TWO --from RUN"),
    ],
    ids=["healthy", "no option"],
)
def test_advice_that_is_no_option_writes_nothing(
    found: dict[str, Any], words: str, after: str, tmp_path: Path, finetune: Finetune
) -> None:
    """Exit code 1 with the advice in its own words, and one command that can be run, as JSON too."""
    old = diagnosed(finetune, tmp_path / "run", found)
    code, out, _ = finetune("new", tmp_path / "two", "--from", old, "--apply")

    assert code == 1
    assert words in out
    assert "because " in out
    command = after.replace("RUN", str(old)).replace("TWO", str(tmp_path / "two"))
    assert out.endswith(f"next: {command}\n")
    facts = json.loads(finetune("new", tmp_path / "two", "--from", old, "--apply", "--json")[1])
    assert facts["next"] == command
    assert not (tmp_path / "two").exists()


def test_advice_that_the_brief_has_already_writes_nothing(tmp_path: Path, finetune: Finetune) -> None:
    """The run was built before the brief was changed."""
    old = diagnosed(finetune, tmp_path / "run", CUT)
    path = old / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("length: 256", "length: 512"), "utf-8")
    code, out, _ = finetune("new", tmp_path / "two", "--from", old, "--apply")
    assert code == 1
    assert "the brief says so already" in out
    assert out.endswith(f"next: finetune diagnose {old}\n")


def test_a_diagnosis_is_needed_and_has_to_be_current(tmp_path: Path, finetune: Finetune) -> None:
    """Without one, and once the log has grown, the refusal names the verb to run."""
    old = write(tmp_path / "run")
    code, _, err = finetune("new", tmp_path / "two", "--from", old, "--apply")
    assert code == 2
    assert f"run `finetune diagnose {old}`" in err

    assert finetune("diagnose", old)[0] == 1
    with (old / "train" / "logs" / "progress.jsonl").open("a") as stream:
        stream.write(logged_runs.lines(SPENT)[-1])
    code, _, err = finetune("new", tmp_path / "two", "--from", old, "--apply")
    assert code == 2
    assert "changed since it was made" in err
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--apply"], "--apply: needs the run"),
        (["--from", "RUN", "--method", "grpo"], "--method: comes with the brief of --from"),
        (["--from", "nowhere"], "nowhere: no such run directory"),
        (["--from", "RUN"], "is there already"),
    ],
    ids=["no run", "two methods", "no such run", "a brief is there"],
)
def test_a_wrong_call_is_one_line(arguments: list[str], words: str, tmp_path: Path, finetune: Finetune) -> None:
    """And nothing is written."""
    old = write(tmp_path / "run")
    target = old if words == "is there already" else tmp_path / "two"
    code, _, err = finetune("new", target, *[old if word == "RUN" else word for word in arguments])
    assert code == 2
    assert words in err
    assert not (tmp_path / "two").exists()
    assert (old / "brief.yaml").read_text("utf-8") == BRIEF


def test_the_facts_as_json(tmp_path: Path, finetune: Finetune) -> None:
    """What was changed, and the next command."""
    old = diagnosed(finetune, tmp_path / "run", CUT)
    facts = json.loads(finetune("new", tmp_path / "two", "--from", old, "--apply", "--json")[1])
    assert facts["changed"] == ["sampling.max_completion_length: 512, was 256"]
    assert (facts["verdict"], facts["next"]) == ("truncation", f"finetune audit {tmp_path / 'two'}")
