"""The plugin in the real Claude Code client, with no network: valid, complete, and installed with its launcher."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = os.environ.get("FINETUNE_TEST_CLIENT", "")

pytestmark = pytest.mark.skipif(
    not CLIENT, reason="set FINETUNE_TEST_CLIENT to the claude binary of @anthropic-ai/claude-code@2.1.332 from npm"
)


def claude(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the client with a home of its own and nothing that calls out."""
    quiet = ("DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **dict.fromkeys(quiet, "1"),
    }
    command = [CLIENT, *arguments]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("target", [".", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json"])
def test_strict_validation_passes(tmp_path: Path, target: str) -> None:
    """Warnings count: an unknown field or a missing description is a defect."""
    done = claude(tmp_path, "plugin", "validate", "--strict", str(ROOT / target))

    assert done.returncode == 0, done.stdout + done.stderr


def test_client_loads_what_lies_on_the_disk(tmp_path: Path) -> None:
    """A skill in the wrong place is accepted by the validator and never loaded; so the lists are compared."""
    done = claude(tmp_path, "plugin", "validate", "--strict", "--json", str(ROOT / ".claude-plugin/plugin.json"))
    provides = json.loads(done.stdout)["provides"]

    assert sorted(provides["skills"]) == sorted(
        f"llm-finetuning:{path.parent.name}" for path in ROOT.glob("skills/**/SKILL.md")
    )
    assert sorted(provides["commands"]) == sorted(f"llm-finetuning:{path.stem}" for path in ROOT.glob("commands/*.md"))
    assert sorted(provides["agents"]) == sorted(f"llm-finetuning:{path.stem}" for path in ROOT.glob("agents/*.md"))
    assert provides["bin"] == ["finetune"]


def test_installed_from_git_the_launcher_runs(tmp_path: Path) -> None:
    """What users get: tracked files alone, copied into the client's cache, with an executable `finetune`."""
    catalog = tmp_path / "catalog" / ".claude-plugin"
    catalog.mkdir(parents=True)
    entry = {
        "name": "llm-finetuning",
        "description": "Under test.",
        "source": {"source": "url", "url": f"file://{ROOT}"},
    }
    marketplace = {"name": "under-test", "description": "Under test.", "owner": {"name": "tests"}, "plugins": [entry]}
    (catalog / "marketplace.json").write_text(json.dumps(marketplace), "utf-8")
    for arguments in (("marketplace", "add", str(tmp_path / "catalog")), ("install", "llm-finetuning@under-test")):
        done = claude(tmp_path, "plugin", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    (launcher,) = (tmp_path / ".claude" / "plugins" / "cache").rglob("bin/finetune")
    environment = {**os.environ, "FINETUNE_PYTHON": sys.executable, "FINETUNE_HOME": str(tmp_path / "home")}
    shown = subprocess.run([launcher, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("finetune, version ")
    details = claude(tmp_path, "plugin", "details", "llm-finetuning").stdout
    assert "grpo-rlvr-training" in details
