"""The check at the start of train.py: one changed character anywhere, and nothing is trained."""

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import built_runs
from llm_finetuning import artifact
from llm_finetuning.types import GateReport

CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from pathlib import Path
from guards import gate_check
try:
    loaded = gate_check.check(Path(sys.argv[1]))
except gate_check.Refused as refused:
    print(refused)
    raise SystemExit(1)
from llm_finetuning.rewards import composition
(component,) = composition.compose(loaded, ["answer"])
print(component.function(prompts=["p"] * 2, completions=["so 7", "so 8"], completion_ids=[[1]] * 2, answer=["7"] * 2))
print(sorted({module.split(".")[1] for module in sys.modules if module.startswith("llm_finetuning.")}))
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built run with a reward of a person's own and a local model; copied by each test."""
    root = tmp_path_factory.mktemp("gated")
    built_runs.build_unchecked(built_runs.write_opened(root))
    return root


@pytest.fixture
def train(original: Path, tmp_path: Path) -> Path:
    """The folder `train` alone in another place; the run that it was built from stays away from it."""
    return shutil.copytree(original / "run" / "train", tmp_path / "copied")


def ask(train: Path, **environ: str) -> tuple[int, str]:
    command = [sys.executable, "-s", "-c", CHECK, str(train)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin:/bin", **environ}
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.strip()


def test_a_copied_folder_trains_elsewhere(train: Path) -> None:
    """In another place, with the frozen package alone on the path, the check passes and the rewards pay as they did."""
    code, said = ask(train)
    assert code == 0, said
    paid, rooms = said.splitlines()
    assert paid == "[1.0, 0.0]"
    assert not {"commands", "web", "probes", "engines", "stages"} & set(eval(rooms))  # noqa: S307  printed above


def changed(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(train: Path) -> None:
        path = train / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")

    return change


def added(name: str) -> Callable[[Path], None]:
    def add(train: Path) -> None:
        (train / name).write_text("")

    return add


def stray(name: str) -> Callable[[Path], None]:
    def add(train: Path) -> None:
        (train / name).parent.mkdir(parents=True)
        (train / name).write_text("")

    return add


def linked(name: str) -> Callable[[Path], None]:
    def link(train: Path) -> None:
        other = train.parent / "elsewhere"
        other.mkdir()
        (other / "__init__.py").write_text("")
        (other / "again").symlink_to(other)
        (train / name).symlink_to(other)

    return link


def disguised(train: Path) -> None:
    stray("trl/__init__.py")(train)
    (train / "trl" / "pyvenv.cfg").write_text("")


def removed(name: str) -> Callable[[Path], None]:
    return lambda train: (train / name).unlink()


LIBRARY_FILE = "rewards/llm_finetuning/rewards/extraction.py"
CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "own reward": (changed("rewards/files/mine.py", "value", "valu"), "rewards/files/mine.py"),
    "its neighbour": (changed("rewards/files/bonus.py", "value", "Value"), "rewards/files/bonus.py"),
    "a file that it reads": (changed("rewards/files/words.txt", "a", "b"), "rewards/files/words.txt"),
    "library": (changed(LIBRARY_FILE, "e", "f"), LIBRARY_FILE),
    "sandbox": (changed("rewards/llm_finetuning/sandbox/jobs.py", "e", "f"), "sandbox/jobs.py"),
    "training row": (changed("data/train.jsonl", "What", "Whet"), "data/train.jsonl"),
    "data set": (changed("data/source/data.jsonl", "What", "Whet"), "data/source/data.jsonl"),
    "sampling option": (changed("brief.yaml", "num_generations: 4", "num_generations: 5"), "brief.yaml"),
    "config": (changed("config.yaml", "beta: 0.01", "beta: 0.02"), "config.yaml"),
    "verdict": (changed("gate.json", '"verdict": "open"', '"verdict": "opan"'), "gate.json"),
    "guard": (changed("guards/stops.py", "e", "f"), "guards/stops.py"),
    "train.py": (changed("train.py", "e", "f"), "train.py"),
    "stray guard": (added("guards/more.py"), "guards/more.py"),
    "stray module": (added("rewards/files/math.py"), "rewards/files/math.py"),
    "stray library": (added("rewards/sympy.so"), "rewards/sympy.so"),
    "beside train.py": (added("torch.py"), "torch.py"),
    "compiled beside train.py": (added("torch.pyc"), "torch.pyc"),
    "package": (stray("trl/__init__.py"), "trl/__init__.py"),
    "compiled package": (stray("trl/__init__.pyc"), "trl/__init__.pyc"),
    "namespace package": (stray("trl/trainer/deep/grpo_trainer.so"), "trl/trainer/deep/grpo_trainer.so"),
    "package as an environment": (disguised, "trl/__init__.py"),
    "linked package": (linked("trl"), "trl/__init__.py"),
    "linked package in rewards": (linked("rewards/trl"), "rewards/trl/__init__.py"),
    "package in guards": (stray("guards/more/__init__.py"), "guards/more/__init__.py"),
    "package in rewards": (stray("rewards/trl/__init__.py"), "rewards/trl/__init__.py"),
    "missing": (removed("rewards/files/bonus.py"), "rewards/files/bonus.py"),
    "no record": (removed("build.json"), "build.json"),
    "half a record": (lambda train: (train / "build.json").write_text('{"files": {}'), "build.json"),
    "record of another form": (lambda train: (train / "build.json").write_text("[]"), "build.json"),
}


@pytest.mark.parametrize(("change", "name"), CHANGES.values(), ids=CHANGES)
def test_one_changed_character_is_refused(train: Path, change: Callable[[Path], None], name: str) -> None:
    """Exit 1 and one line that names the file and how to mend it."""
    change(train)
    code, said = ask(train)
    assert code == 1
    assert said.startswith(f"{train}/")
    assert name in said.partition(": ")[0]
    assert "\n" not in said
    assert "build the run again (`finetune build RUN`)" in said


@pytest.mark.parametrize("name", ["launch.sh", "requirements.txt"])
def test_how_a_run_is_started_may_be_adapted(train: Path, name: str) -> None:
    """A module to load or another account is the machine's matter; so are a README and an environment of its own."""
    (train / name).write_text("# adapted\n")
    (train / ".venv").mkdir()
    (train / ".venv" / "torch.py").write_text("")
    (train / "guards" / "__pycache__").mkdir()
    (train / "guards" / "__pycache__" / "stops.cpython-313.pyc").write_text("")
    (train / "checkpoints").mkdir()
    (train / "checkpoints" / "x.py").write_text("")
    for file in ("env/lib/torch.py", "env/pyvenv.cfg", "wandb/run-1/x.py", "notes/x.txt", "logs/x.py", "trl/x-y/z.py"):
        (train / file).parent.mkdir(parents=True, exist_ok=True)
        (train / file).write_text("")
    assert ask(train)[0] == 0


def rewrite(train: Path, name: str, old: str, new: str) -> None:
    """Change a file and put its new digest into the record, as somebody does who wants it so."""
    changed(name, old, new)(train)
    enter(train, name)


def enter(train: Path, name: str) -> None:
    body = json.loads((train / "build.json").read_text())
    body["files"][name] = artifact.digest_file(train / name)
    (train / "build.json").write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("rewards/files/mine.py", "(value)", "(1.0)  #", "mine.py differs from what the gate judged"),
        ("rewards/files/bonus.py", "return value", "return 1", "bonus.py (imported by mine.py) differs"),
        ("rewards/files/words.txt", "a", "b", "words.txt differs"),
        ("data/source/data.jsonl", "What", "Whet", "data.jsonl differs"),
        (
            "brief.yaml",
            "num_generations: 4",
            "num_generations: 8",
            ": sampling of brief.yaml differs",
        ),
        ("brief.yaml", "batch_size: 4", "batch_size: 8", "objective and batch options of brief.yaml differs"),
        ("gate.json", '"verdict": "open"', '"verdict": "blocked"', "the gate is not open (blocked)"),
        ("gate.json", '"readers": "persons"', '"readers": "person"', "counts for the demo alone"),
        ("gate.json", '"words.txt": "', '"words.txt": "0', "its fingerprint is not that of what it names"),
    ],
)
def test_a_changed_record_does_not_help(train: Path, name: str, old: str, new: str, words: str) -> None:
    """What the gate judged is digested once more: the fingerprint does not move with the record."""
    rewrite(train, name, old, new)
    code, said = ask(train)
    assert (code, words in said) == (1, True), said
    assert "build the run again" in said or "blocked" in words


def test_a_changed_library_does_not_pass_with_a_changed_record(original: Path, tmp_path: Path) -> None:
    """The library's digest in the gate is of the whole room, as it was inspected."""
    text = built_runs.BRIEF.replace("file: mine.py:mine\n    files: [words.txt]", "use: exact_answer")
    shutil.copytree(original / "model", tmp_path / "model")
    folder = built_runs.write_opened(tmp_path, text=text.replace("MODEL", str(tmp_path / "model")))
    built_runs.build_unchecked(folder)
    rewrite(folder / "train", "rewards/llm_finetuning/rewards/extraction.py", '"""', '"""X')
    code, said = ask(folder / "train")
    assert code == 1
    assert "library:rewards differs from what the gate judged" in said


def test_the_model_is_compared_where_it_lies(train: Path, original: Path, tmp_path: Path) -> None:
    """Another place for the model is named in the environment; another template in it is refused."""
    moved = shutil.copytree(original / "model", tmp_path / "moved")
    assert ask(train, FINETUNE_MODEL=str(moved))[0] == 0
    (moved / "chat_template.jinja").write_text("{{ messages[1].content }}")
    code, said = ask(train, FINETUNE_MODEL=str(moved))
    assert (code, said) == (
        1,
        f"{moved}: chat_template.jinja changed since the gate; put the model back, or sample and gate anew",
    )
    (moved / "chat_template.jinja").unlink()
    assert ask(train, FINETUNE_MODEL=str(moved))[0] == 1
    code, said = ask(train, FINETUNE_MODEL=str(tmp_path / "nowhere"))
    assert code == 1
    assert "no model folder; set FINETUNE_MODEL" in said


def test_a_demos_gate_counts_in_a_demos_build_alone(train: Path) -> None:
    """Who read is part of the fingerprint; a folder says whether the demo built it."""
    found = artifact.read_json(train / "gate.json", GateReport)
    parents = {**found.header.parents, "readers": "persons and the demo's program"}
    report = dataclasses.replace(found.records[0], fingerprint=artifact.digest_value(parents))
    artifact.write_json(train / "gate.json", dataclasses.replace(found.header, parents=parents), report)
    enter(train, "gate.json")
    code, said = ask(train)
    assert code == 1
    assert "counts for the demo alone" in said
    body = json.loads((train / "build.json").read_text())
    (train / "build.json").write_text(json.dumps({**body, "demo": True}))
    assert ask(train)[0] == 0


def test_another_copy_of_the_package_is_refused(train: Path, tmp_path: Path) -> None:
    """A package of this name that was imported before the check is not the one that was inspected."""
    import llm_finetuning

    program = CHECK.replace("from guards import gate_check", "from guards import gate_check\nimport llm_finetuning")
    command = [sys.executable, "-s", "-c", program, str(train)]
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(llm_finetuning.__file__).parents[1])}
    done: Any = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environ)
    assert done.returncode == 1
    assert "imported in place of the run's own copy; unset PYTHONPATH" in done.stdout
