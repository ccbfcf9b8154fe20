"""From the brief's list to callable rewards: every fault of a reward file is one line with its place."""

from pathlib import Path

import pytest

import runs
from llm_finetuning import brief
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import LIBRARY, composition

COLUMNS = ["id", "answer", "level"]


def compose(folder: Path, rewards: str, code: str = "") -> list[composition.Component]:
    runs.write_run(folder, text=runs.BRIEF.partition("rewards:")[0] + f"rewards: {rewards}\n")
    (folder / "mine.py").write_text(code, "utf-8")
    return composition.compose(brief.load(folder), COLUMNS)


def faults(folder: Path, rewards: str, code: str = "") -> list[str]:
    with pytest.raises(Refusal) as caught:
        compose(folder, rewards, code)
    return list(caught.value.lines)


def test_names_weights_and_ranges(tmp_path: Path) -> None:
    """Order and weights are the brief's; the range is the reward's own unless the brief says another."""
    code = "def polite(completions, **kwargs): return [0.0]\npolite.range = (-1, 1)\n"
    first, second, third = compose(
        tmp_path,
        "[{use: exact_answer}, {file: 'mine.py:polite', weight: 0.2}, "
        "{file: 'mine.py:polite', name: b, range: [0, 9]}]",
        code,
    )

    assert ("exact_answer", 1.0, 0.0, 1.0) == (first.name, first.weight, first.low, first.high)
    assert ("polite", 0.2, -1.0, 1.0) == (second.name, second.weight, second.low, second.high)
    assert ("b", 0.0, 9.0) == (third.name, third.low, third.high)


@pytest.mark.parametrize(
    ("rewards", "code", "words"),
    [
        ("[{use: exact_answr}]", "", "no reward `exact_answr` in the library; did you mean `exact_answer`?"),
        ("[{use: exact_answer, options: {extrct: boxed}}]", "", "has no option `extrct`; did you mean `extract`?"),
        ("[{use: exact_answer, options: {extract: boxd}}]", "", "'boxd' is not one of"),
        ("[{file: 'none.py:f'}]", "", "no file"),
        ("[{file: 'mine.py:polit'}]", "def polite(**k): ...", "has no function `polit`; did you mean `polite`?"),
        ("[{file: 'mine.py:f'}]", "def f(:\n", "mine.py:1: does not import: SyntaxError"),
        ("[{file: 'mine.py:f'}]", "x = 1\nimport not_there\n", "mine.py:2: does not import: ModuleNotFoundError"),
        ("[{file: 'mine.py:f'}]", "import sys\nsys.exit(3)\n", "mine.py:2: does not import: SystemExit"),
        ("[{file: 'mine.py:f'}]", "def f(completions): return []", "add **kwargs"),
        (
            "[{file: 'mine.py:f'}]",
            "def f(completions, gold, **kwargs): return []",
            "the data set has id, answer, level",
        ),
        ("[{use: exact_answer}, {use: exact_answer}]", "", "2 are named `exact_answer`"),
    ],
)
def test_fault_is_one_line(tmp_path: Path, rewards: str, code: str, words: str) -> None:
    """What, where and how to mend it."""
    found = faults(tmp_path, rewards, code)

    assert len(found) == 1
    assert words in found[0]


def test_all_faulty_rewards_are_listed(tmp_path: Path) -> None:
    """Two broken rewards are two lines of one refusal."""
    assert len(faults(tmp_path, "[{use: nothing}, {file: 'none.py:f'}]")) == 2


def test_reward_file_may_import_its_neighbour_and_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reward file is a Python file like any other; what it prints stays out of standard output."""
    tmp_path.joinpath("neighbour_of_mine.py").write_text("WORD = 'thanks'\n", "utf-8")
    code = "print(1)\nfrom neighbour_of_mine import WORD\ndef f(completions, **k): return [WORD in completions[0]]"
    (component,) = compose(tmp_path, "[{file: 'mine.py:f'}]", code)

    assert [True] == component.function(completions=["thanks"])
    assert capsys.readouterr().out == ""


def test_digest_follows_every_source(tmp_path: Path) -> None:
    """One changed character of a reward file changes what the gate is bound to."""
    compose(tmp_path, "[{use: exact_answer}, {file: 'mine.py:f'}]", "def f(**k): return [0]")
    before = composition.source_digests(brief.load(tmp_path))
    (tmp_path / "mine.py").write_text("def f(**k): return [1]", "utf-8")
    after = composition.source_digests(brief.load(tmp_path))

    assert before["mine.py"] != after["mine.py"]
    assert before["library:rewards"] == after["library:rewards"]


def test_every_library_reward_loads_and_declares_itself(tmp_path: Path) -> None:
    """The table names what is there."""
    for name in LIBRARY:
        (component,) = compose(tmp_path, f"[{{use: {name}}}]")
        assert name == component.name
        assert component.low < component.high
