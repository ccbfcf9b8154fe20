"""`finetune pairs`: what it reads, writes, refuses and prints, without a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact
from llm_finetuning.commands import score
from llm_finetuning.stages.pairs import PairsReport

Finetune = Callable[..., tuple[int, str, str]]


def text_of(i: int, index: int) -> str:
    """Return right sums of even prompts from completion 2 on, and wrong ones of all others; every text differs."""
    right = 2 * i + 1
    return f"{index} and {right if index > 1 and i % 2 == 0 else right + 1}"


@pytest.fixture
def graded(run_dir: Path) -> Path:
    """A run with samples and scores."""
    runs.write_samples(run_dir, text_of=text_of)
    score.run(run_dir)
    return run_dir


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def report_of(run_dir: Path) -> PairsReport:
    return artifact.read_json(run_dir / "pairs.json", PairsReport).records[0]


def altered(run_dir: Path, change: Callable[[dict[str, Any]], None], name: str = "samples.jsonl") -> None:
    """Change every record of an artifact, as another run of its verb would have left it."""
    path = run_dir / name
    header, *lines = path.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        change(record)
    path.write_text("\n".join([header, *map(json.dumps, records)]) + "\n", "utf-8")


@pytest.mark.parametrize("method", ["dpo", "orpo", "simpo"])
def test_pairs_are_written_with_their_report(method: str, graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """One pair for each prompt that has both sides; the report has the file's digest, and the next command is there."""
    out = tmp_path / "data" / "pairs.jsonl"
    code, said, err = finetune("pairs", graded, "--method", method, "--out", out)
    assert code == 0, err
    rows = rows_of(out)
    assert [row["id"] for row in rows] == [f"q{i}/1" for i in range(0, 15, 2)]
    for row in rows:
        assert row["chosen"].endswith(f" {row['answer']}")
        assert not row["rejected"].endswith(f" {row['answer']}")
        assert "level" not in row
    (made,) = report_of(graded).sets
    assert (made.method, made.records, made.completions) == (method, 8, 60)
    assert (made.file, made.sha256) == (str(out), artifact.digest_file(out))
    assert made.prompts == {"both": 8, "only_failing": 7}
    assert f"{method}: 8 pairs from 60 completions of 15 prompts, success from 0.5" in said
    follow = f"{graded}-{method} --method {method} --model some/model --dataset {out}"
    assert said.splitlines()[-1] == f"next: finetune new {follow}"


def test_the_next_command_makes_a_run_that_audits_and_builds(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """For each method, on the rows as they were written."""
    for method in ("dpo", "kto", "orpo", "simpo"):
        out = tmp_path / f"{method}.jsonl"
        code, said, err = finetune("pairs", graded, "--method", method, "--out", out, "--json")
        assert code == 0, err
        assert finetune(*json.loads(said)["next"].split()[1:])[0] == 0
        folder = graded.with_name(f"run-{method}")
        brief = folder / "brief.yaml"
        brief.write_text(brief.read_text("utf-8").replace("hardware: auto", "hardware: h100"), "utf-8")
        assert finetune("audit", folder)[0] == 0
        code, said, err = finetune("build", folder, "--no-check")
        assert code == 0, err
        assert len(rows_of(folder / "train" / "data" / "train.jsonl")) == len(rows_of(out))


def test_single_records_are_written_with_their_balance(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """16 right and 44 wrong completions: `build` sets the weight that the report shows."""
    out = tmp_path / "records.jsonl"
    code, said, err = finetune("pairs", graded, "--method", "kto", "--out", out)
    assert code == 0, err
    rows = rows_of(out)
    assert len(rows) == 60
    assert all(row["label"] is row["completion"].endswith(f" {row['answer']}") for row in rows)
    (made,) = report_of(graded).sets
    assert made.labels == {"desirable": 16, "undesirable": 44}
    assert made.weights == {"desirable_weight": 2.75, "undesirable_weight": 1.0}
    assert "16 desirable, 44 undesirable; `build` weighs them 2.75 to 1" in said


def test_chat_samples_make_chat_rows(run_dir: Path, finetune: Finetune, tmp_path: Path) -> None:
    """In the form that they were sampled in."""
    runs.write_samples(run_dir, text_of=text_of, chat=True)
    score.run(run_dir)
    assert finetune("pairs", run_dir, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")[0] == 0
    row = rows_of(tmp_path / "pairs.jsonl")[0]
    assert row["prompt"] == [{"role": "user", "content": "What is 1 + 0?"}]
    assert [row[side][0]["role"] for side in ("chosen", "rejected")] == ["assistant", "assistant"]


def test_letters_that_no_encoding_takes_come_back_as_they_were(
    run_dir: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """A lone surrogate in a completion is no reason to lose the data set."""
    runs.write_samples(run_dir, text_of=lambda i, index: text_of(i, index).replace(" and ", "\ud800 "))
    score.run(run_dir)
    assert finetune("pairs", run_dir, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")[0] == 0
    assert rows_of(tmp_path / "pairs.jsonl")[0]["chosen"][1] == "\ud800"


def test_the_options_reach_the_choice(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """Two pairs a prompt from two passing completions, and another draw under another seed."""
    texts = {}
    for name, options in {
        "two": ["--pairs-per-prompt", "2"],
        "seed 0": [],
        "seed 1": ["--seed", "1"],
        "matched": ["--match-length"],
    }.items():
        out = tmp_path / f"{name}.jsonl"
        assert finetune("pairs", graded, "--method", "dpo", "--out", out, *options)[0] == 0
        texts[name] = out.read_bytes()
    assert len(rows_of(tmp_path / "two.jsonl")) == 16
    assert texts["seed 0"] != texts["seed 1"]
    sets = {Path(one.file).stem: one.rule for one in report_of(graded).sets}
    assert [sets[name]["pairs_per_prompt"] for name in ("two", "seed 0")] == [2, 1]
    assert [sets[name]["match_length"] for name in ("matched", "seed 0")] == [True, False]
    assert [sets[name]["seed"] for name in ("seed 1", "seed 0")] == [1, 0]


def test_nothing_that_is_there_is_written_over(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """The same rows again are fine; others are refused, and neither file nor report changes."""
    out = tmp_path / "pairs.jsonl"
    assert finetune("pairs", graded, "--method", "dpo", "--out", out)[0] == 0
    before, report, stamp = out.read_bytes(), (graded / "pairs.json").read_bytes(), out.stat().st_mtime_ns
    assert finetune("pairs", graded, "--method", "dpo", "--out", out)[0] == 0
    assert (out.stat().st_mtime_ns, (graded / "pairs.json").read_bytes()) == (stamp, report)

    code, _, err = finetune("pairs", graded, "--method", "kto", "--out", out)
    assert code == 2
    assert f"--out {out}: is there and holds something else; name another file, or move it away" in err
    assert (out.read_bytes(), (graded / "pairs.json").read_bytes()) == (before, report)


def test_the_report_forgets_what_other_scores_made(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """Data sets of the same samples and scores stand side by side; those of others are no longer in it."""
    assert "pairs.json" not in finetune("status", graded)[1]
    for name in ("a", "b"):
        assert finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / f"{name}.jsonl")[0] == 0
    assert [Path(one.file).name for one in report_of(graded).sets] == ["a.jsonl", "b.jsonl"]
    assert "dpo 8 in a.jsonl, dpo 8 in b.jsonl" in finetune("status", graded)[1]

    runs.write_samples(graded, text_of=lambda i, index: text_of(i, index) + ".")
    score.run(graded)
    shown = finetune("status", graded)[1]
    assert "pairs.json      stale" in shown
    assert finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "c.jsonl")[0] == 0
    assert [Path(one.file).name for one in report_of(graded).sets] == ["c.jsonl"]


def test_a_broken_report_is_refused_before_anything_is_written(
    graded: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """It may hold what was made before, so it is a person's to move away."""
    (graded / "pairs.json").write_text("{", "utf-8")
    code, _, err = finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")
    assert code == 2
    assert "pairs.json: not a whole pairs.json" in err
    assert "move it away" in err
    assert not (tmp_path / "pairs.jsonl").exists()


def unscore(graded: Path) -> None:
    (graded / "scores.jsonl").unlink()


def resample(graded: Path) -> None:
    runs.write_samples(graded, text_of=lambda i, index: text_of(i, index) + "!")


def reword(graded: Path) -> None:
    path = graded / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("last_number", "whole"), "utf-8")


def reseed(graded: Path) -> None:
    path = graded / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("prompts: 15", "prompts: 14"), "utf-8")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(unscore, "scores.jsonl: not there yet; run `finetune score RUN`", id="not scored"),
        pytest.param(resample, "samples.jsonl changed since it was made; run `finetune score RUN`", id="stale scores"),
        pytest.param(reword, "changed since it was made; run `finetune score RUN`", id="another reward"),
        pytest.param(reseed, "changed since it was made; run `finetune sample RUN --fresh`", id="stale samples"),
    ],
)
def test_what_is_not_current_is_refused_with_the_verb_to_run(
    change: Callable[[Path], None], words: str, graded: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """Nothing is written."""
    change(graded)
    code, _, err = finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")
    assert code == 2
    assert words.replace("RUN", str(graded)) in err
    assert not (tmp_path / "pairs.jsonl").exists()
    assert not (graded / "pairs.json").exists()


NO_NUMBERS = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("method", ["dpo", "kto"])
@pytest.mark.parametrize("wrong", NO_NUMBERS)
@pytest.mark.parametrize("name", ["reward", "exact_answer"])
def test_a_reward_that_is_no_number_is_refused(
    name: str, wrong: float, method: str, graded: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """Written by hand it would pass for a failing completion's; scoring again mends it, and the command says so."""

    def change(score: dict[str, Any]) -> None:
        if score["sample_id"] in ("q2/3", "q4/3"):
            holder, key = (score, name) if name == "reward" else (score["values"][0], "value")
            assert key in holder
            holder[key] = wrong

    altered(graded, change, "scores.jsonl")
    out = tmp_path / "pairs.jsonl"
    code, said, err = finetune("pairs", graded, "--method", method, "--out", out)
    assert (code, said) == (2, "")
    (line,) = err.splitlines()
    assert f"scores.jsonl: `{name}` of q2/3 is {wrong:g}, no finite number, as 1 more; " in line
    assert line.endswith(f"; run `finetune score {graded}`, and never edit it")
    assert not out.exists()
    score.run(graded)
    assert finetune("pairs", graded, "--method", method, "--out", out)[0] == 0


@pytest.mark.parametrize("wrong", NO_NUMBERS)
def test_a_sample_that_holds_no_number_is_refused(
    wrong: float, run_dir: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """However deep it stands: a data set's row could not be written with it."""
    runs.write_samples(run_dir, text_of=text_of)

    def change(sample: dict[str, Any]) -> None:
        if sample["sample_id"] == "q2/3":
            sample["columns"]["level"] = [{"of": wrong}]

    altered(run_dir, change)
    score.run(run_dir)
    code, _, err = finetune("pairs", run_dir, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")
    assert code == 2
    assert "samples.jsonl: `level` of q2/3 holds NaN or infinity, no finite number; restore its line, or" in err
    assert f"`finetune sample {run_dir} --fresh` sets it aside" in err
    assert not (tmp_path / "pairs.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "dpo", "--out", "pairs.csv"], "--out pairs.csv: holds one JSON object a line; name a .jsonl"),
        (["--method", "dpo", "--out", "RUN/labels.jsonl"], "is the name of an artifact of this run; choose another"),
        (["--method", "dpo", "--out", "RUN/eval/x.samples.jsonl"], "is the name of an artifact of this run"),
        (["--method", "dpo", "--out", "RUN/brief.yaml/pairs.jsonl"], "not a directory; name another file"),
        (["--method", "kto", "--out", "p.jsonl", "--seed", "0"], "--seed: kto takes every graded completion"),
        (["--method", "kto", "--out", "p.jsonl", "--match-length"], "--match-length: kto takes every graded"),
        (["--method", "kto", "--out", "p.jsonl", "--pairs-per-prompt", "2"], "--pairs-per-prompt: kto takes every"),
        (["--method", "sft", "--out", "p.jsonl"], "'sft' is not one of 'dpo', 'kto', 'orpo', 'simpo'"),
        (["--method", "dpo", "--out", "p.jsonl", "--pairs-per-prompt", "0"], "0 is not in the range x>=1"),
        (["--method", "dpo"], "Missing option '--out'"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, list) else "",
)
def test_bad_arguments_are_refused(arguments: list[str], words: str, graded: Path, finetune: Finetune) -> None:
    """In one line, and nothing is written."""
    before = sorted(graded.iterdir())
    code, _, err = finetune("pairs", graded, *(word.replace("RUN", str(graded)) for word in arguments))
    assert code == 2
    assert words in err
    assert sorted(graded.iterdir()) == before


@pytest.mark.parametrize("method", ["dpo", "kto"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lambda i, index: f"{index} then {2 * i + 2}", "more completions a prompt"),
        (lambda i, index: f"{index} then {2 * i + 1}", "harder prompts"),
        (lambda i, index: "", "mend what left the completions out"),
    ],
    ids=["all fail", "all pass", "all empty"],
)
def test_nothing_to_prefer_is_too_little_evidence(
    text: Any, words: str, method: str, run_dir: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """Exit 3, with what to do, and nothing written."""
    runs.write_samples(run_dir, text_of=text)
    score.run(run_dir)
    code, said, _ = finetune("pairs", run_dir, "--method", method, "--out", tmp_path / "pairs.jsonl")
    assert code == 3
    assert "wrote: nothing" in said
    assert words in said.splitlines()[-1]
    assert not (tmp_path / "pairs.jsonl").exists()
    assert not (run_dir / "pairs.json").exists()


def test_the_threshold_is_the_gates(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """`gate.success` of the brief decides what passes, and a change of it makes the report stale."""
    brief = graded / "brief.yaml"
    assert finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")[0] == 0
    brief.write_text(brief.read_text("utf-8") + "gate: {success: 0.9}\n", "utf-8")
    assert "pairs.json      stale" in finetune("status", graded)[1]
    assert finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "other.jsonl")[0] == 0
    assert report_of(graded).sets[0].rule["success_threshold"] == 0.9
    brief.write_text(brief.read_text("utf-8").replace("0.9", "1.5"), "utf-8")
    code, _, err = finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "third.jsonl")
    assert code == 2
    assert "gate.success: 1.5 cannot be told apart" in err


SILENT = """\
import os
from pathlib import Path

if os.environ.get("LATE"):
    with Path(os.environ["LATE"]).open("a") as stream:
        stream.write(chr(10))


def silent(completions, **kwargs):
    return [None if "2 and" in text else 1.0 for text in completions]
"""


def with_silent(run_dir: Path, weight: float) -> None:
    """Add a reward that abstains from the third completion of each prompt, and can change a file as it is loaded."""
    (run_dir / "mine.py").write_text(SILENT, "utf-8")
    brief = run_dir / "brief.yaml"
    more = f"  - {{file: mine.py:silent, weight: {weight}, range: [0, 1]}}\nsampling:"
    brief.write_text(brief.read_text("utf-8").replace("sampling:", more), "utf-8")
    score.run(run_dir)


@pytest.mark.parametrize(("weight", "left_out"), [(0.0, {}), (0.1, {"partly_unscored": 15})])
def test_a_reward_of_no_weight_leaves_nobody_out(
    weight: float, left_out: dict[str, int], graded: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """It only watches; one that is weighed and abstains from some of a prompt's completions leaves these out."""
    with_silent(graded, weight)
    assert finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")[0] == 0
    assert report_of(graded).sets[0].left_out == left_out


def test_what_changes_meanwhile_is_noticed(
    graded: Path, finetune: Finetune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests in the report are of what was read; nothing is written."""
    with_silent(graded, 0.1)
    monkeypatch.setenv("LATE", str(graded / "scores.jsonl"))
    code, _, err = finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")
    assert code == 2
    assert "scores.jsonl changed while preferences were chosen; run it again" in err
    assert not (tmp_path / "pairs.jsonl").exists()


def test_rewards_that_nobody_inspected_are_said(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """Such data train on an uninspected reward; with an open gate nothing is said."""
    words = "rewards chose these, and no open gate says that they pay for what is meant"
    said = finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "pairs.jsonl")[1]
    assert words in said
    assert f"gate.json: not there yet; run `finetune gate {graded}`" in said

    runs.examine(graded)
    samples = runs.write_samples(graded, text_of=text_of)
    score.run(graded)
    runs.examine(graded)
    table = runs.write_labels_csv(graded, samples, lambda one: one.completion.endswith(f" {one.columns['answer']}"))
    assert finetune("review", graded, "--import", table, "--reader", "ada")[0] == 0
    assert finetune("gate", graded)[0] == 0
    assert words not in finetune("pairs", graded, "--method", "dpo", "--out", tmp_path / "more.jsonl")[1]
    (graded / "pairs.json").write_text("{", "utf-8")
    shown = finetune("status", graded)[1].splitlines()
    assert any(line.startswith("pairs.json      broken") for line in shown)
    assert "pairs" not in shown[-1]  # beside the road, whatever became of it


def test_template_options_that_training_would_not_set_are_said(
    run_dir: Path, finetune: Finetune, tmp_path: Path
) -> None:
    """Of chat prompts alone: a text has no template."""
    brief = run_dir / "brief.yaml"
    text = brief.read_text("utf-8").replace("prompts: 15", "prompts: 15, chat_template_kwargs: {thinking: false}")
    brief.write_text(text, "utf-8")
    for name, chat in (("chat", True), ("text", False)):
        runs.write_samples(run_dir, text_of=text_of, chat=chat)
        score.run(run_dir)
        said = finetune("pairs", run_dir, "--method", "dpo", "--out", tmp_path / f"{name}.jsonl")[1]
        assert ("sampled with chat_template_kwargs thinking" in said) is chat


def test_every_column_of_the_report_is_in_the_json(graded: Path, finetune: Finetune, tmp_path: Path) -> None:
    """One object, as `--json` promises."""
    code, said, _ = finetune("pairs", graded, "--method", "kto", "--out", tmp_path / "records.jsonl", "--json")
    facts = json.loads(said)
    assert (code, facts["records"], facts["wrote"]) == (0, 60, str(tmp_path / "records.jsonl"))
    assert facts["columns"] == ["id", "prompt", "completion", "label", "prompt_id", "reward", "answer"]
