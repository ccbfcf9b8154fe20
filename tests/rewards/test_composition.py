"""From the brief's list to callable rewards: every fault of a reward file is one line with its place."""

import asyncio
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import brief, lineage
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import LIBRARY, composition

COLUMNS = ["id", "answer", "level"]


def compose(folder: Path, rewards: str, code: str = "") -> list[composition.Component]:
    head = runs.BRIEF.partition("rewards:")[0]
    runs.write_run(folder, text=f"{head}rewards: {rewards}\nsampling: {{max_completion_length: 16}}\n")
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


class ListedWords:
    """A library reward that reads a file: pays for a word that stands in it."""

    range = (0.0, 1.0)
    file_options = ("words",)

    def __init__(self, *, words: str = "") -> None:
        """Read the file, where one is named."""
        self.__name__ = "listed_words"
        self._words = Path(words).read_text("utf-8").split() if words else []

    def __call__(self, *, completions: list[str], **_: Any) -> list[float]:
        """Return one value a completion."""
        return [float(text in self._words) for text in completions]


@pytest.fixture
def listed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library with a reward that has a `file_options`."""
    monkeypatch.setattr(composition, "LIBRARY", {**LIBRARY, "listed_words": (__name__, "ListedWords", "")})


@pytest.mark.usefixtures("listed_words")
def test_file_option_is_read_from_the_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path counts from the brief, wherever the command is called, and its content is part of the digests."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "a.txt").write_text("yes", "utf-8")
    monkeypatch.chdir("/")
    (component,) = compose(tmp_path, "[{use: listed_words, options: {words: lists/a.txt}}]")
    before = composition.source_digests(brief.load(tmp_path))
    (tmp_path / "lists" / "a.txt").write_text("no", "utf-8")
    after = composition.source_digests(brief.load(tmp_path))

    assert [1.0, 0.0] == component.function(completions=["yes", "no"])
    assert before.keys() == after.keys() == {"lists/a.txt", "library:rewards"}
    assert before["lists/a.txt"] != after["lists/a.txt"]


@pytest.mark.usefixtures("listed_words")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("none.txt", "rewards[0]: `listed_words`: option `words`: no file"),
        (".", "no file"),
        ("7", "option `words`: 7 is not a path"),
        ('"a\\0b"', "is not a path"),
    ],
    ids=["missing", "folder", "number", "nul"],
)
def test_file_option_that_is_no_file_is_one_line(tmp_path: Path, value: str, words: str) -> None:
    """What is not there is said before anything is scored."""
    (found,) = faults(tmp_path, f"[{{use: listed_words, options: {{words: {value}}}}}]")

    assert words in found


@pytest.mark.usefixtures("listed_words")
def test_file_option_left_out_is_the_reward_s_own_default(tmp_path: Path) -> None:
    """No path, no file, no digest."""
    (component,) = compose(tmp_path, "[{use: listed_words}]")

    assert [0.0] == component.function(completions=["yes"])
    assert composition.source_digests(brief.load(tmp_path)).keys() == {"library:rewards"}


MADE_WITH = {
    "format_pattern": "{pattern: x}",
    "soft_overlong": "{soft_punish_cache: 4}",
}
"""Options that a reward of the library cannot do without, where a test knows them."""


@pytest.mark.parametrize("name", LIBRARY)
def test_every_library_reward_loads_and_declares_itself(tmp_path: Path, name: str) -> None:
    """The table names what is there; what cannot be left out is asked for by name."""
    module, class_name, _ = LIBRARY[name]
    kind = getattr(importlib.import_module(module), class_name)
    required = [
        option
        for option, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty and option not in getattr(kind, "token_caps", ())
    ]
    if required:
        assert f"`{name}` needs the option `{required[0]}`" in faults(tmp_path, f"[{{use: {name}}}]")[0]
    if not required or name in MADE_WITH:
        (component,) = compose(tmp_path, f"[{{use: {name}, options: {MADE_WITH.get(name, '{}')}}}]")
        assert name == component.name
        assert component.low < component.high


def test_a_given_name_reaches_the_reasons(tmp_path: Path) -> None:
    """Two rewards of one kind keep their reasons apart: each column carries its component's name."""
    rewards = "[{use: exact_answer, name: last}, {use: exact_answer, name: all, options: {extract: whole}}]"
    for component in compose(tmp_path, rewards):
        said: dict[str, list[str]] = {}
        component.function(completions=["so 4"], answer=["4"], log_extra=said.__setitem__)

        assert {f"{component.name}_reason"} == set(said)
        assert component.function.__name__ == component.name  # type: ignore[attr-defined]


PENALTY = "length_penalty: {from_tokens: 2, to_tokens: 4, share: 0.5}"


def test_length_penalty_wraps_any_entry(tmp_path: Path) -> None:
    """Library or file, plain or awaited: name, weight and range stay the wrapped reward's."""
    code = (
        "def plain(completions, answer, **kwargs): return [3.0] * len(completions)\n"
        "plain.range = (1, 3)\n"
        "async def slow(completions, **kwargs): return [1.0] * len(completions)\n"
    )
    rewards = (
        f"[{{use: exact_answer, weight: 2, {PENALTY}}}, {{file: 'mine.py:plain', name: p, {PENALTY}}}, "
        f"{{file: 'mine.py:slow', {PENALTY}}}]"
    )
    library, plain, slow = compose(tmp_path, rewards, code)
    batch = {"completions": ["4", "4"], "completion_ids": [[1], [1] * 4], "answer": ["4", "4"]}

    assert (library.name, library.weight, library.low, library.high) == ("exact_answer", 2.0, 0.0, 1.0)
    assert (plain.name, plain.low, plain.high) == ("p", 1.0, 3.0)
    assert [1.0, 0.5] == library.function(**batch)
    assert [3.0, 2.0] == plain.function(**batch)
    assert [1.0, 0.5] == asyncio.run(slow.function(**batch))
    assert {component.function.__name__ for component in (library, plain, slow)} == {"exact_answer", "p", "slow"}  # type: ignore[attr-defined]


def test_length_penalty_is_part_of_the_digests(tmp_path: Path) -> None:
    """A change of `share` changes what scores and gate are bound to."""
    digests = []
    for share in ("0.5", "0.4"):
        compose(tmp_path, f"[{{use: exact_answer, {PENALTY.replace('0.5', share)}}}]")
        digests.append(lineage.brief_part(brief.load(tmp_path), "rewards"))

    assert digests[0].keys() == digests[1].keys()
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        (
            "[{use: length_penalty, options: {share: 0.5}}]",
            "write `{use: math_answer, length_penalty: {from_tokens: 512, to_tokens: 1024, share: 0.5}}`",
        ),
        (
            "[{use: exact_answer, length_penalty: {from_tokens: 4, to_tokens: 2, share: 0.5}}]",
            "rewards[0].length_penalty: `to_tokens` must be larger than `from_tokens`",
        ),
        (
            "[{use: exact_answer, length_penalty: {from_tokens: 2, to_token: 4, share: 0.5}}]",
            "did you mean `to_tokens`?",
        ),
        (
            "[{use: exact_answer, length_penalty: {from_tokens: 2, to_tokens: 4, share: 1}}]",
            "rewards[0].length_penalty.share: ",
        ),
        (
            "[{use: exact_answer, length_penalty: {from_tokens: 2, to_tokens: 4, share: 0.5, wrong: 2}}]",
            "rewards[0].length_penalty: wrong: 2 is not inside the range 0 to 1",
        ),
        ("[{use: exact_answer, weight: -1, " + PENALTY + "}]", "would pay for length"),
        (
            "[{use: exact_answer, length_penalty: {from_tokens: 16, to_tokens: 40, share: 0.5}}]",
            "rewards[0].length_penalty: it takes nothing up to 16 tokens",
        ),
        ("[{use: format_pattern}]", "rewards[0]: `format_pattern` needs the option `pattern`; add it under `options:`"),
        ("[{use: format_pattern, options: {pattern: '(?=x)'}}]", "pattern: character 1: lookahead"),
        ("[{use: soft_overlong}]", "needs the option `soft_punish_cache`"),
        (
            "[{use: soft_overlong, options: {soft_punish_cache: 4, max_completion_len: 17}}]",
            "17 lies above sampling.max_completion_length (16)",
        ),
        ("[{use: soft_overlong, options: {soft_punish_cache: 0}}]", "it would never act"),
        ("[{use: repetition_penalty, options: {ngram_size: 16}}]", "it takes nothing up to 16 tokens"),
    ],
)
def test_penalty_that_cannot_be_is_one_line(tmp_path: Path, rewards: str, words: str) -> None:
    """Misplaced, misspelt, without effect, or paying for length: said before anything is scored."""
    found = faults(tmp_path, rewards)

    assert words in found[0]
    assert len(found) == 1 or "to_token" in rewards  # a misspelt key is also a missing one


def test_soft_overlong_takes_the_brief_s_cap(tmp_path: Path) -> None:
    """Without a limit of its own it ends where sampling ends, 16 tokens in this brief."""
    (component,) = compose(tmp_path, "[{use: soft_overlong, options: {soft_punish_cache: 4}}]")

    assert component.function(completion_ids=[[1] * 12, [1] * 14, [1] * 16]) == [0.0, -0.5, -1.0]
    assert (component.low, component.high) == (-1.0, 0.0)
