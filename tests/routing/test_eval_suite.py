"""The cases for `claude plugin eval` are the table's, in the form that the client reads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import eval_suite
import pytest
import requests_table
from ruamel.yaml import YAML

CASES = sorted(path.parent for path in eval_suite.FOLDER.glob("*/prompt.md"))

PROMPT_KEYS = {"description", "tags", "max_turns", "timeout_seconds", "allowed_tools"}
GRADER_KEYS = {"type", "tool", "input_match", "min", "max"}
"""Of the client 2.1.332, which refuses a case with another key."""


def parts(path: Path) -> tuple[Mapping[str, Any], str]:
    """Return the frontmatter of a file and its text."""
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    return YAML(typ="safe", pure=True).load(head), body.strip()


def test_the_folder_is_the_table() -> None:
    """A table that changed has written its cases anew: python tests/routing/eval_suite.py."""
    there = {str(path.relative_to(eval_suite.FOLDER)): path for path in eval_suite.FOLDER.rglob("*.md")}

    assert {name: path.read_text("utf-8") for name, path in there.items()} == eval_suite.files(eval_suite.selection())


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_case_is_in_the_clients_form(case: Path) -> None:
    """A prompt of the table, and graders that tell its skill's call from another's."""
    head, say = parts(case / "prompt.md")
    (request,) = [one for one in requests_table.requests() if one.say == say]
    graders = {path.stem: parts(path)[0] for path in (case / "graders").glob("*.md")}

    assert set(head) == PROMPT_KEYS
    assert graders
    for grader in graders.values():
        assert set(grader) <= GRADER_KEYS
        assert (grader["type"], grader["tool"]) == ("tool_used", "Skill")
    calls = {name: f'{{"skill": "llm-finetuning:{name}"}}' for name in requests_table.SKILLS}
    for name, call in calls.items():
        passed = all(
            grader["min"] <= bool(re.search(grader["input_match"], call)) <= grader.get("max", 1)
            for grader in graders.values()
        )
        assert passed == (name == request.skill)


def test_the_whole_table_can_be_written(tmp_path: Path) -> None:
    """Each request becomes one case, whatever its language."""
    eval_suite.main([str(tmp_path / "all"), "--all"])

    assert len(list((tmp_path / "all").glob("*/prompt.md"))) == len(requests_table.requests())
