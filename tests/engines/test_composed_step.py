"""The composed rewards of a brief in a real training step: what TRL logs is what `score` says."""

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief
from llm_finetuning.rewards import composition
from llm_finetuning.stages import score as stage
from llm_finetuning.types import Sample

HERE = Path(__file__).parent

BRIEF = """\
name: mixed
method: grpo
model: some/model
dataset: {path: data/train.jsonl, prompt: prompt, answer: answer, id: id}
rewards:
  - use: math_answer
    length_penalty: {from_tokens: 20, to_tokens: 60, share: 0.5}
  - {use: exact_answer, weight: 0.3, options: {extract: last_number}}
  - {use: choice_answer, weight: 0.5, options: {answer_column: choice}}
  - {use: json_schema, weight: 0.7}
  - {use: tool_call, weight: 0.9, options: {answer_column: calls, format: hermes}}
  - {use: format_tags, weight: 0.2, options: {tags: [think, answer]}}
  - {use: format_pattern, weight: 0.1, options: {pattern: '(?s).*[a-z0-9}].*', part: final}}
  - {use: soft_overlong, weight: 0.4, options: {soft_punish_cache: 64}}
  - {use: repetition_penalty, weight: 0.6}
  - {file: my_rewards.py:polite, weight: 0.05}
sampling: {num_generations: 4, max_completion_length: 96}
"""

POLITE = """\
async def polite(completions, log_extra=None, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [None if "{" in text else float("please" in text) for text in texts]

polite.range = (0.0, 1.0)
"""

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOLS = {"add": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a"]}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2.0}}\n</tool_call>'

ROWS: list[dict[str, Any]] = [
    {"prompt": "What is 6 + 6?", "answer": "12", "choice": "", "schema": "", "calls": "", "tools": ""},
    {"prompt": "A or B?", "answer": "", "choice": "B", "schema": "", "calls": "", "tools": ""},
    {"prompt": "Give a.", "answer": "", "choice": "", "schema": json.dumps(SCHEMA), "calls": "", "tools": ""},
    {
        "prompt": "Add 1 and 2.",
        "answer": "",
        "choice": "",
        "schema": "",
        "calls": json.dumps([{"name": "add", "arguments": {"a": 1, "b": 2}}]),
        "tools": json.dumps(TOOLS),
    },
]

WRITTEN = {
    "What is 6 + 6?": [
        "<think>Six and six, as is well known.</think><answer>12</answer>",
        r"The answer is \boxed{13}.",
        "<think>12</think>",
        "Let me see, please, and count once more and once more and once more and once more: " + r"it is \boxed{12}.",
    ],
    "A or B?": ["The answer is (B).", "A", "A or B", "<think>it is clear enough</think><answer>B</answer>"],
    "Give a.": ['{"a": 1}', '{"a": "1"}', '```json\n{"a": 2}\n```', '{"a": 1, "a": 2}'],
    "Add 1 and 2.": [CALL, CALL + "\n" + CALL, CALL.replace("2.0", "3"), "It is 3, please."],
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose rows ask for an answer, an option, a document and a call."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "data").mkdir()
    (folder / "brief.yaml").write_text(BRIEF, "utf-8")
    (folder / "my_rewards.py").write_text(POLITE, "utf-8")
    rows = [{"id": str(place), **row} for place, row in enumerate(ROWS)]
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "written.json").write_text(json.dumps(WRITTEN), "utf-8")
    return folder


def samples_of(seen: dict[str, Any], group: int) -> list[Sample]:
    """Return what TRL handed to its rewards as our samples, groups in TRL's order."""
    columns = ("id", "answer", "choice", "schema", "calls", "tools")
    return [
        Sample(
            sample_id=str(place),
            prompt_id=seen["id"][place],
            row=place // group + 1,
            pass_name="policy",
            index=place % group,
            prompt=seen["prompts"][place],
            columns={name: seen[name][place] for name in columns},
            completion=completion,
            completion_ids=seen["completion_ids"][place],
            tokens=len(seen["completion_ids"][place]),
            finish_reason="stop",
            temperature=1.0,
        )
        for place, completion in enumerate(seen["completions"])
    ]


@pytest.mark.model
@pytest.mark.parametrize("form", ["text", "chat"])
def test_composed_rewards_are_logged_as_score_says(
    mixed: Path, engine_python: str, model_folder: str, form: str
) -> None:
    """Means, reasons, sums and advantages of ten rewards, one wrapped and one awaited, are those of the trainer."""
    command = [engine_python, str(HERE / "composed_step.py"), model_folder, str(mixed), form]
    environment = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    step = json.loads(done.stdout.splitlines()[-1])
    samples = samples_of(step["seen"], step["group"])
    loaded = brief.load(mixed)
    components = composition.compose(loaded, sorted(samples[0].columns))
    scores = stage.score(samples, components, completions_per_call=len(samples), aggregation=stage.Aggregation())

    for place, component in enumerate(components):
        known = [score.values[place].value for score in scores if score.values[place].value is not None]
        paid = [value for value in known if value is not None]
        assert len(set(paid)) > 1, component.name  # the test means little where all are paid alike
        mean = sum(paid) / len(paid)
        assert step["logged"][f"rewards/{component.name}/mean"] == pytest.approx(mean, rel=1e-5), component.name
        reasons = [score.values[place].reason for score in scores]
        if component.name != "polite":
            assert step["extras"][f"{component.name}_reason"] == reasons
    assert {score.values[3].value for score in scores} == {None, 0.0, 1.0}
    sums = [0.0 if score.reward is None else score.reward for score in scores]
    assert step["logged"]["reward"] == pytest.approx(sum(sums) / len(sums), rel=1e-5)
    table = [[math.nan if value.value is None else value.value for value in score.values] + [0.0] for score in scores]
    weights = [*(component.weight for component in components), 0.0]
    sizes = [step["group"]] * len(ROWS)
    expected = stage.advantages_of(table, weights, sizes, stage.Aggregation())
    assert step["advantages"] == pytest.approx(expected, rel=1e-3, abs=1e-4)
