"""The agent that trains has what it needs to run and read, and nothing to write with."""

import re

from requests_table import ROOT
from ruamel.yaml import YAML

AGENT = ROOT / "agents" / "llm-finetuning-training-engineer.md"


def test_the_agent_cannot_write_or_fetch() -> None:
    """It never changes a reward, a label or a gate: it has no tool for it, and its verbs are those of a built run."""
    _, head, body = AGENT.read_text("utf-8").split("---\n", 2)
    front = YAML(typ="safe", pure=True).load(head)

    assert front["name"] == AGENT.stem
    assert set(re.split(r",\s*", front["tools"])) == {"Read", "Grep", "Glob", "Bash"}
    assert "allowed-tools" not in front  # each command asks
    body = body.partition("## Steps")[2].partition("## Triage")[0]
    steps = set(re.findall(r"^\s+`finetune ([a-z]+) RUN|^\d+\. `finetune ([a-z]+) RUN", body, re.MULTILINE))
    assert {verb for pair in steps for verb in pair if verb} == {"status", "preflight", "plan", "train", "diagnose"}
