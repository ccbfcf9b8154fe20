"""The road behind the samples: score, review, gate and status as a person calls them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact
from llm_finetuning.types import GateReport, Label, Score

Finetune = Callable[..., tuple[int, str, str]]

CONTAINS = """\
def contains(completions, answer, **kwargs):
    return [float(gold in text) for text, gold in zip(completions, answer)]
"""


SOUND = """\
from llm_finetuning.rewards.exact_answer import ExactAnswer

inner = ExactAnswer(extract="last_number")


def contains(completions, answer, **kwargs):
    return inner(completions=completions, answer=answer)
"""
"""A person's own reward that holds under attack: a thin one over the library's."""


def is_right(sample: Any) -> bool:
    text = sample.completion if isinstance(sample.completion, str) else sample.completion[0]["content"]
    return str(text).rstrip(".").endswith(f" {sample.columns['answer']}")


def with_reward(folder: Path, code: str) -> Path:
    text = runs.BRIEF.replace("use: exact_answer\n    options: {extract: last_number}", "file: mine.py:contains")
    (folder / "brief.yaml").write_text(text, "utf-8")
    (folder / "mine.py").write_text(code, "utf-8")
    return folder


def test_road_to_an_open_gate(run_dir: Path, finetune: Finetune) -> None:
    """Right reward, agreeing reader, some success: open, exit 0, and status says so."""
    samples = runs.write_samples(run_dir)
    runs.examine(run_dir)
    labels = runs.write_labels_csv(run_dir, samples, is_right)
    assert finetune("review", run_dir, "--import", labels, "--reader", "ada")[0] == 0
    code, out, _ = finetune("gate", run_dir)

    assert code == 0
    assert "gate: open" in out
    report = artifact.read_json(run_dir / "gate.json", GateReport)
    assert report.records[0].verdict == "open"
    code, out, _ = finetune("status", run_dir)
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["done"] * 7 + ["missing"] * 6
    assert out.splitlines()[-1] == f"next: finetune plan {run_dir}"


def test_wrong_reward_is_blocked_with_its_disagreements(run_dir: Path, finetune: Finetune) -> None:
    """A reward that finds the gold anywhere pays what the reader rejects: exit 1, texts shown."""
    samples = runs.write_samples(with_reward(run_dir, CONTAINS))
    runs.examine(run_dir)
    finetune("review", run_dir, "--import", runs.write_labels_csv(run_dir, samples, is_right), "--reader", "ada")
    code, out, _ = finetune("gate", run_dir, "--json")

    assert code == 1
    facts = json.loads(out)
    assert facts["verdict"] == "blocked"
    assert {found["kind"] for found in facts["disagreements"]} == {"false_pass"}
    assert len(facts["disagreements"]) == 30
    assert "is not it, I say" in facts["disagreements"][0]["completion"]


def test_chat_and_text_score_alike(tmp_path: Path, finetune: Finetune) -> None:
    """The same completions as text and as messages get the same rewards and advantages."""
    scores = []
    for chat in (False, True):
        folder = runs.write_run(tmp_path / str(chat))
        runs.write_samples(folder, chat=chat)
        finetune("score", folder)
        found = artifact.read_lines(folder / "scores.jsonl", Score).records
        scores.append([(score.sample_id, score.reward, score.advantage) for score in found])

    assert scores[0] == scores[1]


def test_gate_without_labels_is_insufficient(run_dir: Path, finetune: Finetune) -> None:
    """Nobody read: exit 3, and the next action is to read."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    code, out, _ = finetune("gate", run_dir)

    assert code == 3
    assert f"next: read 50 more completions with `finetune review {run_dir}`" in out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda run: _edit(run / "mine.py", "float(gold in text)", "float(gold in text )"),
            "mine.py changed since it was made",
        ),
        (
            lambda run: _edit(run / "brief.yaml", "prompts: 15", "prompts: 14"),
            "samples.jsonl: sampling of brief.yaml changed",
        ),
        (
            lambda run: _edit(run / "brief.yaml", "model: some", "model: other"),
            "audit.json: model of brief.yaml changed",
        ),
        (
            lambda run: _edit(run / "data.jsonl", "What is 1 + 0?", "What is 1 + 0 ?"),
            "data.jsonl changed since it was made",
        ),
        (
            lambda run: _edit(run / "brief.yaml", "contains", "contains\n    weight: 2"),
            "audit.json: rewards of brief.yaml changed",
        ),
        (lambda run: _edit(run / "samples.jsonl", "I say 2.", "I say 3."), "samples.jsonl changed since it was made"),
    ],
)
def test_any_change_closes_the_gate(run_dir: Path, finetune: Finetune, change: Any, words: str) -> None:
    """One changed character of a reward, a row, a setting or a sample: what was judged is not what is there."""
    samples = runs.write_samples(with_reward(run_dir, CONTAINS))
    runs.examine(run_dir)
    finetune("review", run_dir, "--import", runs.write_labels_csv(run_dir, samples, is_right), "--reader", "ada")
    finetune("gate", run_dir)
    change(run_dir)
    code, _, err = finetune("gate", run_dir)

    assert code == 2
    assert words in err
    assert "gate.json       stale" in finetune("status", run_dir)[1]


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_labels_survive_a_new_reward(run_dir: Path, finetune: Finetune) -> None:
    """What the reader saw did not change, so nothing has to be read again."""
    samples = runs.write_samples(with_reward(run_dir, CONTAINS))
    runs.examine(run_dir)
    finetune("review", run_dir, "--import", runs.write_labels_csv(run_dir, samples, is_right), "--reader", "ada")
    assert finetune("gate", run_dir)[0] == 1
    (run_dir / "brief.yaml").write_text(runs.BRIEF, "utf-8")
    runs.examine(run_dir)
    assert finetune("gate", run_dir)[0] == 0


def test_incomplete_samples_are_refused(run_dir: Path, finetune: Finetune) -> None:
    """Half a file of samples is scored by nobody; the line says how to go on."""
    runs.write_samples(run_dir)
    path = run_dir / "samples.jsonl"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-5]), "utf-8")
    code, _, err = finetune("score", run_dir)

    assert code == 2
    assert "holds 70 of 75 samples; run `finetune sample" in err


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("    x = [1 / 0 for text in completions]\n    return x", "mine.py:2: reward `contains`: ZeroDivisionError"),
        ("    return [1.0]", "returned 1 value(s) for 32 completion(s)"),
        ("    return ['1.0' for text in completions]", "returned a str ('1.0')"),
        ("    return None", "returned None where a list of numbers is needed"),
        ("    raise SystemExit(3)", "SystemExit"),
    ],
)
def test_reward_that_trl_dies_of_is_one_line(run_dir: Path, finetune: Finetune, code: str, words: str) -> None:
    """File, line, reward and row; exit 2; the scores that were there stay."""
    runs.write_samples(with_reward(run_dir, CONTAINS))
    finetune("score", run_dir)
    before = (run_dir / "scores.jsonl").read_bytes()
    (run_dir / "mine.py").write_text(f"def contains(completions, **kwargs):\n{code}\n", "utf-8")
    exit_code, out, err = finetune("score", run_dir)

    assert exit_code == 2
    assert words in err
    assert "data set row 1" in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert before == (run_dir / "scores.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("value", "finding"),
    [("float('nan')", "reward-nan"), ("float('inf')", "reward-infinite"), ("7.0", "reward-out-of-range")],
)
def test_value_that_cannot_be_trained_on_is_a_finding(
    run_dir: Path, finetune: Finetune, value: str, finding: str
) -> None:
    """NaN, infinity and values out of range reach the gate under their own names."""
    code = (
        f"def contains(completions, **kwargs):\n    return [{value} if '3' in text else 0.5 for text in completions]\n"
    )
    runs.write_samples(with_reward(run_dir, code))
    runs.examine(run_dir)
    exit_code, out, _ = finetune("gate", run_dir, "--json")

    assert exit_code == 1
    assert finding in {found["code"] for found in json.loads(out)["findings"]}


def test_printing_reward_does_not_spoil_json(run_dir: Path, finetune: Finetune) -> None:
    """With --json one object goes to standard output, whatever a reward prints."""
    runs.write_samples(with_reward(run_dir, CONTAINS.replace("    return", "    print('noise')\n    return")))
    _, out, err = finetune("score", run_dir, "--json")

    assert json.loads(out)["samples"] == 75
    assert "noise" in err


def test_refusal_as_json(run_dir: Path, finetune: Finetune) -> None:
    """An agent reads the same lines as a person, as one object."""
    code, out, err = finetune("score", run_dir, "--json")

    assert code == 2
    facts = json.loads(out)
    assert facts["exit"] == 2
    assert facts["faults"][0] in err


def labels_csv(folder: Path, *rows: list[str]) -> Path:
    path = folder / "bad.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return path


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["sample", "verdict"], ["q1/0", "accept"]], ":1: no column sample_id"),
        ([["sample_id", "verdict"], ["q99/0", "accept"]], ":2: no sample 'q99/0'"),
        ([["sample_id", "verdict"], ["q1/0", "yes"]], "bad.csv:2: sample 'q1/0': verdict 'yes' is not one of"),
        ([["sample_id", "verdict", "reader"], ["q1/0", "accept", "oracle"]], "is the demo's program, not a person"),
        ([["sample_id", "verdict"]], "holds no labels"),
    ],
)
def test_bad_import_takes_nothing(run_dir: Path, finetune: Finetune, rows: list[list[str]], words: str) -> None:
    """A file with a wrong row is refused whole, so that half an import never counts."""
    runs.write_samples(run_dir)
    good = rows[0], ["q1/0", "accept"], *rows[1:]
    code, _, err = finetune("review", run_dir, "--import", labels_csv(run_dir, *rows), "--reader", "ada")

    assert code == 2
    assert words in err
    if len(rows) > 1 and rows[0] == ["sample_id", "verdict"]:
        finetune("review", run_dir, "--import", labels_csv(run_dir, *good), "--reader", "ada")
        assert artifact.read_lines(run_dir / "labels.jsonl", Label).records == []


def test_last_label_of_a_reader_stands_and_both_are_kept(run_dir: Path, finetune: Finetune) -> None:
    """A reader may change their mind; nothing is erased."""
    runs.write_samples(run_dir)
    for verdict in ("accept", "reject"):
        table = labels_csv(run_dir, ["sample_id", "verdict"], ["q1/0", verdict])
        finetune("review", run_dir, "--import", table, "--reader", "ada")

    labels = artifact.read_lines(run_dir / "labels.jsonl", Label).records
    assert ["accept", "reject"] == [label.verdict for label in labels]


def test_review_needs_a_terminal(run_dir: Path, finetune: Finetune) -> None:
    """An agent's shell is no reader."""
    runs.write_samples(run_dir)
    code, _, err = finetune("review", run_dir, "--terminal")

    assert code == 2
    assert "needs a terminal, since a person has to read" in err
    assert not (run_dir / "labels.jsonl").exists()


def road(run_dir: Path, finetune: Finetune, code: str = "") -> list[Any]:
    """Take a run to an open gate and return its samples."""
    samples = runs.write_samples(with_reward(run_dir, code or SOUND))
    runs.examine(run_dir)
    finetune("review", run_dir, "--import", runs.write_labels_csv(run_dir, samples, is_right), "--reader", "ada")
    assert finetune("gate", run_dir)[0] == 0
    return samples


def test_neighbour_of_a_reward_closes_the_gate_too(run_dir: Path, finetune: Finetune) -> None:
    """A reward is also what it imports and what it reads."""
    code = "import deep\ndef contains(completions, answer, **kwargs):\n    return deep.pay(completions, answer)\n"
    run_dir.joinpath("deep.py").write_text("import deeper\ndef pay(*given):\n    return deeper.contains(*given)\n")
    run_dir.joinpath("deeper.py").write_text(SOUND)
    road(run_dir, finetune, code)
    run_dir.joinpath("deeper.py").write_text("def contains(completions, answer):\n    return [1.0] * len(answer)\n")
    exit_code, _, err = finetune("gate", run_dir)

    assert exit_code == 2
    assert "deeper.py (imported by mine.py) changed since it was made" in err


def test_edit_within_one_second_is_scored(run_dir: Path, finetune: Finetune) -> None:
    """An edit that keeps size and time must not run from a cache while its digest is the new one."""
    import os

    code = "def contains(completions, **kwargs):\n    return [{} for _ in completions]\n"
    runs.write_samples(with_reward(run_dir, code.format("0.0")))
    os.utime(run_dir / "mine.py", (1e9, 1e9))
    first = json.loads(finetune("score", run_dir, "--json")[1])["mean"]
    (run_dir / "mine.py").write_text(code.format("1.0"))
    os.utime(run_dir / "mine.py", (1e9, 1e9))

    assert (first, 1.0) == (0.0, json.loads(finetune("score", run_dir, "--json")[1])["mean"])


def test_two_rewards_have_each_their_own_neighbour(run_dir: Path, finetune: Finetune) -> None:
    """Two folders may both have a helper.py."""
    for folder, value in (("p", "0.0"), ("q", "1.0")):
        (run_dir / folder).mkdir()
        (run_dir / folder / "near.py").write_text(f"V = {value}\n")
        code = "import near\nV = near.V\ndef {}(completions, **kwargs):\n    return [V for _ in completions]\n"
        (run_dir / folder / "mine.py").write_text(code.format(folder))
    head = runs.BRIEF.partition("rewards:")[0]
    tail = runs.BRIEF[runs.BRIEF.index("sampling:") :]
    (run_dir / "brief.yaml").write_text(head + "rewards: [{file: 'p/mine.py:p'}, {file: 'q/mine.py:q'}]\n" + tail)
    runs.write_samples(run_dir)

    assert [0.0, 1.0] == [row["mean"] for row in json.loads(finetune("score", run_dir, "--json")[1])["rewards"]]


@pytest.mark.parametrize("change", ["missing", "doubled", "low pass gone"])
def test_scores_that_are_not_the_samples_are_refused(run_dir: Path, finetune: Finetune, change: str) -> None:
    """A gate over some of the scores is a gate over chosen ones."""
    road(run_dir, finetune)
    path = run_dir / "scores.jsonl"
    head, *lines = path.read_text("utf-8").splitlines(keepends=True)
    kept = {"missing": lines[:52] + lines[60:], "doubled": lines * 2, "low pass gone": lines[:60]}[change]
    path.write_text(head + "".join(kept), "utf-8")
    code, _, err = finetune("gate", run_dir)

    assert code == 2
    assert "does not hold one score for each sample" in err


def test_doubled_samples_are_refused(run_dir: Path, finetune: Finetune) -> None:
    """The right number of lines is not the right samples."""
    runs.write_samples(run_dir)
    path = run_dir / "samples.jsonl"
    head, *lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text(head + "".join([lines[0], *lines[:-1]]), "utf-8")
    code, _, err = finetune("score", run_dir)

    assert code == 2
    assert "a sample stands in it twice" in err


def test_label_written_while_the_gate_judges_is_not_passed_over(run_dir: Path, finetune: Finetune) -> None:
    """What changes between reading and writing would be fingerprinted without having been judged."""
    road(run_dir, finetune)
    line = (run_dir / "labels.jsonl").read_text("utf-8").splitlines()[1].replace('"accept"', '"reject"')
    late = f"with open({str(run_dir / 'labels.jsonl')!r}, 'a') as f: f.write({line!r} + chr(10))\n"
    code = (run_dir / "mine.py").read_text("utf-8") + "import os\nif os.environ.get('LATE'):\n    " + late
    (run_dir / "mine.py").write_text(code, "utf-8")
    runs.examine(run_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATE", "1")
        exit_code, _, err = finetune("gate", run_dir)

    assert exit_code == 2
    assert "labels.jsonl changed while the gate judged" in err


def test_last_label_without_a_newline_is_kept(run_dir: Path, finetune: Finetune) -> None:
    """An editor that drops the last newline loses no label."""
    samples = road(run_dir, finetune)
    path = run_dir / "labels.jsonl"
    path.write_text(path.read_text("utf-8").rstrip("\n"), "utf-8")
    table = labels_csv(run_dir, ["sample_id", "verdict"], [samples[0].sample_id, "unsure"])
    finetune("review", run_dir, "--import", table, "--reader", "bob")

    assert len(artifact.read_lines(path, Label).records) == 61


def test_sum_that_is_a_little_below_counts(run_dir: Path, finetune: Finetune) -> None:
    """0.6 + 0.3 + 0.1 is not 1 in binary, and full marks are full marks."""
    samples = runs.write_samples(run_dir)
    rewards = "".join(
        f"  - {{use: exact_answer, name: {name}, weight: {weight}}}\n"
        for name, weight in (("a", 0.6), ("b", 0.3), ("c", 0.1))
    )
    head = runs.BRIEF.partition("rewards:")[0]
    tail = runs.BRIEF[runs.BRIEF.index("sampling:") :]
    (run_dir / "brief.yaml").write_text(head + "rewards:\n" + rewards + tail + "gate: {success: 1.0}\n")
    runs.examine(run_dir)
    finetune("review", run_dir, "--import", runs.write_labels_csv(run_dir, samples, is_right), "--reader", "ada")

    assert finetune("gate", run_dir)[0] == 0


def test_threshold_out_of_reach_is_refused(run_dir: Path, finetune: Finetune) -> None:
    """A success that no completion can reach would read as: the model never succeeds."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    (run_dir / "brief.yaml").write_text(runs.BRIEF + "gate: {success: 7}\n")
    for verb in ("probe", "gate"):
        code, _, err = finetune(verb, run_dir)

        assert code == 2
        assert "gate.success: 7 cannot be told apart; these rewards pay 0 to 1" in err


def test_score_names_its_faults_and_the_next_step(run_dir: Path, finetune: Finetune) -> None:
    """A fault is said where it was found, not two verbs later."""
    runs.write_samples(with_reward(run_dir, "def contains(completions, **k):\n    return [7.0] * len(completions)\n"))
    _, out, _ = finetune("score", run_dir)

    assert "fault: `contains` is out of range for 75 samples (first q0/0)" in out
    assert "next: mend the reward, then score again" in out


def test_notes_with_odd_line_breaks_are_imported(run_dir: Path, finetune: Finetune) -> None:
    """U+2028 is a letter of a field, not the end of a row."""
    runs.write_samples(run_dir)
    table = labels_csv(run_dir, ["sample_id", "verdict", "note"], ["q1/0", "accept", "a\u2028b\x0cc"])
    assert finetune("review", run_dir, "--import", table, "--reader", "ada")[0] == 0

    assert artifact.read_lines(run_dir / "labels.jsonl", Label).records[0].note == "a\u2028b\x0cc"


def test_printed_commands_can_be_pasted(tmp_path: Path, finetune: Finetune) -> None:
    """A folder with spaces and other letters is quoted in what is printed."""
    folder = runs.write_run(tmp_path / "mes jours é 日")
    runs.write_samples(folder)
    _, out, _ = finetune("score", folder)

    assert f"next: finetune audit '{folder}'" in out


def test_defect_of_ours_is_no_answer(run_dir: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1 means blocked; a crash must not read as one."""

    def crash(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("llm_finetuning.commands.gate.run", crash)
    code, _, err = finetune("gate", run_dir)

    assert code == 4
    assert "Traceback" in err
