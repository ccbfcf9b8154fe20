"""The list that a model reads has every request and no answer, and what it chose is counted part by part."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import reading
import requests_table
from requests_table import PLUGIN, SKILLS


def written(path: Path, names: Sequence[str]) -> Path:
    """Write what was chosen, a line a number."""
    path.write_text("".join(f"{number}\t{name}\n" for number, name in enumerate(names, 1)), "utf-8")
    return path


def right_names() -> list[str]:
    """Return the skill that each request is for, in the order of the list."""
    return [f"{PLUGIN}:{one.skill}" if one.skill else reading.NONE for one in reading.shuffled()]


def test_the_list_holds_all_and_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Skills and messages stand in an order of their own, and no message beside its skill's name."""
    reading.main(["list"])
    said = capsys.readouterr().out
    skills, messages = said.split(reading.ASK)
    numbered = dict(line.split("\t") for line in messages.strip().splitlines())

    assert [numbered[str(number)] for number in range(1, len(numbered) + 1)] == [one.say for one in reading.shuffled()]
    assert {*numbered.values()} == {one.say for one in requests_table.requests()}
    assert all(f"- {name}: {text}\n" in skills for name, text in requests_table.listing().items())
    assert not any(f"{PLUGIN}:" in line for line in messages.splitlines())
    turns = [one.skill for one in reading.shuffled()]
    assert sum(a != b for a, b in itertools.pairwise(turns)) > len(turns) / 2


def test_right_choices_are_counted_right(tmp_path: Path) -> None:
    """All of them, whatever the part."""
    lines = reading.counted(reading.chosen_in(written(tmp_path / "all.tsv", right_names())))

    table = requests_table.requests()
    assert sum(int(line.split(": ")[1].split(" of ")[0]) for line in lines) == len(table)
    assert not [line for line in lines if line.startswith("missed")]


def test_wrong_choices_are_named(tmp_path: Path) -> None:
    """Another skill of ours, none where there is one, and ours where there is none."""
    names = right_names()
    places = [names.index(f"{PLUGIN}:{SKILLS[0]}"), names.index(f"{PLUGIN}:{SKILLS[1]}"), names.index(reading.NONE)]
    for place, name in zip(places, [f"{PLUGIN}:{SKILLS[2]}", reading.NONE, f"{PLUGIN}:{SKILLS[3]}"], strict=True):
        names[place] = name
    lines = reading.counted(reading.chosen_in(written(tmp_path / "wrong.tsv", names)))

    missed = lines[lines.index("missed:") + 1 :]
    assert {*missed} == {
        f"  {reading.shuffled()[places[0]].say!r}: {PLUGIN}:{SKILLS[2]}, not {SKILLS[0]}",
        f"  {reading.shuffled()[places[1]].say!r}: none, not {SKILLS[1]}",
        f"  {reading.shuffled()[places[2]].say!r}: {PLUGIN}:{SKILLS[3]}, not none of ours",
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda names: names[:-1], "no choice"), (lambda names: [*names[:-1], "grpo"], "no skill of the list: ['grpo']")],
    ids=["missing", "strange"],
)
def test_a_list_that_is_not_whole_is_refused(tmp_path: Path, change: object, says: str) -> None:
    """A message that was passed over would count as nothing at all."""
    assert callable(change)
    with pytest.raises(SystemExit, match=r"tsv: ") as stopped:
        reading.chosen_in(written(tmp_path / "part.tsv", change(right_names())))

    assert says in str(stopped.value)
