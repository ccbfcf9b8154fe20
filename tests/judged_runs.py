"""Runs whose samples people judged, and servers that play a judge, for tests of `calibrate`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import runs
from engines.endpoint_stub import Answer, StubServer
from judge_records import MODEL, RUBRIC, chat, material, verdict
from llm_finetuning import artifact
from llm_finetuning.types import Sample

BRIEF = """\
name: sums
method: grpo
model: some/model
dataset: {{path: data.jsonl, prompt: prompt, answer: answer, id: id}}
rewards:
  - use: rubric_judge
    options:
      url: {url}
      model: {model}
      rubric_file: rubric.md
      calibration: calibration.json
      concurrency: 4
      retries: 0
      timeout_s: 20
sampling: {{num_generations: 4, prompts: {rows}, max_completion_length: 16}}
"""
WRONG, RIGHT = "is not it", "The answer is"

Grade = Callable[[dict[str, str]], str]
"""From what a judge is shown to the word that it says; `""` for an answer that is no verdict."""


def completion(i: int, index: int) -> str:
    """Return what the pretended model says: right from completion 2 on, and no two alike."""
    right = 2 * i + 1
    return f"{RIGHT} {right}, in form {index}." if index >= 2 else f"{right} {WRONG}, I say {right + 1 + index}."


def write(folder: Path, url: str, *, rows: int = 30, model: str = MODEL, options: str = "") -> Path:
    """Write a run with an uncalibrated judge and its samples, four a prompt, nothing labelled yet."""
    text = BRIEF.format(url=url, model=model, rows=rows).replace("sampling:", f"{options}sampling:")
    runs.write_run(folder, rows=rows, text=text)
    (folder / "rubric.md").write_text(RUBRIC, "utf-8")
    runs.write_samples(folder, text_of=completion, rows=rows)
    return folder


def samples(folder: Path) -> list[Sample]:
    """Return the samples of a run."""
    return artifact.read_lines(folder / "samples.jsonl", Sample).records


def is_right(sample: Any) -> bool:
    return WRONG not in str(sample.completion)


def label(folder: Path, finetune: Any, *, rows: int = 30, accept: Any = is_right, reader: str = "ada") -> None:
    """Let a person judge every sample, with labels made elsewhere."""
    drawn = runs.write_samples(folder, text_of=completion, rows=rows)
    table = runs.write_labels_csv(folder, drawn, accept)
    assert finetune("review", folder, "--import", table, "--reader", reader)[0] == 0


def grade(shown: dict[str, str]) -> str:
    """Pass what is right and says so, as a judge that cannot be talked to."""
    response = shown["response"]
    return "pass" if RIGHT in response and WRONG not in response else "fail"


def answering(graded: Grade) -> Callable[[str, dict[str, Any], int], Answer]:
    """Return the answer of a server whose judge grades so."""

    def answer(_route: str, body: dict[str, Any], _count: int) -> Answer:
        said = graded(material(body)[0])
        return 200, {}, chat(verdict(said, "Read.") if said else "I cannot tell.")

    return answer


@contextmanager
def serving(graded: Grade = grade) -> Iterator[StubServer]:
    """Serve a judge while the block runs."""
    server = StubServer(answering(graded))
    try:
        yield server
    finally:
        server.close()


def events(folder: Path) -> list[dict[str, Any]]:
    """Return what judge.jsonl holds, header left out."""
    lines = (folder / "judge.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]
