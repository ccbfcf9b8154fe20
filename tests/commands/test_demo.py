"""The demo up to the gate: the whole story on the real model, twice."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_finetuning import artifact
from llm_finetuning.commands import demo
from llm_finetuning.demo import sums
from llm_finetuning.findings.success import for_run
from llm_finetuning.types import Label

Finetune = Callable[..., tuple[int, str, str]]
README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")


def readme_sample() -> list[str]:
    """Return the lines of the gate's report that the README shows, without the cuts."""
    (block,) = re.findall(r"^```\n(gate: blocked\n.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line.removesuffix(" ...") for line in block.splitlines() if line.strip() not in ("", "...")]


def masked(line: str) -> str:
    """Return a line with every figure alike: what is drawn differs a little between machines."""
    return re.sub(r"\d+", "0", " ".join(line.split()))


def check_sample(printed: list[str]) -> None:
    """Fail unless the README's report begins as the printed one and has no line that is not printed, or not in turn."""
    shown = [masked(line) for line in readme_sample()]
    said = [masked(line) for line in printed if line.strip()]
    assert [line[: len(begun)] for line, begun in zip(said, shown[:3], strict=False)] == shown[:3]
    rest = iter(said)
    for begun in shown:
        if not begun.startswith("completion: "):  # what a small model writes is its machine's own
            assert any(line.startswith(begun) for line in rest), begun


@pytest.mark.model
def test_wrong_reward_is_blocked_and_the_right_one_answered(
    tmp_path: Path, finetune: Finetune, engine_python: str, model_folder: str
) -> None:
    """What is read of the 256 completions blocks; the right reward has no disagreement; a second run reads no more."""
    assert model_folder
    folder = tmp_path / "demo"
    code, out, err = finetune("demo", folder, "--quick", "--python", engine_python, "--json")
    assert code == 0, err
    facts = json.loads(out)
    wrong, right = facts["gates"]
    printed = err.splitlines()
    asks = f"it asks, and the demo does: {for_run(wrong['next_action'], str(folder))}"
    assert asks in printed
    assert not [line for line in printed if line.startswith("next: ")]  # one stands at the end, on standard output
    gate_alone = [line.replace("it asks, and the demo does: ", "next: ") for line in printed]
    check_sample(gate_alone[gate_alone.index("gate: blocked") :])
    assert facts["training"] is None
    assert not (folder / "sft").exists()

    assert wrong["verdict"] == "blocked"
    assert len([found for found in wrong["disagreements"] if found["kind"] == "false_pass"]) >= 2
    for found in wrong["disagreements"]:  # each is real: the gold is in the text, and the text ends elsewhere
        assert found["answer"] in found["completion"]
        assert not found["completion"].rstrip(". ").endswith(f" {found['answer']}")
    assert right["disagreements"] == []
    assert sum(right["agreement"].values()) == sum(wrong["agreement"].values()) == 60
    assert "reads 60 completions: 36 drawn at random, 24 chosen where errors hide" in err
    assert "60 labels stand, since a reader would see the same again; 0 more are read" in err
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

    before = [(folder / name).read_bytes() for name in ("samples.jsonl", "labels.jsonl")]
    code, out, _ = finetune("demo", folder, "--quick", "--python", engine_python, "--json")
    assert [wrong["verdict"], right["verdict"]] == [gate["verdict"] for gate in json.loads(out)["gates"]]
    assert before == [(folder / name).read_bytes() for name in ("samples.jsonl", "labels.jsonl")]
    labels = artifact.read_lines(folder / "labels.jsonl", Label).records
    assert {("oracle", "program")} == {(label.reader, label.reader_kind) for label in labels}
    assert {"random": 36, "chosen": 24} == Counter(label.part for label in labels)
    # Outside the demo, the same run is not open: nobody has read it.
    assert finetune("gate", folder)[0] == 3


@pytest.mark.model
def test_the_demos_end_begins_a_run_of_ones_own(
    tmp_path: Path, finetune: Finetune, model_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that came without a hub is named by its folder, since the next command would not find a hub either."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FINETUNE_HOME", str(tmp_path / "home"))
    kept = demo.model_cache(tmp_path / "home")
    kept.parent.mkdir(parents=True)
    kept.symlink_to(model_folder)

    assert demo.own_run(model_folder) == "finetune new my-run"  # from the hub's cache, where its id is found
    code, _, err = finetune(*shlex.split(demo.own_run(str(kept)))[1:])

    assert code == 0, err
    assert f'model: "{kept}"' in (tmp_path / "my-run" / "brief.yaml").read_text("utf-8")


def test_help_and_readme_say_the_same_minutes(finetune: Finetune) -> None:
    """Whoever tries it first reads one of the two."""
    said = " ".join(finetune("demo", "--help")[1].split())
    assert demo.QUICK in said
    assert demo.QUICK in README


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

    assert expected == sums.oracle(prompt, completion)


def test_data_set_is_a_program_and_its_gold_is_right() -> None:
    """Two-digit sums, each once, the gold computed."""
    rows = sums.with_example()

    assert len({row["id"] for row in rows}) == sums.ROWS
    for row in rows:
        first, second = row["id"].split("+")
        assert 10 <= int(first) < 100
        assert 10 <= int(second) < 100
        assert row["answer"] == str(int(first) + int(second))
        assert sums.oracle(row["prompt"], row["answer"])


def test_demo_leaves_a_run_of_yours_alone(run_dir: Path, finetune: Finetune) -> None:
    """A folder with another brief is refused before anything is fetched."""
    before = (run_dir / "brief.yaml").read_bytes()
    code, _, err = finetune("demo", run_dir)

    assert code == 2
    assert "holds a run of yours" in err
    assert before == (run_dir / "brief.yaml").read_bytes()
