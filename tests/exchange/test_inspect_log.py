"""Logs of inspect-ai become items with one answer an epoch."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.exchange import inspect_log

FIXTURES = Path(__file__).parent / "fixtures"


def changed(folder: Path, change: Any) -> Path:
    """Return a log like `sums.json` after a change."""
    body = json.loads((FIXTURES / "sums.json").read_text("utf-8"))
    change(body)
    path = folder / "log.json"
    path.write_text(json.dumps(body), "utf-8")
    return path


@pytest.mark.parametrize("name", ["sums.eval", "sums.json"])
def test_both_forms_of_a_log_are_read_alike(name: str) -> None:
    """The zip and the JSON of the same evaluation hold the same items, answers and grades."""
    found = inspect_log.read(FIXTURES / name, metric="match")

    assert (found.tool, found.model, found.task) == ("inspect-ai 0.3.285", "mockllm/small", "sums")
    assert [item.item_id for item in found.items] == ["h0", "h1", "h2", "h3"]
    last = found.items[3]
    assert (last.prompt, last.target, last.columns) == ("What is 3+3?", "6", {"level": 1})
    assert [answer.completion for answer in last.answers] == ["Answer: 9", "Answer: 6"]
    assert [answer.value for answer in last.answers] == [0.0, 1.0]
    assert [answer.finish_reason for answer in last.answers] == ["length", "stop"]
    assert all(answer.tokens for item in found.items for answer in item.answers)
    generate = next(step["params"] for step in found.settings["steps"] if step["solver"] == "generate")
    assert (generate["max_tokens"], generate["temperature"]) == (32, 0.5)
    assert "max_connections" not in found.settings


def test_a_scorer_with_several_values_has_a_name_for_each() -> None:
    """`two/right` and `two/length` are two metrics."""
    found = inspect_log.read(FIXTURES / "sums.eval", metric="two/right")

    assert sum(answer.value or 0 for item in found.items for answer in item.answers) == 6
    with pytest.raises(Refusal, match=r"match, two/right, two/length.*--metric"):
        inspect_log.read(FIXTURES / "sums.eval", metric=None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (0.25, 0.25), ("0.75", 0.75), (None, None)],
)
def test_grades_are_numbers_as_the_program_counts_them(tmp_path: Path, value: object, expected: float | None) -> None:
    """Letters have the value that the program's own accuracy gives them; what is not scored has none."""
    path = changed(tmp_path, lambda body: body["samples"][0]["scores"]["match"].update(value=value))

    assert inspect_log.read(path, metric="match").items[0].answers[0].value == expected


def test_an_error_is_no_failure(tmp_path: Path) -> None:
    """A sample that ended in an error says nothing of the model, whatever score stands there."""
    path = changed(tmp_path, lambda body: body["samples"][0].update(error={"message": "no answer in time"}))
    found = inspect_log.read(path, metric="match")

    assert found.items[0].answers[0].value is None
    assert any("1 of 8 samples ended in an error" in note for note in found.notes)


def test_long_texts_and_parts_are_joined(tmp_path: Path) -> None:
    """A text that is kept apart is put back, reasoning is left out, a picture is named."""

    def change(body: Any) -> None:
        sample = body["samples"][0]
        sample["attachments"] = {"abc": "a long question"}
        sample["input"] = [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "attachment://abc"}, {"type": "image", "image": "x"}],
            },
        ]
        parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "0"}]
        sample["output"]["choices"][0]["message"]["content"] = parts

    item = inspect_log.read(changed(tmp_path, change), metric="match").items[0]

    assert item.prompt == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a long question[image]"},
    ]
    assert item.answers[0].completion == "0"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body.update(status="cancelled"), "not whole.*cancelled"),
        (lambda body: body.update(samples=None), "holds no samples"),
        (lambda body: body["samples"].append(body["samples"][0]), "h0 stands in epoch 1 twice"),
        (lambda body: body["samples"][0]["scores"]["match"].update(value="fine"), "says 'fine'"),
        (lambda body: body["samples"][0]["scores"]["match"].update(value=[1, 2]), "is a list"),
        (lambda body: body.pop("eval"), "`eval` is missing"),
    ],
    ids=["cancelled", "no samples", "twice", "a word", "a list", "another file"],
)
def test_a_log_that_says_less_than_it_should_is_refused(tmp_path: Path, change: Any, words: str) -> None:
    """Half an evaluation, and values that are no grades, are not taken for results."""
    with pytest.raises(Refusal, match=words):
        inspect_log.read(changed(tmp_path, change), metric="match")


@pytest.mark.parametrize("content", [b"", b"PK but no zip"])
def test_what_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    """A cut download is one line, not a traceback."""
    path = tmp_path / "log.eval"
    path.write_bytes(content)

    with pytest.raises(Refusal, match="not a log of inspect-ai"):
        inspect_log.read(path, metric="match")


def test_a_log_without_its_header_is_refused(tmp_path: Path) -> None:
    """The header is written last: without one the evaluation was cut."""
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/h0_epoch_1.json", "{}")

    with pytest.raises(Refusal, match="was not finished"):
        inspect_log.read(path, metric="match")
