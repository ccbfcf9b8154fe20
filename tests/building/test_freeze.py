"""Freezing: what a run holds gives the same digests as what it was made from, wherever that lay."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import brief, dataset, lineage
from llm_finetuning.building import freeze, rows
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import composition
from llm_finetuning.types import Row

MINE = """\
from pathlib import Path

import neighbour
from parts import inner

WORDS = (Path(__file__).parent / "lists" / "words.txt").read_text().split()


def mine(completions, **kwargs):
    return [neighbour.value(inner.word in str(text) and bool(WORDS)) for text in completions]
"""
OUTSIDE = "def outside(completions, **kwargs):\n    return [0.0 for _ in completions]\n"
SCHEMA = '{"type": "object"}'

OWN_FILES = {
    "my_rewards.py": MINE,
    "neighbour.py": "import far\n\n\ndef value(good):\n    return far.PAID if good else 0.0\n",
    "far.py": "PAID = 1.0\n",
    "parts/__init__.py": "",
    "parts/inner.py": "word = 'answer'\n",
    "parts/deeper/more.py": "",
    "lists/words.txt": "a b",
    "unused.py": "",
    "schemas/answer.json": SCHEMA,
    "../beside.py": OUTSIDE,
    "../../far_away/absolute.py": OUTSIDE,
}

LIBRARY = "  - use: exact_answer\n    options: {extract: last_number}\n"
CASES = {
    "library": LIBRARY,
    "own file with neighbours": "  - file: my_rewards.py:mine\n    files: [lists/words.txt]\n",
    "beside the run": "  - file: ../beside.py:outside\n",
    "absolute": "  - file: ABSOLUTE/absolute.py:outside\n",
    "all at once": LIBRARY
    + "  - file: my_rewards.py:mine\n    files: [lists/words.txt, ./data.jsonl]\n"
    + "  - file: ../beside.py:outside\n  - file: ABSOLUTE/absolute.py:outside\n    name: absolute\n",
    "a schema": "  - use: json_schema\n    options: {schema_file: schemas/answer.json}\n",
    "programs": "  - use: unit_tests\n",
}


def run_with(tmp_path: Path, rewards: str, **changes: str) -> brief.LoadedBrief:
    folder = tmp_path / "deep" / "run"
    for name, text in OWN_FILES.items():
        path = (folder / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = runs.BRIEF.replace(LIBRARY, rewards.replace("ABSOLUTE", str(tmp_path / "far_away")))
    for old, new in changes.items():
        text = text.replace(old.replace("_", "/"), new)
    return brief.load(runs.write_run(folder, text=text))


def frozen_copy(loaded: brief.LoadedBrief, target: Path) -> brief.LoadedBrief:
    """Freeze a run into `target`, and take the run away."""
    lines = [{"prompt": "1", "answer": "1"}]
    (target / "train").mkdir(parents=True)
    frozen = freeze.freeze(loaded, target / "train", lines, None)
    shutil.move(target / "train", target / "elsewhere")
    return brief.LoadedBrief(loaded.brief, target / "elsewhere", frozen)


@pytest.mark.parametrize("rewards", CASES.values(), ids=CASES)
def test_a_frozen_run_gives_the_digests_of_its_run(tmp_path: Path, rewards: str) -> None:
    """All that the gate's fingerprint names and that travels with a run is the same there, the run itself gone."""
    loaded = run_with(tmp_path, rewards)
    sources, digests = lineage.of_sources(loaded), composition.source_digests(loaded)
    copied = frozen_copy(loaded, tmp_path / "built")
    shutil.rmtree(tmp_path / "deep")
    shutil.rmtree(tmp_path / "far_away")
    assert composition.source_digests(copied) == digests
    assert lineage.of_sources(copied) == sources
    composed = composition.compose(copied, ["answer", "tests"])
    assert len(composed) == len(loaded.brief.rewards)
    files = {str(path.relative_to(copied.run_dir)) for path in copied.run_dir.rglob("*")}
    assert not [name for name in files if name.endswith("unused.py")]


def test_rewards_find_each_other_where_they_lay(tmp_path: Path) -> None:
    """The places of reward files relative to each other stay, and what lies far away brings its whole path."""
    loaded = run_with(tmp_path, CASES["own file with neighbours"])
    copied = frozen_copy(loaded, tmp_path / "built")
    assert copied.frozen == {
        "my_rewards.py": "rewards/files/my_rewards.py",
        "lists/words.txt": "rewards/files/lists/words.txt",
        "data.jsonl": "data/source/data.jsonl",
    }
    assert {path.name for path in (copied.run_dir / "rewards/files").iterdir()} == {
        "my_rewards.py",
        "neighbour.py",
        "far.py",
        "parts",
        "lists",
    }


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "some/hub-id"])
def test_the_data_set_is_kept_as_the_brief_names_it(tmp_path: Path, name: str) -> None:
    """A file keeps its digest, also in a format that only the trainer's Python reads; a hub id stands for itself."""
    loaded = run_with(tmp_path, LIBRARY, **{"data.jsonl": name})
    if "hub" not in name:
        (loaded.run_dir / name).write_bytes(b"prompt,answer,id\nx,1,1\n")
    before = lineage.dataset_digest(loaded)
    copied = frozen_copy(loaded, tmp_path / "built")
    shutil.rmtree(tmp_path / "deep")
    assert lineage.dataset_digest(copied) == before
    assert (name in copied.frozen) == ("hub" not in name)


@pytest.mark.parametrize(
    "files",
    [{"gone.txt": None}, {"lists": None}],
    ids=["a file that is not there", "a folder"],
)
def test_what_cannot_be_copied_is_refused(tmp_path: Path, files: dict[str, Any]) -> None:
    """A brief that names no file is refused in one line with the path."""
    (name,) = files
    loaded = run_with(tmp_path, f"  - file: my_rewards.py:mine\n    files: [{name}]\n")
    with pytest.raises(Refusal, match=name):
        frozen_copy(loaded, tmp_path / "built")


def test_what_own_rewards_import_of_this_package_comes_too(tmp_path: Path) -> None:
    """Also by way of a neighbour, and whatever else lies beside it."""
    loaded = run_with(tmp_path, CASES["own file with neighbours"])
    assert Path("overlap.py") not in freeze.package_files(loaded)
    (loaded.run_dir / "far.py").write_text("from llm_finetuning import overlap\nPAID = 1.0\n")
    (loaded.run_dir / "parts/inner.py").write_text("word = 'answer'\nfrom . import deeper\n")
    (loaded.run_dir / "parts/deeper/more.py").write_text("print 'no Python 3'\n")
    assert Path("overlap.py") in freeze.package_files(loaded)
    copied = frozen_copy(loaded, tmp_path / "built")
    assert (copied.run_dir / freeze.PACKAGE_PLACE / "overlap.py").is_file()


def row(prompt: Any = "p", **columns: Any) -> Row:
    return Row(row=7, prompt_id="7", prompt=prompt, columns=columns)


CHAT = [{"role": "user", "content": "p"}]
SAID = [{"role": "assistant", "content": "c"}]
NESTED = {"a": [1, {"b": None}], "big": 2**70, "odd": "\u2028\U0001f600\ud800", "x": 1e-320}


@pytest.mark.parametrize(
    ("method", "found", "expected"),
    [
        ("grpo", row(NESTED["odd"], answer=NESTED), {"prompt": NESTED["odd"], "answer": NESTED}),
        ("grpo", row(CHAT, completion=None), {"prompt": CHAT, "completion": None}),
        ("sft", row(completion="c", other=1), {"prompt": "p", "completion": "c"}),
        ("sft", row(CHAT, completion=SAID), {"prompt": CHAT, "completion": SAID}),
        ("dpo", row(chosen="a", rejected="b", x=1), {"prompt": "p", "chosen": "a", "rejected": "b"}),
        ("kto", row(completion="c", label=False), {"prompt": "p", "completion": "c", "label": False}),
        ("kto", row(completion="c", label=" True"), {"prompt": "p", "completion": "c", "label": True}),
    ],
)
def test_rows_are_written_as_the_trainer_reads_them(
    tmp_path: Path, method: str, found: Row, expected: dict[str, Any]
) -> None:
    """For grpo every column untouched, else what the method trains on; what is read back is what was there."""
    path = tmp_path / "rows.jsonl"
    rows.write(path, rows.training_rows(method, [found, found], "data"))
    lines = path.read_text("utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [expected, expected]
    assert lines[-1] == ""


@pytest.mark.parametrize(
    ("method", "found", "words"),
    [
        ("sft", row(completion="  "), "`completion` is empty"),
        ("sft", row(completion=SAID), "`completion` is list where the prompt is text"),
        ("sft", row(CHAT, completion="c"), "`completion` is str where the prompt is a list of chat messages"),
        ("sft", row(CHAT, completion=[{"role": "assistant"}]), "without `role` and text"),
        ("sft", row(CHAT, completion=[]), "is an empty list"),
        ("orpo", row(chosen="a", rejected=None), "`rejected` is NoneType"),
        ("simpo", row(chosen="a", rejected="a"), "are the same"),
        ("kto", row(completion="c", label="yes"), "`label` is 'yes' where true or false is needed"),
        ("kto", row(completion="c", label=1), "`label` is 1"),
    ],
)
def test_rows_that_a_method_cannot_learn_from_are_refused(method: str, found: Row, words: str) -> None:
    """One line a row with its place; after a few the rest is counted."""
    with pytest.raises(Refusal) as refusal:
        rows.training_rows(method, [found] * 12, "data.csv")
    assert refusal.value.lines[0].startswith("data.csv:7: ")
    assert words in refusal.value.lines[0]
    assert refusal.value.lines[-1] == "data.csv: and 4 more faults"


def test_kto_rows_are_mixed_alike_each_time() -> None:
    """KTO's trainer reads rows in their order; sorted by label, whole steps would see one label."""
    labels = [row(completion=str(place), label=place < 50) for place in range(100)]
    mixed = rows.training_rows("kto", labels, "data")
    assert mixed == rows.training_rows("kto", labels, "data")
    assert sorted(int(line["completion"]) for line in mixed) == list(range(100))
    assert 15 <= sum(line["label"] for line in mixed[:50]) <= 35


def test_a_number_that_json_lacks_is_refused(tmp_path: Path) -> None:
    """NaN in a column would be read back as nothing that JSON knows."""
    with pytest.raises(Refusal, match="row 2 cannot be written as JSON"):
        rows.write(tmp_path / "x.jsonl", [{"a": 1}, {"a": float("nan")}])


def test_the_source_name_of_a_frozen_set_is_its_copy(tmp_path: Path) -> None:
    """A frozen brief reads its own copy, and held-out rows likewise."""
    loaded = run_with(tmp_path, LIBRARY)
    copied = frozen_copy(loaded, tmp_path / "built")
    assert Path(dataset.source_name(copied)) == copied.run_dir / "data/source/data.jsonl"
    assert lineage.held_out(copied).frozen is copied.frozen
