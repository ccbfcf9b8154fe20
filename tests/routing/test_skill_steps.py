"""What the skills on data tell an agent to run before training, run as it stands there on the briefs they show."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from requests_table import ROOT
from ruamel.yaml import YAML

ROWS: dict[str, list[dict[str, Any]]] = {
    "completion": [{"completion": "Write in June."}, {"completion": "Write in July."}],
    "chosen": [{"chosen": "Gladly: June.", "rejected": "June."}, {"chosen": "Gladly: July.", "rejected": "July."}],
    "label": [{"completion": "Gladly: June.", "label": True}, {"completion": "July.", "label": False}],
}
PROMPTS = ("When is the fair held in Rome?", "Which month suits a visit of the northern lakes?")
HELD_OUT = ("Name the month of the wine harvest.", "How long does a ferry to Sardinia take?")

RUNS = {"audit": {0}, "plan": {0, 1, 3}, "build": {0}, "status": {0}}
"""Verbs that ask no machine and no model, in the skills' order, and how each may end where the model is not at hand."""

OPTIONS = {"build": ["--no-check"]}  # whether TRL takes each method's config is asked in tests/engines


def shown(skill: str) -> str:
    return (ROOT / "skills" / skill / "SKILL.md").read_text("utf-8")


def briefs() -> list[Any]:
    """Return every brief that the three skills show."""
    found = []
    for skill in ("lora-qlora-recipes", "preference-optimization", "eval-harness-first"):
        for text in re.findall(r"^```yaml\n(.*?)^```", shown(skill), re.MULTILINE | re.DOTALL):
            name = YAML(typ="safe", pure=True).load(text)["name"]
            found.append(pytest.param(skill, text, id=f"{skill}-{name}"))
    return found


def write_run(folder: Path, text: str) -> Path:
    """Write the brief as it is shown, and rows with the columns that it names."""
    dataset = YAML(typ="safe", pure=True).load(text)["dataset"]
    kind = next(name for name in ("label", "chosen", "completion") if name in dataset)
    for path, prompts in ((dataset["path"], PROMPTS), (dataset["evaluation"], HELD_OUT)):
        rows = [{"prompt": prompt, "answer": "6", **more} for prompt, more in zip(prompts, ROWS[kind], strict=True)]
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    (folder / "brief.yaml").write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(("skill", "brief"), briefs())
def test_the_steps_before_training_run(
    skill: str, brief: str, tmp_path: Path, finetune: Callable[..., tuple[int, str, str]]
) -> None:
    """The brief is one, its data pass the audit, and each step ends as the skill says."""
    run = write_run(tmp_path / "run", brief)
    commands = [shlex.split(words) for words in re.findall(r"`finetune ([a-z]+ RUN)`", shown(skill))]
    verbs = list(dict.fromkeys(verb for verb, _ in commands if verb in RUNS))
    assert "audit" in verbs

    for verb in sorted(verbs, key=list(RUNS).index):
        code, out, err = finetune(verb, run, *OPTIONS.get(verb, []))
        assert code in RUNS[verb], (verb, out, err)


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "orpo", "simpo"])
def test_a_new_brief_has_the_columns_of_its_method(
    method: str, tmp_path: Path, finetune: Callable[..., tuple[int, str, str]]
) -> None:
    """`finetune new RUN --method METHOD` is where each of the skills begins."""
    assert finetune("new", tmp_path / "run", "--method", method)[0] == 0

    dataset = YAML(typ="safe", pure=True).load((tmp_path / "run" / "brief.yaml").read_text("utf-8"))["dataset"]
    wanted = {"sft": {"prompt", "completion"}, "kto": {"prompt", "completion", "label"}}
    assert set(dataset) - {"path"} == wanted.get(method, {"prompt", "chosen", "rejected"})
