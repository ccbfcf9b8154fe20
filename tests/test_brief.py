"""The brief: strict, and with all of its faults listed at once."""

from pathlib import Path

import pytest

from llm_finetuning import brief, trl_options
from llm_finetuning.errors import Refusal

PATH = Path("brief.yaml")
GOOD = """\
name: sums
method: grpo
model: some/model
dataset: {path: data.jsonl, answer: answer}
rewards: [{use: exact_answer}]
"""


def faults(text: str) -> list[str]:
    with pytest.raises(Refusal) as caught:
        brief.parse(text, PATH)
    return list(caught.value.lines)


def test_good_brief_gets_the_recipe() -> None:
    """What is left out takes the recipe's value."""
    parsed = brief.parse(GOOD, PATH)

    assert (8, 1.0, 256) == (
        parsed.sampling.num_generations,
        parsed.sampling.temperature,
        parsed.sampling.max_completion_length,
    )


def test_all_faults_are_listed_at_once_with_their_lines() -> None:
    """One run shows every fault: nobody mends a brief one error at a time."""
    text = """\
name: two digit
metod: grpo
method: grpo
model: m
dataset: {path: d.jsonl, promt: q}
rewards:
  - use: exact_answer
    wieght: 2
  - {file: a.py}
training: {learning_rte: 5e-7, max_prompt_length: 3, num_generations: 4}
sampling: {num_generations: 1, temperatur: 3}
"""
    found = faults(text)

    assert [f"brief.yaml:{line}" for line in (1, 2, 5, 8, 9, 10, 10, 10, 11, 11)] == [
        fault.rpartition(": ")[0].split(": ")[0] for fault in found
    ]
    joined = "\n".join(found)
    for words in (
        "metod: unknown key; did you mean `method`?",
        "dataset.promt: unknown key; did you mean `prompt`?",
        "rewards[0].wieght: unknown key; did you mean `weight`?",
        "FILE.py:FUNCTION",
        "training.learning_rte: unknown option of TRL 1.16.0; did you mean `learning_rate`?",
        "training.max_prompt_length: TRL 1.16.0 does not take it; prompts are never cut",
        "training.num_generations: belongs under `sampling`",
        "sampling.temperatur: unknown key; did you mean `temperature`?",
        "sampling.num_generations: input should be greater than or equal to 2",
    ):
        assert words in joined


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "name: again\n", "duplicate key"),
        (GOOD + "x: [\n", "not valid YAML"),
        ("- a\n- b\n", "a brief is a mapping"),
        ("", "a brief is a mapping"),
        (GOOD.replace("grpo", "grpoo"), "did you mean `grpo`?"),
        (GOOD.replace("rewards: [{use: exact_answer}]\n", ""), "method grpo needs at least one entry"),
        (GOOD.replace("use: exact_answer", "use: a, file: b.py:c"), "needs either `use`"),
        (GOOD.replace("use: exact_answer", "weight: 1"), "needs either `use`"),
        (GOOD.replace("use: exact_answer", "use: a, weight: .nan"), "rewards[0].weight"),
        (GOOD.replace("use: exact_answer", "use: a, range: [1, 0]"), "`range` must be [lowest, highest]"),
        (GOOD + "sampling: {engine: endpoint}\n", "`engine: endpoint` needs"),
        (GOOD + "sampling: {engine: endpoint, endpoint: {url: 'localhost:8000'}}\n", "sampling.endpoint.url"),
        (GOOD.replace("grpo", "dpo"), "dataset.chosen: missing; method dpo reads it"),
        (GOOD + "training: {scale_rewards: foo}\n", "'foo' is not one of group, batch, none"),
        (GOOD + "training: {multi_objective_aggregation: foo}\n", "is not one of sum_then_normalize"),
        (GOOD + "training: {per_device_train_batch_size: -8}\n", "-8 is not a whole number from 1 on"),
        (GOOD + "training: {gradient_accumulation_steps: null}\n", "None is not a whole number"),
        (GOOD + "x: " + "[" * 3000, "nested too deeply"),
        (
            GOOD + "sampling: {engine: endpoint, endpoint: {url: 'http://127.0.0.1:99999/v1'}}\n",
            "must be an address as in http://127.0.0.1:8000/v1",
        ),
        (GOOD + "training: [1]\n", "training: input should be a valid dictionary"),
    ],
)
def test_fault_is_named(text: str, words: str) -> None:
    """Each fault says what is wrong in words that lead to the mend."""
    assert any(words in fault for fault in faults(text)), faults(text)


def test_numbers_are_read_as_yaml_1_2() -> None:
    """YAML 1.1 reads 5e-7 as text, and a learning rate that is text is a silent trap."""
    parsed = brief.parse(GOOD + "training: {learning_rate: 5e-7}\n", PATH)

    assert parsed.training == {"learning_rate": 5e-7}


def test_every_removed_option_is_refused_with_a_mend() -> None:
    """What tutorials still show is refused with what to write instead."""
    for option in trl_options.REMOVED:
        assert option not in trl_options.names("grpo")
        assert f"training.{option}: TRL" in faults(GOOD + f"training: {{{option}: 1}}\n")[0]


def test_comment_and_order_change_no_digest(tmp_path: Path) -> None:
    """What the machine does not read makes nothing stale; what it reads does."""
    text = GOOD + "sampling: {prompts: 3}\n"
    (tmp_path / "brief.yaml").write_text("# a comment\n" + "\n".join(reversed(text.splitlines())), "utf-8")
    other = brief.load(tmp_path).part_digest("model", "sampling")
    (tmp_path / "brief.yaml").write_text(text, "utf-8")
    assert other == brief.load(tmp_path).part_digest("model", "sampling")
    (tmp_path / "brief.yaml").write_text(text.replace("3", "4"), "utf-8")
    assert other != brief.load(tmp_path).part_digest("model", "sampling")


def test_local_model_is_told_from_a_hub_id(tmp_path: Path) -> None:
    """A folder that is there, or a path written as one, is local; the rest is a hub id."""
    (tmp_path / "weights").mkdir()
    for written, expected in (
        ("weights", str(tmp_path / "weights")),
        ("./not-there", str(tmp_path / "not-there")),
        ("some/model", "some/model"),
    ):
        (tmp_path / "brief.yaml").write_text(GOOD.replace("some/model", written), "utf-8")
        assert expected == brief.load(tmp_path).model_source()
