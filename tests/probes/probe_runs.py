"""Runs of several tasks on disk, scored, for the probes to attack: prompts, golds and what a model said of them."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, brief, lineage
from llm_finetuning.commands import score
from llm_finetuning.sampling.drawing import sample_id
from llm_finetuning.types import Sample

REWARD_FILES = ("answer_reading.py", "sound_rewards.py", "broken_answers.py", "broken_documents.py")
ROWS = 12

Said = Callable[[int, int, dict[str, Any]], str]
"""Row, index in the group and the row itself in; a completion out. Indices 2 and 3 are right."""


@dataclass(frozen=True, slots=True)
class Task:
    """Rows with a gold in `answer`, and a pretended model."""

    rows: list[dict[str, Any]]
    said: Said
    cap: int = 128


def _sums() -> Task:
    rows = [
        {"prompt": f"What is {17 * i + 31} + {11 * i + 8}?", "answer": str(28 * i + 39)} for i in range(ROWS - 2)
    ] + [{"prompt": f"What is {i}000 + 234?", "answer": f"{i}234"} for i in (1, 2)]
    return Task(
        rows, lambda i, k, row: f"The sum is {row['answer']}." if k > 1 else f"I get {int(row['answer']) + k + 1}"
    )


def _boxed(*, think: bool = False) -> Task:
    golds = [
        "\\frac{1}{2}",
        "12",
        "-7",
        "3.25",
        "x^2+1",
        "(3, 5)",
        "48",
        "\\frac{3}{4}",
        "1500",
        "2\\sqrt{3}",
        "0.5",
        "91",
    ]
    rows = [
        {"prompt": f"Problem {i}: compute the value. Put the final answer in \\boxed{{}}.", "answer": gold}
        for i, gold in enumerate(golds)
    ]
    head = "<think>\nLet me see.\n</think>\n" if think else ""
    return Task(rows, lambda i, k, row: f"{head}We find \\boxed{{{row['answer'] if k > 1 else 1000 + i + k}}}.")


def _tags() -> Task:
    rows = [
        {"prompt": f"What is {7 * i + 20} - {3 * i + 4}? Think in <think> tags, then answer in <answer> tags.",
         "answer": str(4 * i + 16)}
        for i in range(ROWS)
    ]  # fmt: skip
    return Task(
        rows,
        lambda i, k, row: f"<think>\nI subtract.\n</think>\n<answer>{row['answer'] if k > 1 else i - k}</answer>",
    )


def _choices() -> Task:
    rows = [
        {"prompt": f"Question {i}: which one? A) red B) green C) blue D) black", "answer": "ABCD"[i % 4]}
        for i in range(ROWS)
    ]
    return Task(rows, lambda i, k, row: f"The answer is {row['answer'] if k > 1 else 'ABCD'[(i + k + 1) % 4]}.")


def _words() -> Task:
    words = [
        "Paris",
        "Rome",
        "Madrid",
        "Berlin",
        "Vienna",
        "Oslo",
        "Dublin",
        "Warsaw",
        "Lisbon",
        "Athens",
        "Prague",
        "Bern",
    ]
    rows = [{"prompt": f"What is the capital of country {i}?", "answer": word} for i, word in enumerate(words)]
    return Task(rows, lambda i, k, row: f"The answer is {row['answer'] if k > 1 else words[(i + k + 1) % ROWS]}.")


def _documents(asked: str = "") -> Task:
    rows = [
        {"prompt": f"Return the person of record {i} as JSON.{asked}",
         "answer": json.dumps({"name": f"Person {chr(65 + i)}", "age": 20 + i, "tags": ["x", f"t{i}"]})}
        for i in range(ROWS)
    ]  # fmt: skip
    return Task(rows, lambda i, k, row: str(row["answer"]) if k > 1 else '{"name": "Nobody"}' if k else "I cannot.")


def _calls() -> Task:
    tool = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
    rows = [
        {"prompt": f"What will the weather be in city {i}?",
         "answer": json.dumps([{"name": "get_weather", "arguments": {"city": f"City {chr(65 + i)}", "days": i + 1}}]),
         "tools": json.dumps({"get_weather": {"type": "object", **tool}})}
        for i in range(ROWS)
    ]  # fmt: skip

    def said(_: int, k: int, row: dict[str, Any]) -> str:
        call = json.loads(row["answer"])[0]
        call["arguments"]["days"] += 0 if k > 1 else 1 + k
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"

    return Task(rows, said)


def _programs() -> Task:
    rows = [
        {"prompt": f"Write `add{i}(x)` that adds {i}.",
         "tests": [f"assert add{i}(1) == {i + 1}", f"assert add{i}(5) == {i + 5}", f"assert add{i}(0) == {i}"],
         "code": f"def add{i}(x):\n    return x + {i}\n", "answer": "-"}
        for i in range(1, ROWS + 1)
    ]  # fmt: skip

    def said(_: int, k: int, row: dict[str, Any]) -> str:
        return f"```python\n{row['code'] if k > 1 else row['code'].replace('+', '-')}```"

    return Task(rows, said)


def _solutions() -> Task:
    rows = [
        {"prompt": f"A farmer has {i + 3} hens and buys {2 * i + 9} more. How many are there?",
         "answer": f"There are {i + 3} hens and {2 * i + 9} more.\n#### {3 * i + 12}"}
        for i in range(ROWS)
    ]  # fmt: skip
    return Task(rows, lambda i, k, row: f"We add.\n#### {3 * i + 12 if k > 1 else 3 * i + 90 + k}")


def _quantities() -> Task:
    golds = ["5 km", "12 kg", "30%", "7 s", "45 cm", "8 h", "75%", "16 m", "3 min", "25 g", "60 km", "9%"]
    rows = [{"prompt": f"How much is quantity {i}? Give the unit.", "answer": gold} for i, gold in enumerate(golds)]
    return Task(rows, lambda i, k, row: f"\\boxed{{{row['answer'] if k > 1 else f'{100 + i} mm'}}}")


TASKS: dict[str, Callable[[], Task]] = {
    "sums": _sums,
    "boxed": _boxed,
    "thinking": lambda: _boxed(think=True),
    "tags": _tags,
    "choices": _choices,
    "words": _words,
    "documents": _documents,
    "bare documents": lambda: _documents(" Reply with bare JSON and nothing else."),
    "calls": _calls,
    "programs": _programs,
    "solutions": _solutions,
    "quantities": _quantities,
}


def scored_run(folder: Path, task_name: str, rewards: str, *, chat: bool = False, gold: bool = True) -> Path:
    """Write a run of a task with some rewards (the YAML of the list), score it and return its folder."""
    task = TASKS[task_name]()
    folder.mkdir(parents=True)
    for name in REWARD_FILES:
        shutil.copy(Path(__file__).with_name(name), folder)
    answer = ", answer: answer" if gold else ""
    (folder / "brief.yaml").write_text(
        "name: tried\nmethod: grpo\nmodel: some/model\n"
        f"dataset: {{path: data.jsonl, prompt: prompt{answer}}}\n"
        f"rewards:\n{rewards}\n"
        f"sampling: {{num_generations: 4, prompts: {len(task.rows)}, max_completion_length: {task.cap}}}\n",
        "utf-8",
    )
    text = "".join(json.dumps(row) + "\n" for row in task.rows)
    (folder / "data.jsonl").write_text(text, "utf-8")
    _write_samples(folder, task, chat=chat)
    score.run(folder)
    return folder


def _write_samples(folder: Path, task: Task, *, chat: bool) -> None:
    loaded = brief.load(folder)
    samples = []
    for pass_name, n in (("policy", 4), ("low_temperature", 1)):
        for i, row in enumerate(task.rows):
            for index in range(n):
                said = task.said(i, index if n > 1 else 3, row)
                samples.append(
                    Sample(
                        sample_id=sample_id(f"q{i}", pass_name, index),
                        prompt_id=f"q{i}",
                        row=i + 1,
                        pass_name=pass_name,  # type: ignore[arg-type]
                        index=index,
                        prompt=[{"role": "user", "content": row["prompt"]}] if chat else row["prompt"],
                        columns={key: value for key, value in row.items() if key != "prompt"},
                        completion=[{"role": "assistant", "content": said}] if chat else said,
                        completion_ids=list(range(max(1, len(said) // 4))),
                        tokens=max(1, len(said) // 4),
                        finish_reason="stop",
                        temperature=1.0 if n > 1 else 0.0,
                    )
                )
    path = folder / "samples.jsonl"
    settings = {"expected": len(samples), "engine": {}}
    artifact.write_lines(path, artifact.header_for(path, lineage.of_samples(loaded), settings), samples)
