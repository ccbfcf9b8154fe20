"""What the skill says of methods is what the routing table says now."""

import re

import method_reference
import pytest

from llm_finetuning.stages.route import OUTCOMES, QUESTIONS

SKILL = method_reference.PAGE.parent.parent / "SKILL.md"
OFF_RAMPS = method_reference.PAGE.with_name("off-ramps.md")


def test_the_page_is_the_tables() -> None:
    """A table that changed has written its page anew: python tests/references/method_reference.py."""
    assert method_reference.PAGE.read_text("utf-8") == method_reference.page()


def test_every_off_ramp_is_explained() -> None:
    """And no section explains a way out that is none."""
    headings = re.findall(r"^## `([a-z-]+)`$", OFF_RAMPS.read_text("utf-8"), re.MULTILINE)
    assert headings == [name for name, outcome in OUTCOMES.items() if outcome.kind == "off-ramp"]


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_skill_says_what_to_do_with_each_answer(name: str) -> None:
    """An agent that got an answer finds it there."""
    assert f"`{name}`" in SKILL.read_text("utf-8")


def test_answers_shown_are_answers() -> None:
    """Every KEY=VALUE in the skill's commands is one that the command takes."""
    taken = {f"{question.key}={value}" for question in QUESTIONS for value in question.values}
    shown = set()
    for path in (SKILL, OFF_RAMPS):
        shown |= set(re.findall(r"--answer ([a-z_]+=[\w-]+)", path.read_text("utf-8")))
    assert shown
    assert shown <= taken
