"""The data set: every bad row is named with its line, and nothing is guessed."""

from pathlib import Path

import pytest

import runs
from llm_finetuning import brief, dataset, lineage
from llm_finetuning.errors import Refusal

CSV_BRIEF = runs.BRIEF.replace("data.jsonl", "data.csv")


def read(folder: Path) -> list[dataset.Row]:
    return dataset.read_rows(brief.load(folder))


def faults(folder: Path) -> list[str]:
    with pytest.raises(Refusal) as caught:
        read(folder)
    return list(caught.value.lines)


def test_columns_reach_the_rewards_under_their_names(tmp_path: Path) -> None:
    """The brief's roles rename; every other column keeps its name; the prompt is no column."""
    text = runs.BRIEF.replace("prompt: prompt, answer: answer, id: id", "prompt: question, answer: gold")
    folder = runs.write_run(tmp_path, text=text)
    (folder / "data.jsonl").write_text('{"question": "1+1?", "gold": 2, "level": "a"}\n\n', "utf-8")

    (row,) = read(folder)
    assert ("1+1?", {"answer": 2, "level": "a"}, "1") == (row.prompt, row.columns, row.prompt_id)


def test_missing_keys_become_none(tmp_path: Path) -> None:
    """A column that some rows lack is None for them, as TRL hands it on."""
    folder = runs.write_run(tmp_path)
    (folder / "data.jsonl").write_text('{"id": 1, "prompt": "a", "answer": "1"}\n{"id": 2, "prompt": "b"}\n', "utf-8")

    assert [{"id": 1, "answer": "1"}, {"id": 2, "answer": None}] == [row.columns for row in read(folder)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no rows"),
        ("\n\n", "holds no rows"),
        ("nonsense\n", ":1: not valid JSON"),
        ('{"prompt": "a", "id": 1, "answer": NaN}\n', ":1: not valid JSON (NaN is not JSON)"),
        ("[1, 2]\n", ":1: a list where an object is needed"),
        (
            '{"promt": "a", "id": 1, "answer": "2"}\n',
            "no column `prompt` (`dataset.prompt` names it); did you mean `promt`?",
        ),
        (
            '{"prompt": 5, "id": 1, "answer": "2"}\n',
            ":1: column `prompt`: a number where text or a list of chat messages",
        ),
        ('{"prompt": "  ", "id": 1, "answer": "2"}\n', ":1: column `prompt`: an empty prompt"),
        ('{"prompt": [], "id": 1, "answer": "2"}\n', ":1: column `prompt`: an empty list"),
        (
            '{"prompt": "a", "id": 1, "answer": "2"}\n{"prompt": [{"role": "user", "content": "b"}], "id": 2}\n',
            ":2: the prompt has another form than in row 1, which is text",
        ),
        (
            '{"prompt": [{"role": "user"}], "id": 1, "answer": "2"}\n',
            "message 0: an object without `role` and `content`",
        ),
        ('{"prompt": [{"role": "me", "content": "x"}], "id": 1, "answer": "2"}\n', "role 'me' is not one of"),
        (
            '{"prompt": [{"role": "user", "content": [{"image": 1}]}], "id": 1, "answer": "2"}\n',
            "only text is run here",
        ),
        ('{"prompt": "a", "id": null, "answer": "2"}\n', ":1: column `id` is empty"),
        (
            '{"prompt": "a", "id": 1, "answer": "2"}\n{"prompt": "b", "id": "1", "answer": "3"}\n',
            ":2: id '1' stands in row 1 too",
        ),
        ('{"prompt": "a", "id": 1, "answer": "2", "completions": []}\n', "column `completions`: TRL passes its own"),
        ('{"prompt": "a", "id": 1, "answer": "2", "log_extra": 1}\n', "column `log_extra`: TRL overwrites it silently"),
    ],
)
def test_bad_row_is_named(tmp_path: Path, content: str, words: str) -> None:
    """What, where and how to mend it, in one line."""
    folder = runs.write_run(tmp_path)
    (folder / "data.jsonl").write_text(content, "utf-8")

    assert any(words in fault for fault in faults(folder)), faults(folder)


def test_several_bad_rows_are_listed_together(tmp_path: Path) -> None:
    """The first faults are shown and the rest counted."""
    folder = runs.write_run(tmp_path)
    (folder / "data.jsonl").write_text(
        "".join(f'{{"id": {i}, "prompt": 1, "answer": 2}}\n' for i in range(20)), "utf-8"
    )

    found = faults(folder)
    assert len(found) == dataset.SHOWN_FAULTS + 1
    assert "and 12 more faults" in found[-1]


def test_clash_of_a_renamed_column_is_refused(tmp_path: Path) -> None:
    """Two columns of one name would leave it to chance which one a reward sees."""
    folder = runs.write_run(tmp_path, text=runs.BRIEF.replace("answer: answer", "answer: gold"))
    (folder / "data.jsonl").write_text('{"id": 1, "prompt": "a", "gold": "2", "answer": "3"}\n', "utf-8")

    assert "column `answer` clashes with `dataset.answer`" in faults(folder)[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"id,prompt,answer\n1,a\n", ":2: not as many fields"),
        (b"id,prompt,answer\n1,a,2,3\n", ":2: not as many fields"),
        (b'id,prompt,answer\n1,"a,2\n', "not valid CSV"),
        (b"id,prompt,answer\n1,\xff,2\n", "is not UTF-8"),
        (b"id,prompt,answer\n", "holds no rows"),
    ],
)
def test_bad_csv_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    """CSV faults have a line too."""
    folder = runs.write_run(tmp_path, text=CSV_BRIEF)
    (folder / "data.csv").write_bytes(content)

    assert words in faults(folder)[0]


def test_csv_with_quoted_newlines_and_a_byte_order_mark(tmp_path: Path) -> None:
    """What spreadsheets write is read."""
    folder = runs.write_run(tmp_path, text=CSV_BRIEF)
    (folder / "data.csv").write_bytes('\ufeffid,prompt,answer\n1,"a\nb",2\n'.encode())

    assert ["a\nb"] == [row.prompt for row in read(folder)]


def test_missing_and_odd_files(tmp_path: Path) -> None:
    """A path that is not there, a folder and another format are refused with the mend."""
    folder = runs.write_run(tmp_path)
    (folder / "data.jsonl").unlink()
    said = f"dataset.path: {folder / 'data.jsonl'}: no such file; correct `dataset.path`"
    assert faults(folder)[0] == f"{folder / 'brief.yaml'}:4: {said} (`data.jsonl` starts at the brief's folder)"
    for ending in ("parquet", "csv"):
        runs.write_run(tmp_path / ending, text=runs.BRIEF.replace("data.jsonl", f"/no/such.{ending}"))
        where = f"{tmp_path / ending / 'brief.yaml'}:4: dataset.path"
        said = f"{where}: /no/such.{ending}: no such file; correct `dataset.path`"
        assert faults(tmp_path / ending) == [said]
    text = runs.BRIEF.replace("data.jsonl", "data.jsonl, evaluation: held.jsonl")
    runs.write_run(tmp_path / "held", text=text)
    with pytest.raises(Refusal, match=r"brief\.yaml:4: dataset\.evaluation: .*held\.jsonl: no such file"):
        dataset.read_rows(lineage.held_out(brief.load(tmp_path / "held")))
    (folder / "data.jsonl").mkdir()
    assert "is a directory" in faults(folder)[0]
    runs.write_run(tmp_path / "b", text=runs.BRIEF.replace("data.jsonl", "data.json"))
    assert "no such file; correct" in faults(tmp_path / "b")[0]
    (tmp_path / "b" / "data.json").write_text("[]", "utf-8")
    assert "save it as .jsonl" in faults(tmp_path / "b")[0]


def test_csv_field_with_odd_line_breaks_is_one_row(tmp_path: Path) -> None:
    """U+2028 and form feeds are letters of a field."""
    folder = runs.write_run(tmp_path, text=CSV_BRIEF)
    (folder / "data.csv").write_text("id,prompt,answer\n1,a\u2028b\x0cc,2\n2,d,3\n", "utf-8")

    assert ["a\u2028b\x0cc", "d"] == [row.prompt for row in read(folder)]


def test_path_that_is_none_is_refused(tmp_path: Path) -> None:
    """A NUL in a path is a line, not a traceback."""
    folder = runs.write_run(tmp_path, text=runs.BRIEF.replace("data.jsonl", '"da\\0ta.jsonl"'))

    assert "is not a path" in faults(folder)[0]
