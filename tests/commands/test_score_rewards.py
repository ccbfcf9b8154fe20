"""`score` with the rewards of shape and length: what they pay stands in the artifact, under the components' names."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, brief, lineage
from llm_finetuning.types import Sample, Score

Finetune = Callable[..., tuple[int, str, str]]

REWARDS = """\
rewards:
  - use: exact_answer
    options: {extract: answer_tag}
    length_penalty: {from_tokens: 8, to_tokens: 12, share: 0.5}
  - use: format_tags
    weight: 0.2
  - use: format_pattern
    name: no_markdown
    weight: 0.1
    options: {pattern: '[^*#]*\\w[^*#]*'}
  - use: soft_overlong
    options: {soft_punish_cache: 4}
  - use: repetition_penalty
    options: {ngram_size: 1}
    weight: 0.1
  - file: mine.py:slow
    weight: 0
    length_penalty: {from_tokens: 8, to_tokens: 12, share: 0.5}
"""

SLOW = """\
async def slow(completions, log_extra, **kwargs):
    log_extra("slow_reason", ["here"] * len(completions))
    return [1.0] * len(completions)
"""

TEXTS = (
    "<think>one two</think> <answer>{right}</answer>",  # 3 words
    "<think>one two</think> <answer>{right}</answer>\n",
    "{right}",
    "<think>" + "one two " * 6 + "</think> <answer>{right}</answer>",  # 14 words
)


def text_of(i: int, index: int) -> str:
    return TEXTS[index].replace("{right}", str(2 * i + (index != 1)))


@pytest.fixture
def scored(tmp_path: Path, finetune: Finetune) -> tuple[Path, list[Sample], list[Score]]:
    """A run scored with all of them, its samples, its scores."""
    folder = runs.write_run(tmp_path, text=runs.BRIEF.partition("rewards:")[0] + REWARDS + runs.BRIEF.splitlines()[-1])
    (folder / "mine.py").write_text(SLOW, "utf-8")
    samples = runs.write_samples(folder, text_of=text_of)
    code, _, err = finetune("score", folder)
    assert code == 0, err
    return folder, samples, artifact.read_lines(folder / "scores.jsonl", Score).records


def test_every_reward_pays_under_its_name(scored: tuple[Path, list[Sample], list[Score]]) -> None:
    """Right, wrong, malformed and long: values, reasons, the share taken and the order of the sums."""
    _, samples, scores = scored
    group = [score for sample, score in zip(samples, scores, strict=True) if sample.prompt_id == "q3"][:4]
    values: list[dict[str, Any]] = [{value.name: value.value for value in score.values} for score in group]
    reasons = [{value.name: value.reason for value in score.values} for score in group]
    right, wrong, malformed, long = values

    assert right == {
        "exact_answer": 1.0,
        "format_tags": 1.0,
        "no_markdown": 1.0,
        "soft_overlong": 0.0,
        "repetition_penalty": 0.0,
        "slow": 1.0,
    }
    assert (wrong["exact_answer"], wrong["format_tags"]) == (0.0, 1.0)
    assert (malformed["exact_answer"], malformed["format_tags"]) == (0.0, 0.0)
    assert (long["exact_answer"], long["format_tags"], long["soft_overlong"], long["slow"]) == (0.5, 1.0, -0.5, 0.5)
    assert reasons[0]["exact_answer"] == "correct"
    assert reasons[2]["format_tags"] == "missing"
    assert reasons[0]["no_markdown"] == "matches"
    assert reasons[3]["soft_overlong"] == "near_limit"
    assert {reason["slow"] for reason in reasons} == {"here"}
    assert [score.extras["exact_answer_length_share"] for score in group] == [0.0, 0.0, 0.0, 0.5]
    assert all(value.fault is None for score in scores for value in score.values)
    sums = [score.reward for score in group]
    assert sums[0] > sums[1] > sums[2]  # type: ignore[operator]


def test_another_share_makes_the_scores_stale(
    scored: tuple[Path, list[Sample], list[Score]], finetune: Finetune
) -> None:
    """An open gate closes when the penalty changes: what was inspected is what is trained."""
    folder, samples, _ = scored
    labels = runs.write_labels_csv(folder, samples, lambda sample: sample.index in (0, 3))
    assert finetune("review", folder, "--import", labels, "--reader", "ada")[0] == 0
    runs.examine(folder)
    before = lineage.of_gate(brief.load(folder))
    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(text.replace("share: 0.5", "share: 0.4", 1), "utf-8")
    code, _, err = finetune("gate", folder)

    assert lineage.of_gate(brief.load(folder)) != before
    assert code == 2
    assert "of brief.yaml changed" in err


def test_unknown_token_ids_are_refused_for_a_penalised_reward(tmp_path: Path, finetune: Finetune) -> None:
    """A server that does not return ids cannot feed a length penalty: said before anything is scored."""
    text = runs.BRIEF.replace(
        "last_number}\n", "last_number}\n    length_penalty: {from_tokens: 1, to_tokens: 4, share: 0.5}\n"
    )
    folder = runs.write_run(tmp_path, text=text)
    samples = [
        Sample(**{**{name: getattr(sample, name) for name in sample.__slots__}, "completion_ids": None})
        for sample in runs.write_samples(folder)
    ]
    path = folder / "samples.jsonl"
    header = artifact.read_lines(path, Sample).header
    artifact.write_lines(path, header, samples)
    code, _, err = finetune("score", folder)

    assert code == 2
    assert "`exact_answer` reads completion_ids" in err


def test_samples_in_a_servers_order_have_each_their_own_score(run_dir: Path, finetune: Finetune) -> None:
    """A server answers in any order, and a kill can leave a part of a group: later verbs find every score again."""
    runs.write_samples(run_dir)
    path = run_dir / "samples.jsonl"
    header, *lines = path.read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    path.write_text("".join([header, *lines]))
    assert finetune("score", run_dir)[0] == 0
    loaded = brief.load(run_dir)
    samples = lineage.complete_samples(loaded).records
    for sample, score in zip(samples, lineage.current_scores(loaded, samples), strict=True):
        said = f"The answer is {sample.columns['answer']}."
        assert (score.sample_id, score.reward) == (sample.sample_id, float(sample.completion == said))
