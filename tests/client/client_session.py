"""The real Claude Code client as a process: a home of its own, nothing that calls out, a scripted model behind it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripted_model import Body, Reply, results, serving, texts

ROOT = Path(__file__).resolve().parents[2]
CLIENT = os.environ.get("FINETUNE_TEST_CLIENT", "")
NAME = "llm-finetuning"

needs_client = pytest.mark.skipif(
    not CLIENT, reason="set FINETUNE_TEST_CLIENT to the claude binary of @anthropic-ai/claude-code@2.1.332 from npm"
)

SMALL_WINDOW = "claude-sonnet-4-5"  # 200,000 tokens: the smallest budget for the list of skills
REFUSED = ("requires approval", "needs approval", "has been denied", "haven't granted it yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What passed between client, model and tools for one prompt."""

    init: dict[str, Any]  # what the client loaded
    requests: list[Body]

    @property
    def shown(self) -> str:
        """Everything that the model was shown before its first reply."""
        return "\n".join(texts(self.requests[0]))

    @property
    def results(self) -> list[str]:
        """What the tool calls of this prompt answered."""
        return results(self.requests[-1])


def was_refused(result: str) -> bool:
    return any(words in result for words in REFUSED)


def claude(home: Path, *arguments: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the client; `finetune` in its shell uses this Python."""
    quiet = ("DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "FINETUNE_PYTHON": sys.executable,
        "FINETUNE_HOME": str(home / "finetune"),
        **dict.fromkeys(quiet, "1"),
        **more,
    }
    return subprocess.run(
        [CLIENT, *arguments], env=environment, cwd=cwd or home, capture_output=True, text=True, timeout=180, check=False
    )


def ask(
    home: Path,
    prompt: str,
    replies: Sequence[Reply] = (),
    *options: str,
    plugin: Path | None = ROOT,
    cwd: Path | None = None,
    model: str = SMALL_WINDOW,
) -> Session:
    """Give the client one prompt, let the scripted model answer, and return what passed.

    Args:
        home: The client's home; kept between two calls, so is what is installed there.
        prompt: What a person types.
        replies: What the model says, in order.
        *options: Further options of the client.
        plugin: A plugin folder or .zip to load; None for what is installed in the home.
        cwd: The folder that the session works in; the home when left out.
        model: Whose window the client reckons with.
    """
    with serving(replies) as scripted:
        loads = () if plugin is None else ("--plugin-dir", str(plugin))
        form = ("--output-format", "stream-json", "--verbose", "--model", model)
        keys = {"ANTHROPIC_BASE_URL": scripted.url, "ANTHROPIC_API_KEY": "none"}
        done = claude(home, "-p", prompt, *loads, *form, *options, cwd=cwd, **keys)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    init = next(line for line in lines if line.get("subtype") == "init")
    assert scripted.requests, done.stdout
    return Session(init=init, requests=scripted.requests)
