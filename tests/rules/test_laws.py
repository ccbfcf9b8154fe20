"""The laws of the layout: what may import what, who writes what, and how fast help answers."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_finetuning import pipeline
from llm_finetuning.cli import VERBS
from llm_finetuning.rewards import LIBRARY

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "scripts" / "llm_finetuning"
HEAVY = {"torch", "transformers", "trl", "vllm", "peft", "datasets", "accelerate", "gguf", "huggingface_hub"}
MAX_LINES = 400
HELP_CPU_S = 0.3


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything a file imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def test_stages_and_findings_import_pure_rooms_and_nothing_else_of_ours() -> None:
    """A stage is a pure function of records: no stage imports another, or a path, or a command.

    `findings/` holds what the gate can find, one file a question, under the same law; so does `comparing/` of what
    decides a promotion.
    """
    rooms = ("types", "statistics", "findings", "comparing")
    pure = tuple(f"llm_finetuning.{name}." for name in rooms)
    also = tuple(f"llm_finetuning.{name}" for name in rooms[1:])  # `from llm_finetuning import statistics`
    for room_name in ("stages", "findings", "comparing"):
        for path in (PACKAGE / room_name).glob("*.py"):
            ours = {name for name in imports(path) if name.startswith("llm_finetuning")}
            assert all(name.startswith(pure) or name in also for name in ours), (path.name, ours)


def test_planning_is_arithmetic_alone() -> None:
    """The planner's formulae know numbers and a model's config, no brief, no file and no machine."""
    for path in (PACKAGE / "planning").glob("*.py"):
        ours = {name for name in imports(path) if name.startswith("llm_finetuning")}
        assert all(name.startswith("llm_finetuning.planning") for name in ours), (path.name, ours)


def test_heavy_libraries_are_imported_in_engines_and_templates_alone() -> None:
    """One careless import would make every verb wait for torch."""
    for path in modules():
        if room(path) not in ("engines", "templates"):
            found = {name.split(".")[0] for name in imports(path)} & HEAVY
            assert not found, (path, found)


def test_nothing_imports_an_engine() -> None:
    """Engines are programs for another interpreter; they may share their own protocol alone."""
    for path in modules():
        reached = {name for name in imports(path) if name.startswith("llm_finetuning.engines")}
        if room(path) != "engines":
            assert not reached, (path, reached)
        else:
            ours = {name for name in imports(path) if name.startswith("llm_finetuning")}
            assert ours == reached, (path, ours - reached)


def test_nothing_imports_a_command_but_commands_and_the_demo() -> None:
    """A verb is where a call comes in: what two verbs need stands in a room below both."""
    for path in modules():
        if room(path) not in ("commands", "demo"):
            assert not {name for name in imports(path) if name.startswith("llm_finetuning.commands")}, path


def test_only_artifact_knows_how_an_artifact_is_laid_out() -> None:
    """Every other module goes through it, so that headers and digests cannot be forgotten."""
    names = [stage.writes for stage in pipeline.STAGES if stage.schema]
    opens = re.compile(r"(?:open|read_text|read_bytes|write_text|write_bytes)\(")
    for path in modules():
        if path.name == "artifact.py" or room(path) == "engines":
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            assert not (opens.search(line) and any(name in line for name in names)), f"{path}:{number}"


def test_every_artifact_has_one_writer() -> None:
    """Two verbs that write one file would undo each other's work; `header_for` is asked for by writers alone.

    `sampling/drawing.py` fills whichever file its verb names, and names none itself.
    """
    written = [stage.writes for stage in pipeline.STAGES]
    assert len(written) == len(set(written))
    for path in modules():
        text = path.read_text("utf-8")
        if (
            path not in (PACKAGE / "artifact.py", PACKAGE / "sampling" / "drawing.py")
            and "artifact.header_for(" in text
        ):
            (stage,) = [stage for stage in pipeline.STAGES if stage.verb == path.stem]
            named = re.findall(r'\bpath = loaded\.run_dir / f?"([\w./{}-]+)"', text)
            assert {stage.writes} == {name.replace("{name}", "NAME") for name in named}, path


def test_stages_read_only_what_was_written_before() -> None:
    """The road has one direction."""
    written: set[str] = set()
    for stage in pipeline.STAGES:
        assert set(stage.reads) <= written, stage.verb
        assert stage.verb in VERBS
        written.add(stage.writes)


def test_modules_are_short_and_named_after_nouns_of_the_field() -> None:
    """A drawer for everything is where structure ends."""
    for path in modules():
        assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES, path
        assert not re.search(r"util|helper|manager|misc|common", path.stem), path


def test_the_version_stands_in_one_place() -> None:
    """A second copy is a copy that drifts."""
    version = json.loads((ROOT / ".claude-plugin" / "plugin.json").read_text("utf-8"))["version"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    holding = [
        name
        for name in listed.stdout.split("\n")
        if name.endswith((".toml", ".json", ".py", ".sh"))
        and re.search(rf'version["\s:=]+"?{re.escape(version)}"', (ROOT / name).read_text("utf-8"))
    ]
    assert holding in ([".claude-plugin/plugin.json"], [])


@pytest.mark.parametrize("arguments", [["--help"], *([verb, "--help"] for verb in VERBS)], ids=" ".join)
def test_help_is_quick_and_light(arguments: list[str]) -> None:
    """Help answers in under 0.3 s of CPU time with none of the heavy libraries loaded."""
    program = (
        "import sys; sys.path[0] = sys.argv.pop(1)\n"
        "from llm_finetuning.cli import main\n"
        "code = main()\n"
        "import json, resource\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('\\n' + json.dumps([code, usage.ru_utime + usage.ru_stime, sorted(sys.modules)]))\n"
    )
    best = HELP_CPU_S
    for _ in range(3):  # the first start may compile; CPU time on a busy machine still varies
        command = [sys.executable, "-c", program, str(ROOT / "scripts"), *arguments]
        out = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
        code, seconds, loaded = json.loads(out.splitlines()[-1])
        assert code == 0
        assert not HEAVY & set(loaded)
        assert "Usage: finetune" in out
        best = min(best, seconds)
    assert best < HELP_CPU_S


def test_every_verb_has_a_readme_row_and_a_skill_that_names_it() -> None:
    """A verb that nobody is told of is not there."""
    readme = (ROOT / "README.md").read_text("utf-8")
    skills = "\n".join(path.read_text("utf-8") for path in (ROOT / "skills").rglob("*.md"))
    for verb, (_, line) in VERBS.items():
        assert f"| `{verb}` | {line}" in readme, verb
        assert f"finetune {verb}" in skills, verb


def test_every_library_reward_is_documented() -> None:
    """A reward is named in the reference that says what it pays."""
    text = (ROOT / "skills/grpo-rlvr-training/references/reward-functions.md").read_text("utf-8")
    for name in LIBRARY:
        assert f"| `{name}` |" in text
