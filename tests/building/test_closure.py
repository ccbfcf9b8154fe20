"""The frozen part of the package: all that a run imports, and nothing of what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from llm_finetuning.building import closure, freeze

ROOMS_OF_THE_CLI = ("commands", "web", "probes", "engines", "stages", "building", "templates")

IMPORT_ALL = """
import importlib, json, sys
sys.path[:] = [sys.argv[1], *sys.path[1:]]
sys.dont_write_bytecode = True
for name in json.loads(sys.argv[2]):
    importlib.import_module(name)
import llm_finetuning
print(llm_finetuning.__file__)
print(json.dumps(sorted(name for name in sys.modules if name.startswith("llm_finetuning"))))
"""


def copied(folder: Path, files: list[Path]) -> None:
    for relative in files:
        freeze.copy(closure.PACKAGE / relative, folder / "llm_finetuning" / relative)


def module_name(relative: Path) -> str:
    parts = relative.with_suffix("").parts
    return ".".join(("llm_finetuning", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


@pytest.mark.parametrize("rooms", [closure.ROOMS, ()], ids=["with rewards", "without rewards"])
def test_the_frozen_part_imports_alone(tmp_path: Path, rooms: tuple[str, ...]) -> None:
    """In a fresh process with the frozen folder alone on the path every module of it imports."""
    import json

    files = closure.closure(freeze.programs("grpo"), rooms)
    copied(tmp_path, files)
    # What runs in the box of the sandbox imports only there.
    names = [module_name(path) for path in files if path.suffix == ".py" and path.parts[:2] != ("sandbox", "box")]
    done = run_python("-c", IMPORT_ALL, str(tmp_path), json.dumps(names))
    assert done.returncode == 0, done.stderr
    place, loaded = done.stdout.splitlines()
    assert Path(place).is_relative_to(tmp_path)
    assert {"llm_finetuning.lineage", "llm_finetuning.brief", "llm_finetuning.rewards.composition"} <= set(
        json.loads(loaded)
    )


def test_nothing_that_a_run_does_not_need_is_in_it() -> None:
    """Commands, pages, probes and engines stay out; the two rooms of the gate's digests come whole."""
    files = closure.closure(freeze.programs("grpo"))
    assert not {path.parts[0] for path in files} & set(ROOMS_OF_THE_CLI)
    for room in closure.ROOMS:
        there = {path.relative_to(closure.PACKAGE) for path in (closure.PACKAGE / room).rglob("*.py")}
        assert there == {path for path in files if path.parts[0] == room and path.suffix == ".py"}
    assert Path("trl_options.json") in files
    assert not [path for path in files if "__pycache__" in path.parts]


def test_data_files_of_the_rooms_come_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list or a table that a reward of the library reads lies beside it in the run."""
    package = tmp_path / "llm_finetuning"
    for name, text in {
        "__init__.py": "",
        "base.py": "from llm_finetuning import named",
        "named.py": "",
        "named.json": "{}",
        "other.json": "{}",
        "unused.py": "",
        "room/__init__.py": "import llm_finetuning.deep.inner",
        "room/words.txt": "a",
        "room/more/table.json": "{}",
        "room/__pycache__/a.pyc": "",
        "deep/__init__.py": "def later():\n    from llm_finetuning.base import named",
        "deep/inner.py": "",
        "deep/unused.py": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(closure, "PACKAGE", package)
    assert [str(path) for path in closure.closure([], ["room"])] == [
        "__init__.py",
        "base.py",
        "deep/__init__.py",
        "deep/inner.py",
        "named.json",
        "named.py",
        "room/__init__.py",
        "room/more/table.json",
        "room/words.txt",
    ]


def test_modules_from_elsewhere_are_named() -> None:
    """What the frozen part imports beside itself is what its requirements have to bring."""
    outside = closure.outside(closure.closure(freeze.programs("grpo"))) - set(sys.stdlib_module_names)
    assert {"pydantic", "ruamel", "jsonschema_rs", "math_verify", "httpx", "numpy"} <= outside
    assert not outside & {"click", "rich", "jinja2", "starlette", "uvicorn", "torch", "trl"}


def test_a_relative_import_is_our_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading would miss what it names, so it is not passed over; in a person's own package it is their matter."""
    path = tmp_path / "a.py"
    path.write_text("from . import b\nimport c\n")
    assert closure.imported(path) == {"c"}
    monkeypatch.setattr(closure, "PACKAGE", tmp_path)
    with pytest.raises(ValueError, match=r"a\.py:1: a relative import"):
        closure.imported(path)
