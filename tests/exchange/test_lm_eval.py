"""Result files of lm-evaluation-harness become items with one answer each."""

import json
import shutil
from pathlib import Path

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.exchange import lm_eval

FIXTURES = Path(__file__).parent / "fixtures"
TIME = "2026-11-30T07-01-58.083394"
TEXT = FIXTURES / f"samples_mysums_{TIME}.jsonl"


def test_a_text_task_is_read_with_its_answers_and_values() -> None:
    """The prompt, the right answer, what the model said and the metric of the chosen filter, item by item."""
    found = lm_eval.read(TEXT, task=None, metric="exact_match,strict")

    assert (found.tool, found.model, found.task) == ("lm-evaluation-harness 0.4.13", "i82qcls7", "mysums")
    assert [item.answers[0].value for item in found.items] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    first = found.items[0]
    assert (first.item_id, first.prompt, first.target) == ("0", "What does the recorder say?", "lol")
    assert first.columns["id"] == "h0"
    assert first.answers[0].completion == "lol"
    assert found.settings["generation_kwargs"] == {"until": ["\n"], "max_gen_toks": 32, "do_sample": False}


def test_of_a_multiple_choice_task_the_likeliest_choice_is_the_answer() -> None:
    """The harness keeps a likelihood for each choice; what the model would say is the likeliest."""
    path = FIXTURES / f"samples_mymc_{TIME}.jsonl"
    found = lm_eval.read(path, task=None, metric="acc")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    for item, line in zip(found.items, lines, strict=True):
        likelihoods = [float(answer[0][0]) for answer in line["resps"]]
        best = likelihoods.index(max(likelihoods))
        assert item.answers[0].completion == f" {line['doc']['choices'][best]}"
        assert item.answers[0].value == float(best == line["doc"]["gold"])


@pytest.mark.parametrize("place", ["folder", "results file"])
def test_the_task_is_named_where_there_are_several(place: str) -> None:
    """A folder and its results file stand for all tasks of a run."""
    path = FIXTURES if place == "folder" else FIXTURES / f"results_{TIME}.json"

    with pytest.raises(Refusal, match=r"mymc, mysums.*--task"):
        lm_eval.read(path, task=None, metric="acc")
    assert lm_eval.read(path, task="mymc", metric="acc").task == "mymc"


@pytest.mark.parametrize(
    ("task", "metric", "words"),
    [
        (None, None, "exact_match,strict, .*name one with --metric"),
        (None, "exact_match", "exact_match,strict, .*name one of them"),
        (None, "acc", "acc: .* has exact_match,strict"),
        (None, "ter,strict", "less of `ter` is better"),
        ("other", "exact_match,strict", "is of the task mysums"),
    ],
)
def test_what_is_meant_is_asked_for(task: str | None, metric: str | None, words: str) -> None:
    """A metric that is not there, several, one of which less is better, another task: each is refused."""
    with pytest.raises(Refusal, match=words):
        lm_eval.read(TEXT, task=task, metric=metric)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: line, "doc_id 0 stands in it twice"),
        (
            lambda line: line.replace('"doc_id": 0', '"doc_id": 9').replace(
                '"exact_match": 1.0', '"exact_match": [1, 2]'
            ),
            "is no number",
        ),
        (lambda line: line[:40], "not JSON"),
        (lambda line: line.replace("doc_id", "no_id"), "`doc_id` is missing"),
    ],
    ids=["an item twice", "a value that is no number", "a cut line", "another file"],
)
def test_a_faulty_file_is_refused_with_its_line(tmp_path: Path, change: object, words: str) -> None:
    """A line more that does not belong there is named by its number."""
    lines = TEXT.read_text("utf-8").splitlines()
    path = tmp_path / TEXT.name
    path.write_text("\n".join([*lines, change(lines[0])]), "utf-8")  # type: ignore[operator]

    with pytest.raises(Refusal, match=f":{len(lines) + 1}: .*{words}"):
        lm_eval.read(path, task=None, metric="exact_match,strict")


def test_samples_alone_say_that_the_model_is_not_known(tmp_path: Path) -> None:
    """Without the results file beside them the scores are still there."""
    shutil.copy(TEXT, tmp_path)
    found = lm_eval.read(tmp_path / TEXT.name, task=None, metric="exact_match,loose")

    assert found.model == "not said"
    assert any("no results file" in note for note in found.notes)


def test_a_value_that_is_not_finite_is_no_score(tmp_path: Path) -> None:
    """NaN is neither success nor failure."""
    path = tmp_path / TEXT.name
    path.write_text(TEXT.read_text("utf-8").replace('"exact_match": 0.0', '"exact_match": NaN'), "utf-8")
    found = lm_eval.read(path, task=None, metric="exact_match,strict")

    assert [item.answers[0].value for item in found.items] == [1.0, None, 1.0, None, 1.0, None]
