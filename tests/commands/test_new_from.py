"""`finetune new --from`: the brief of the next run, and the one change that a diagnosis advises."""

import json
import re
import shlex
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
        (["--from", "RUN", "--apply", "--model", "some/model"], "--model: --apply makes the one change"),
        (["--from", "RUN", "--apply", "--method", "sft"], "--method: --apply makes the one change"),
        (
            ["--from", "RUN", "--method", "sft"],
            "data.jsonl: has prompt, id, answer, level, and method sft reads `completion` too",
        ),
        (["--from", "RUN", "--method", "dpo"], "method dpo reads `chosen` and `rejected` too"),
        (
            ["--from", "RUN", "--model", "run/model"],
            "--model run/model: a brief's paths start from its own folder, two; write ../run/model",
        ),
        (["--from", "RUN", "--dataset", "run/data.jsonl"], "write ../run/data.jsonl"),
        (["--from", "RUN", "--model", "../run/lora"], "holds an adapter, no model; merge it into its base model"),
        (
            ["--from", "RUN", "--model", "../run/train/model"],
            "holds an adapter, no model; `finetune merge run` makes one of it: --model ../run/train/merged",
        ),
        (
            ["--from", "RUN", "--method", "sft", "--dataset", "../run/held out.jsonl"],
            "has prompt, id, answer, and method sft reads `completion` too; rename its columns",
        ),
        (["--from", "RUN", "--method", "sft", "--dataset", "../run/odd.jsonl"], "odd.jsonl: no column `prompt`"),
        (["--from", "nowhere"], "nowhere: no such run directory"),
        (["--from", "RUN"], "is there already"),
    ],
    ids=[
        "no run",
        "two changes",
        "two changes of method",
        "no demonstrations",
        "no pairs",
        "a model from here",
        "rows from here",
        "an adapter",
        "an adapter that a run trained",
        "rows without answers to imitate",
        "rows without prompts",
        "no such run",
        "a brief is there",
    ],
)
def test_a_wrong_call_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written."""
    old = write(tmp_path / "run")
    for adapter in (old / "lora", old / "train" / "model"):
        adapter.mkdir(parents=True)
        (adapter / "adapter_config.json").write_text("{}", "utf-8")
    (old / "odd.jsonl").write_text('{"question": "1 + 1", "completion": "2"}\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    target = "run" if words == "is there already" else "two"
    code, _, err = finetune("new", target, *["run" if word == "RUN" else word for word in arguments])
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "two").exists()
    assert (old / "brief.yaml").read_text("utf-8") == BRIEF


DEMOS = '{"id": "d", "prompt": "What is 1 + 1?", "completion": "2", "answer": "2"}\n'
"""A row of demonstrations, with all that a data set of `BRIEF` has."""


def demos(folder: Path, row: str = DEMOS) -> Path:
    folder.mkdir()
    (folder / "demos.jsonl").write_text(row, "utf-8")
    return folder


def test_a_short_sft_takes_over_what_it_knows(tmp_path: Path, finetune: Finetune) -> None:
    """Model, sampling and machine are the run's, the rows are the demonstrations; GRPO's objective stays behind."""
    text = BRIEF.replace("hardware: cpu", "hardware: rtx4090\nenvironment: /opt/python\nevaluation: {gain: 0.1}")
    old = write(tmp_path / "run", text=text)
    new = demos(tmp_path / "run-sft", '{"prompt": "What is 1 + 1?", "completion": "2"}\n')
    code, out, _ = finetune("new", new, "--from", old, "--method", "sft", "--dataset", "demos.jsonl")

    before, after = brief.load(old), brief.load(new)
    assert code == 0
    assert (after.brief.method, after.brief.name) == ("sft", "run-sft")
    assert after.brief.dataset.model_dump(exclude_none=True) == {
        "path": "demos.jsonl", "prompt": "prompt", "completion": "completion", "split": "train",
    }  # fmt: skip
    assert after.model_source() == before.model_source()
    assert after.brief.sampling == before.brief.sampling
    assert (after.brief.hardware, after.brief.environment) == ("rtx4090", "/opt/python")
    assert (after.brief.rewards, after.brief.training, after.brief.dataset.evaluation) == ([], {}, None)
    assert "left out of a brief of method sft: rewards, evaluation, training.beta, dataset.evaluation\n" in out
    assert "# Demonstrations: a prompt and the completion to imitate." in (new / "brief.yaml").read_text("utf-8")
    assert len(read_rows(after)) == 1
    assert "not there yet" not in out
    assert out.endswith(f"next: finetune audit {new}\n")


def test_rows_with_a_gold_keep_what_measures(tmp_path: Path, finetune: Finetune) -> None:
    """Rewards and held-out rows go along where the rows have what they read: the model is measured before and after."""
    old = write(tmp_path / "run", text=BRIEF + "evaluation: {gain: 0.1}\ngate: {success: 0.5}\n")
    (old / "held out.jsonl").write_text(DEMOS, "utf-8")
    new = demos(tmp_path / "sft")
    _, out, _ = finetune("new", new, "--from", old, "--method", "sft", "--dataset", "demos.jsonl")

    before, after = brief.load(old), brief.load(new)
    assert after.resolve(str(after.brief.dataset.evaluation)) == old / "held out.jsonl"
    assert (after.brief.dataset.answer, after.brief.dataset.id) == ("answer", "id")
    assert [reward.use or reward.file for reward in after.brief.rewards] == [
        "exact_answer", "../run/mine.py:polite", "json_schema",
    ]  # fmt: skip
    assert after.brief.rewards[0] == before.brief.rewards[0]
    assert after.resolve(after.brief.rewards[1].files[0]) == old / "words.txt"
    assert after.brief.evaluation.gain == 0.1
    assert "left out of a brief of method sft: gate, training.beta\n" in out


def test_rows_that_are_not_there_yet_are_shown(tmp_path: Path, finetune: Finetune) -> None:
    """One row of them, in the form of the run's own prompts, with the names that the brief gives the columns."""
    old = write(tmp_path / "run")
    _, out, _ = finetune("new", tmp_path / "sft", "--from", old, "--method", "sft", "--dataset", "demos.jsonl")
    assert f"{tmp_path / 'sft' / 'demos.jsonl'} is not there yet; one row of it: " in out
    assert '{"prompt": "the task", "completion": "the right answer"}' in out
    assert set(brief.load(tmp_path / "sft").brief.dataset.model_dump(exclude_none=True)) == {
        "path", "prompt", "completion", "split",
    }  # fmt: skip

    (old / "data.jsonl").write_text('{"id": "a", "prompt": [{"role": "user", "content": "1 + 1"}], "answer": "2"}\n')
    _, out, _ = finetune("new", tmp_path / "kto", "--from", old, "--method", "kto", "--dataset", "demos.jsonl")
    chat = '{"prompt": [{"role": "user", "content": "the task"}], "completion": [{"role": "assistant", "content": '
    assert chat + '"the right answer"}], "label": true}' in out


@pytest.mark.parametrize("columns", ["the run's", "TRL's"])
def test_columns_are_looked_up_in_the_rows(columns: str, tmp_path: Path, finetune: Finetune) -> None:
    """Under the run's names where the rows have them, under TRL's otherwise; an id only where the run names one."""
    mapped = "prompt: question, answer: gold" + (", id: id" if columns == "the run's" else "")
    old = write(tmp_path / "run", text=BRIEF.replace("prompt: prompt, answer: answer, id: id", mapped))
    names = ("question", "gold", "key") if columns == "the run's" else ("prompt", "answer", "id")
    row = dict(zip(names, ("1 + 1", "2", "k"), strict=True)) | {"completion": "2"}
    new = demos(tmp_path / "sft", json.dumps(row) + "\n")
    assert finetune("new", new, "--from", old, "--method", "sft", "--dataset", "demos.jsonl")[0] == 0

    found = brief.load(new).brief.dataset
    assert (found.prompt, found.answer, found.id, found.completion) == (*names[:2], None, "completion")


def test_rows_that_a_program_reads_are_not_opened(tmp_path: Path, finetune: Finetune) -> None:
    """Their columns are taken to be TRL's; nothing is installed or loaded to write a brief."""
    old = write(tmp_path / "run", text=BRIEF.replace("{path: data.jsonl,", "{path: some/rows, config: main,"))
    new = demos(tmp_path / "sft")
    (new / "demos.parquet").write_bytes(b"PAR1")
    assert finetune("new", new, "--from", old, "--method", "sft", "--dataset", "demos.parquet")[0] == 0
    found = brief.load(new).brief.dataset
    assert (found.path, found.config, found.prompt, found.completion) == ("demos.parquet", None, "prompt", "completion")


def test_a_path_that_is_right_from_the_new_folder_is_taken(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the same name is something here too; and a model that has an adapter beside its weights is a model."""
    write(tmp_path / "run")
    for folder in ("model", "two/model"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("config.json", "adapter_config.json"):
            (tmp_path / folder / name).write_text("{}", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert finetune("new", "two", "--from", "run", "--model", "model")[0] == 0
    assert brief.load(tmp_path / "two").model_source() == str(tmp_path / "two" / "model")


def test_what_is_asked_for_and_so_already_changes_nothing(tmp_path: Path, finetune: Finetune) -> None:
    """The method and the model that the run has: the brief is copied with its comments."""
    text = BRIEF.replace("./model ", "some/model ")
    old = write(tmp_path / "run", text=text)
    _, out, _ = finetune("new", tmp_path / "two", "--from", old, "--method", "grpo", "--model", "some/model", "--json")
    assert json.loads(out)["changed"] == []
    assert (tmp_path / "two" / "brief.yaml").read_text("utf-8").startswith(text.partition("dataset:")[0])


def test_the_way_back_changes_the_model_alone(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that `new` names for after the SFT leads from what it trained to the same run on that model."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "run")
    demos(tmp_path / "run-sft")
    _, out, _ = finetune("new", "run-sft", "--from", "run", "--method", "sft", "--dataset", "demos.jsonl", "--json")
    command = json.loads(out)["then"]
    assert command == "finetune new run-after --from run --model ../run-sft/train/model"

    assert "run-sft/train/model is not there yet" in finetune(*command.split()[1:])[1]
    (tmp_path / "run-after" / "brief.yaml").unlink()
    (tmp_path / "run-sft" / "train" / "model").mkdir(parents=True)
    code, out, _ = finetune(*command.split()[1:])
    before, after = brief.load(tmp_path / "run"), brief.load(tmp_path / "run-after")
    assert code == 0
    assert "not there yet" not in out
    assert "changed: model: ../run-sft/train/model, was ./model\n" in out
    assert after.model_source() == str(tmp_path / "run-sft" / "train" / "model")
    assert read_rows(after) == read_rows(before)
    dumps = [loaded.brief.model_dump(exclude={"model", "dataset", "rewards"}) for loaded in (before, after)]
    assert dumps[0] == dumps[1]
    text = (tmp_path / "run-after" / "brief.yaml").read_text("utf-8")
    assert comments(text) == [
        line if line != " a folder beside the brief" else " was ./model" for line in comments(BRIEF)
    ]


def test_the_gate_of_a_model_that_never_succeeds_names_a_command_that_runs(tmp_path: Path, finetune: Finetune) -> None:
    """With the run's own name; the brief that it writes is one of SFT on the rows that are named there."""
    run = runs.write_run(tmp_path / "my run")
    audit.run(run)
    runs.write_samples(run, text_of=lambda i, index: "I cannot say.")
    score.run(run)
    assert finetune("probe", run)[0] in (0, 1)
    code, out, _ = finetune("gate", run)
    assert code == 1
    shown = re.search(r"^next: teach it first.*`finetune (new [^`]*)`", out, re.MULTILINE)
    assert shown

    words = shlex.split(shown[1])
    assert finetune(*words)[0] == 0
    found = brief.load(tmp_path / "my run-sft").brief
    assert (found.method, found.dataset.path, found.model) == ("sft", "DEMOS.jsonl", "some/model")


def test_other_rows_leave_their_hub_settings(tmp_path: Path, finetune: Finetune) -> None:
    """A configuration and a split are those of the data set before; the columns stay as they are named."""
    old = write(
        tmp_path / "run", text=BRIEF.replace("{path: data.jsonl,", "{path: some/rows, config: main, split: test,")
    )
    new = demos(tmp_path / "two")
    _, out, _ = finetune("new", new, "--from", old, "--dataset", "demos.jsonl")
    found = brief.load(new).brief.dataset
    assert (found.path, found.config, found.split, found.answer) == ("demos.jsonl", None, "train", "answer")
    assert "dataset.path: demos.jsonl, was some/rows" in out
    assert "dataset.config: taken out" in out


def test_a_data_set_that_fits_goes_along(tmp_path: Path, finetune: Finetune) -> None:
    """From one method to another that reads the same columns, a hub id unread; the rows stay where they are."""
    text = BRIEF.replace("path: data.jsonl,", "path: some/pairs, config: main, chosen: good, rejected: bad,")
    old = write(tmp_path / "run", text=text.replace("method: grpo", "method: dpo"))
    code, out, _ = finetune("new", tmp_path / "two", "--from", old, "--method", "orpo")
    assert code == 0
    assert "not there yet" not in out
    found = brief.load(tmp_path / "two").brief
    assert (found.method, found.dataset.path, found.dataset.config) == ("orpo", "some/pairs", "main")
    assert (found.dataset.chosen, found.dataset.rejected, found.dataset.answer) == ("good", "bad", "answer")

    path = old / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace(" answer: answer,", ""), "utf-8")
    assert finetune("new", tmp_path / "grpo", "--from", old, "--method", "grpo")[0] == 0
    found = brief.load(tmp_path / "grpo").brief
    assert [reward.weight for reward in found.rewards] == [1.0, 0.2, 0.0]
    assert (found.dataset.answer, found.dataset.chosen) == (None, None)


def test_the_facts_as_json(tmp_path: Path, finetune: Finetune) -> None:
    """What was changed, and the next command."""
    old = diagnosed(finetune, tmp_path / "run", CUT)
    facts = json.loads(finetune("new", tmp_path / "two", "--from", old, "--apply", "--json")[1])
    assert facts["changed"] == ["sampling.max_completion_length: 512, was 256"]
    assert "then" not in facts
    assert (facts["verdict"], facts["next"]) == ("truncation", f"finetune audit {tmp_path / 'two'}")
