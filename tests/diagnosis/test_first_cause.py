"""Shapes that real runs of a tiny model took: what came first, and what only followed from it."""

from typing import Any

import numpy as np
import pytest
from test_diagnosis_rules import flat, nothing_left_to_sample
from training_logs import Columns, log, noise, ramp, sound

from llm_finetuning.diagnosis import diagnose

ROWS = 100
AT = np.arange(ROWS)


def one_text_is_left(rng: Any) -> Columns:
    """A gain to half of what there is, entropy gone on the way, and three rows later groups of one reward."""
    columns = sound(0)
    columns["reward"] = np.clip(0.5 / (1 + np.exp(-(AT - 14) / 2.0)) + noise(rng, ROWS, size=0.01), 0, 0.5)
    columns["entropy"] = 0.01 + 2 / (1 + np.exp((AT - 17) / 2.0))
    columns["frac_reward_zero_std"] = np.where(AT < 22, 0.2, 1.0)
    return columns


def learned_to_be_short(rng: Any, first: float = 0.6, last: float = 0.0) -> Columns:
    columns = sound(0)
    share = last + (first - last) * np.exp(-np.maximum(0, AT - 3) / 4.0)
    columns["completions/clipped_ratio"] = np.clip(share + noise(rng, ROWS, size=0.01), 0, 1)
    return columns


def test_groups_that_agree_follow_from_entropy_that_is_gone() -> None:
    """The policy writes one text, so that its groups hold one reward; without an end in it all of them are cut."""
    columns = one_text_is_left(np.random.default_rng(0))
    found = diagnose(log(columns))
    assert found.verdict == "entropy_collapse"
    assert {one.code: one.role for one in found.findings}["zero_signal"] == "consequence"
    columns["completions/clipped_ratio"] = np.where(AT < 20, 0.1, 1.0)
    columns["entropy"][:3] += 0.5  # the same run, seen from a wider start
    cut = diagnose(log(columns))
    assert cut.verdict == "entropy_collapse"
    assert {one.code: one.role for one in cut.findings}["truncation"] == "consequence"


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_was_shaped_by_its_cap_is_named(seed: int) -> None:
    """Half of the first completions were cut, and the reward rose as they became short; a third is watched alone."""
    rng = np.random.default_rng(seed)
    found = diagnose(log(learned_to_be_short(rng), max_completion_length=64))
    assert found.verdict == "truncation"
    first = found.findings[0]
    assert (first.since, 3 < (first.until or 0) < 20) == (1, True)
    assert found.advice.options == {"max_completion_length": 128}
    assert "base model" in found.advice.carries
    assert diagnose(log(learned_to_be_short(rng, first=0.4))).verdict == "healthy"
    assert diagnose(log(learned_to_be_short(rng, last=0.4))).verdict == "healthy"  # cut, and learning all the same
    never_fell = learned_to_be_short(rng)
    never_fell["completions/clipped_ratio"] = np.where(AT % 8 < 3, 0.6, 0.1)
    assert diagnose(log(never_fell)).verdict == "healthy"
    still = learned_to_be_short(rng)
    flat(still, rng)
    assert diagnose(log(still)).verdict == "inconclusive"


def test_what_was_over_early_is_no_cause_of_what_lasts() -> None:
    """Completions that fit after ten steps say nothing of entropy that is gone at the end."""
    rng = np.random.default_rng(0)
    columns = learned_to_be_short(rng)
    nothing_left_to_sample(columns, rng)
    found = diagnose(log(columns))
    assert found.verdict == "entropy_collapse"
    assert {one.code: one.role for one in found.findings}["truncation"] == "watch"


def test_length_is_dated_from_where_it_stays() -> None:
    """Completions that become shorter before they grow were long in the first row as well."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    flat(columns, rng)
    columns["completions/mean_length"] = np.where(AT < 10, 600 - 45 * AT, 200 + 6 * (AT - 10)) + noise(rng, ROWS)
    found = diagnose(log(columns))
    assert found.verdict == "length_growth"
    assert 40 < (found.findings[0].since or 0) < 70


@pytest.mark.parametrize(("silent", "verdict"), [(20, "zero_signal"), (19, "too_short")])
def test_a_short_run_that_fell_silent_is_named(silent: int, verdict: str) -> None:
    """Our own guard stops such a run after 20 steps, so that its log stays short."""
    columns = {name: values[:36] for name, values in sound(0).items()}
    columns["reward"] = np.where(np.arange(36) < 36 - silent, columns["reward"] / 2, 0.5)
    columns["frac_reward_zero_std"] = np.where(np.arange(36) < 36 - silent, 0.1, 1.0)
    assert diagnose(log(columns)).verdict == verdict


def test_a_component_keeps_its_whole_name() -> None:
    """Names of rewards may hold a slash."""
    columns = sound(0)
    columns["rewards/math/exact/mean"] = ramp(0.5, 0.1)
    columns["rewards/style/polite/mean"] = np.clip(ramp(0, 1.6), 0, 1)
    columns["reward"] = columns["rewards/math/exact/mean"] + columns["rewards/style/polite/mean"]
    read = log(columns)
    assert read.components == ("math/exact", "style/polite")
    found = diagnose(read)
    assert (found.verdict, found.goal) == ("proxy_only", "math/exact")
    assert "style/polite rises" in found.text


SIMPLER = {
    "a price on entropy": ({"entropy_coef": -0.01, "temperature": 0.3}, {"entropy_coef": 0.0}),
    "a low temperature": ({"temperature": 0.6, "learning_rate": 0.01}, {"temperature": 1.0}),
    "a steep learning rate": ({"temperature": 0.7, "learning_rate": 0.002}, {"learning_rate": 0.0002}),
}


@pytest.mark.parametrize(("options", "advised"), SIMPLER.values(), ids=SIMPLER)
def test_what_spends_entropy_by_itself_is_changed_first(options: dict[str, Any], advised: dict[str, Any]) -> None:
    """A variant is due where none of them is to blame."""
    columns = one_text_is_left(np.random.default_rng(0))
    advice = diagnose(log(columns, **options)).advice
    assert (advice.options, advice.variant) == (advised, None)
    usual = diagnose(log(columns, temperature=0.7, learning_rate=0.001, entropy_coef=0.0)).advice
    assert usual.variant == "dapo"


def test_experts_that_are_unstable_rest_on_papers() -> None:
    """No log of a mixture of experts was there to try the rule on; that of a dense model was measured."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    flat(columns, rng)
    columns["grad_norm"] = 0.5 + 0.05 * rng.random(ROWS)
    columns["grad_norm"][[31, 47, 60, 78]] = 30.0
    columns["clip_ratio/region_mean"] = np.full(ROWS, 0.05)
    experts = diagnose(log(columns), moe=True)
    assert (experts.advice.variant, experts.findings[0].confidence) == ("gspo", "literature only")
    assert diagnose(log(columns), moe=False).findings[0].confidence == "measured"


@pytest.mark.parametrize(("left", "verdict"), [(0.1, "entropy_collapse"), (0.2, "healthy")])
def test_what_is_left_of_much_entropy_counts_by_its_share(left: float, verdict: str) -> None:
    """A twentieth of three nats is as good as nothing, although it is more than a narrow policy starts with."""
    columns = one_text_is_left(np.random.default_rng(0))
    columns["entropy"] = left + 2.9 / (1 + np.exp((AT - 17) / 2.0))
    columns["frac_reward_zero_std"] = np.where(AT < 22, 0.2, 0.6)
    assert diagnose(log(columns)).verdict == verdict
