"""The plugin in the real Claude Code client, with no network: valid, complete, loaded from wherever users have it."""

import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_session import NAME, ROOT, Session, ask, claude, needs_client
from ruamel.yaml import YAML
from scripted_model import Call, bash

pytestmark = needs_client


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of the client for tests that install nothing."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("target", [".", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json"])
def test_strict_validation_passes(home: Path, target: str) -> None:
    """Warnings count: an unknown field or a missing description is a defect."""
    done = claude(home, "plugin", "validate", "--strict", str(ROOT / target))

    assert done.returncode == 0, done.stdout + done.stderr


def test_client_loads_what_lies_on_the_disk(home: Path) -> None:
    """A skill in the wrong place is accepted by the validator and never loaded; so the lists are compared."""
    done = claude(home, "plugin", "validate", "--strict", "--json", str(ROOT / ".claude-plugin/plugin.json"))
    provides = json.loads(done.stdout)["provides"]

    assert sorted(provides["skills"]) == names(files_of_tree(), "skills")
    assert sorted(provides["commands"]) == names(files_of_tree(), "commands")
    assert sorted(provides["agents"]) == names(files_of_tree(), "agents")
    assert provides["bin"] == ["finetune"]


def files_of_tree() -> list[str]:
    """Return the files of the working tree that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def files_of_commit() -> list[str]:
    return subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


PLACES = {"skills": r"skills/([^/]+)/SKILL\.md", "commands": r"commands/([^/]+)\.md", "agents": r"agents/([^/]+)\.md"}


def names(files: list[str], kind: str) -> list[str]:
    """Return what the client should call the parts of a kind that lie at their place."""
    return sorted(f"{NAME}:{found[1]}" for name in files if (found := re.fullmatch(PLACES[kind], name)))


def check_loaded(session: Session, files: list[str]) -> None:
    """Everything in the files is there under its name, nothing else of ours is, and `finetune` is on the PATH."""
    assert not session.init.get("plugin_errors")
    mine = {kind: sorted(name for name in session.init[kind] if name.startswith(NAME)) for kind in KINDS}
    assert mine["agents"] == names(files, "agents")
    assert mine["slash_commands"] == sorted([*names(files, "skills"), *names(files, "commands")])
    assert set(names(files, "skills")) <= set(mine["skills"]) <= set(mine["slash_commands"])
    assert session.results[0].startswith("finetune, version ")


KINDS = ("skills", "agents", "slash_commands")
VERSION = (bash("finetune --version"),)
LET_VERSION = ("--allowedTools", "Bash(finetune --version)")


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_loads_from_a_folder_and_from_a_zip(home: Path, tmp_path: Path, form: str) -> None:
    """With each part under its name and the launcher executable."""
    files = files_of_tree()
    plugin = ROOT
    if form == "zip":
        plugin = tmp_path / "plugin.zip"
        with zipfile.ZipFile(plugin, "w") as packed:
            for name in files:
                packed.write(ROOT / name, name)
    check_loaded(ask(home, "hello", VERSION, *LET_VERSION, plugin=plugin), files)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with the plugin installed from a marketplace that names this repository's git."""
    home = tmp_path_factory.mktemp("installed")
    catalog = home / "catalog" / ".claude-plugin"
    catalog.mkdir(parents=True)
    source = {"source": "url", "url": f"file://{ROOT}"}
    entry = {"name": NAME, "description": "Under test.", "source": source}
    marketplace = {"name": "under-test", "description": "Under test.", "owner": {"name": "tests"}, "plugins": [entry]}
    (catalog / "marketplace.json").write_text(json.dumps(marketplace), "utf-8")
    for arguments in (("marketplace", "add", str(home / "catalog")), ("install", f"{NAME}@under-test")):
        done = claude(home, "plugin", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return home


def test_installed_from_git_the_launcher_runs(installed: Path) -> None:
    """What users get: tracked files alone, copied into the client's cache, each part loaded, `finetune` executable."""
    (launcher,) = (installed / ".claude" / "plugins" / "cache").rglob("bin/finetune")
    root = launcher.parents[1]
    copied = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    tracked = set(files_of_commit())
    assert tracked <= copied
    assert copied == tracked
    check_loaded(ask(installed, "hello", VERSION, *LET_VERSION, plugin=None), files_of_commit())
    assert "grpo-rlvr-training" in claude(installed, "plugin", "details", NAME).stdout


# --- what the model is shown -----------------------------------------------------------------------------------------


def listed(session: Session) -> dict[str, str]:
    """Return the list of skills as the model is shown it, with the descriptions; empty where one was left out."""
    _, found = session.shown.split("The following skills are available")
    return dict(re.findall(r"^- ([\w-]+(?::[\w-]+)?)(?:: (.*))?$", found, re.MULTILINE))


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-haiku-4-5", "sonnet"])
def test_every_description_reaches_the_model(home: Path, model: str) -> None:
    """Beside the client's own skills, on the small window too; the typed door takes nothing of the list."""
    found = listed(ask(home, "hello", model=model))
    described = {f"{NAME}:{path.parent.name}": _description(path) for path in sorted(ROOT.glob("skills/*/SKILL.md"))}
    assert {name: text for name, text in found.items() if name.startswith(NAME)} == described
    assert len(found) - len(described) >= 10, "the client's own skills are missing: the budget was not tried"


def _description(path: Path) -> str:
    front = YAML(typ="safe", pure=True).load(path.read_text("utf-8").split("---\n")[1])
    return str(front["description"])


@pytest.mark.parametrize("typed", ["/finetune", "/llm-finetuning:finetune"])
def test_the_door_opens_by_both_names(home: Path, typed: str) -> None:
    """A command with a `name:` answers to the bare name as well; arguments and the plugin's folder are filled in."""
    session = ask(home, f"{typed} my runs/sums")

    assert "RUN, the run directory, is: my runs/sums\n" in session.shown
    assert f'`"{ROOT}/bin/finetune" review RUN`' in session.shown
    assert "$ARGUMENTS" not in session.shown
    assert "CLAUDE_PLUGIN_ROOT" not in session.shown


def test_the_model_cannot_open_the_door_itself(home: Path) -> None:
    """A run through all phases is a person's to start."""
    (answer,) = ask(home, "tune it", [Call("Skill", {"skill": f"{NAME}:finetune"})]).results
    assert "cannot be used with Skill tool due to disable-model-invocation" in answer


def test_the_agent_is_offered(home: Path) -> None:
    """With its description, so that a request to train can reach it."""
    (path,) = ROOT.glob("agents/*.md")
    assert f"- {NAME}:{path.stem}: {_description(path)[:100]}" in _agents(ask(home, "hello", model="sonnet"))


def _agents(session: Session) -> str:
    return session.shown + json.dumps(session.requests[0]["tools"], ensure_ascii=False)
