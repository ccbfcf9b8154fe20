"""The demo: the whole story on the real model, twice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_finetuning import artifact
from llm_finetuning.commands import demo
from llm_finetuning.types import Label

Finetune = Callable[..., tuple[int, str, str]]


@pytest.mark.model
def test_wrong_reward_is_blocked_and_the_right_one_answered(
    tmp_path: Path, finetune: Finetune, engine_python: str, model_folder: str
) -> None:
    """At least five real disagreements block; the right reward has none; a second run draws nothing anew."""
    assert model_folder
    folder = tmp_path / "demo"
    code, out, err = finetune("demo", folder, "--python", engine_python, "--json")
    assert code == 0, err
    wrong, right = json.loads(out)["gates"]

    assert wrong["verdict"] == "blocked"
    assert len([found for found in wrong["disagreements"] if found["kind"] == "false_pass"]) >= 5
    for found in wrong["disagreements"]:  # each is real: the gold is in the text, and the text ends elsewhere
        assert found["answer"] in found["completion"]
        assert not found["completion"].rstrip(". ").endswith(f" {found['answer']}")
    assert right["disagreements"] == []
    assert {found["code"] for found in right["findings"]} & {"base-success", "never-succeeds", "always-succeeds"}
    assert "which counts in the demo alone" in wrong["notes"][0]

    assert "probe-exploit-spraying" in {found["code"] for found in wrong["findings"] if found["weight"] == "blocks"}
    assert not [
        found for found in right["findings"] if found["weight"] == "blocks" and found["code"].startswith("probe-")
    ]
    assert "Read by a program, not by a person" in (folder / "gate.html").read_text("utf-8")
    files = [
        row["file"]
        for row in json.loads(finetune("status", folder, "--json")[1])["artifacts"]
        if row["state"] != "missing"
    ]
    assert {"audit.json", "probe.json", "labels.jsonl", "gate.json"} <= set(files)

    before = (folder / "samples.jsonl").read_bytes()
    code, out, _ = finetune("demo", folder, "--python", engine_python, "--json")
    assert [wrong["verdict"], right["verdict"]] == [gate["verdict"] for gate in json.loads(out)["gates"]]
    assert before == (folder / "samples.jsonl").read_bytes()
    labels = artifact.read_lines(folder / "labels.jsonl", Label).records
    assert {("oracle", "program")} == {(label.reader, label.reader_kind) for label in labels}
    # Outside the demo, the same run is not open: nobody has read it.
    assert finetune("gate", folder)[0] == 3


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("12 + 30 = 42. The answer is 42.", True),
        ("12 + 30 = 42. The answer is 43.", False),
        ("42", True),
        ("The answer is 1,042.", False),
        ("42.0", True),
        ("42.5", False),
        ("no idea", False),
        ("", False),
    ],
)
def test_oracle_knows_the_sum(completion: str, expected: bool) -> None:
    """It reads the question, not the gold."""
    prompt = [{"role": "user", "content": "What is 12 + 30?"}]

    assert expected == demo.oracle(prompt, completion)


def test_data_set_is_a_program_and_its_gold_is_right() -> None:
    """Two-digit sums, each once, the gold computed."""
    rows = demo.sums()

    assert len({row["id"] for row in rows}) == demo.ROWS
    for row in rows:
        first, second = row["id"].split("+")
        assert 10 <= int(first) < 100
        assert 10 <= int(second) < 100
        assert row["answer"] == str(int(first) + int(second))
        assert demo.oracle(row["prompt"], row["answer"])


def test_demo_leaves_a_run_of_yours_alone(run_dir: Path, finetune: Finetune) -> None:
    """A folder with another brief is refused before anything is fetched."""
    before = (run_dir / "brief.yaml").read_bytes()
    code, _, err = finetune("demo", run_dir)

    assert code == 2
    assert "holds a run of yours" in err
    assert before == (run_dir / "brief.yaml").read_bytes()
