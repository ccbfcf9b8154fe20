"""At most one change, with a reason, in options that TRL has."""

from typing import Any

import numpy as np
import pytest
from test_diagnosis_rules import TABLE
from training_logs import Columns, log, noise, ramp, sound

from llm_finetuning import trl_options
from llm_finetuning.diagnosis import diagnose
from llm_finetuning.diagnosis.advice import KEEP
from llm_finetuning.diagnosis.log import Completion
from llm_finetuning.diagnosis.record import Diagnosis
from llm_finetuning.recipes.variants import VARIANTS

ROWS = 100


def of(name: str, *, moe: bool | None = None, clips: float = 0.0, **options: Any) -> Diagnosis:
    columns = sound(0)
    TABLE[name][0](columns, np.random.default_rng(0))
    columns["clip_ratio/region_mean"] = np.full(ROWS, clips)
    return diagnose(log(columns, **options), moe=moe)


@pytest.mark.parametrize("name", TABLE)
def test_every_failure_has_one_change_that_trl_has(name: str) -> None:
    """Options are TRL's; what only words can say has none."""
    found = of(name, learning_rate=1e-5, max_completion_length=256)
    assert found.advice.change
    assert found.advice.because
    assert found.advice.change != KEEP
    assert set(found.advice.options) <= set(trl_options.names("grpo"))


@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_a_failure_keeps_plain_grpo(seed: int) -> None:
    """No option and no variant, on a mixture of experts as well."""
    for gain in (None, 0.0):
        found = diagnose(log(sound(seed, gain=gain)), moe=True)
        assert (found.advice.change, found.advice.options, found.advice.variant) == (KEEP, {}, None)


def test_entropy_that_is_spent_asks_for_dapo() -> None:
    """On-policy its clip never acts: the advice carries what makes the run off-policy, counted in accumulation."""
    advice = of("entropy spent", gradient_accumulation_steps=8).advice
    assert advice.variant == "dapo"
    assert advice.options.items() >= {"epsilon_high": 0.28, "loss_type": "dapo", "steps_per_generation": 32}.items()
    unknown = of("entropy spent").advice
    assert unknown.options["num_iterations"] == 2
    already = of("entropy spent", clips=0.02).advice
    assert not {"steps_per_generation", "num_iterations"} & set(already.options)
    assert "off-policy already" in already.carries


def test_a_variant_that_a_run_has_already_is_not_advised_again() -> None:
    """Then it was not the answer."""
    held = {name: value for name, (value, _) in VARIANTS["dapo"].options.items()}
    advice = of("entropy spent", clips=0.02, learning_rate=3e-6, **held).advice
    assert advice.variant is None
    assert advice.options == {"learning_rate": 1e-6}


def test_entropy_that_runs_away_is_never_told_to_widen_the_clip() -> None:
    """The opposite symptom has the opposite answer: the bonus out, the clip narrower, or a lower rate."""
    assert of("entropy runs away", entropy_coef=0.01).advice.options == {"entropy_coef": 0.0}
    assert of("entropy runs away", clips=0.02, epsilon_high=0.28).advice.options == {"epsilon_high": 0.2}
    assert of("entropy runs away", learning_rate=3e-6).advice.options == {"learning_rate": 1e-6}


def test_length_that_drifts_asks_for_both_options_of_dr_grpo() -> None:
    """TRL's own recipe leaves scale_rewards out, which the paper needs as much."""
    found = of("longer", loss_type="grpo")
    assert found.advice.variant == "dr_grpo"
    assert found.advice.options.items() >= {"loss_type": "dr_grpo", "scale_rewards": "none"}.items()
    assert not {"steps_per_generation", "num_iterations"} & set(found.advice.options)
    assert {one.family for one in found.excluded if one.state == "excluded"} >= {"signal", "collapse", "numbers"}
    assert "already" in of("longer", loss_type="dapo").advice.carries


def test_long_reasoning_that_degenerates_asks_for_dapo() -> None:
    """Length up, entropy down by half, and the reward where it was."""
    columns = sound(0)
    TABLE["longer"][0](columns, np.random.default_rng(0))
    columns["entropy"] = ramp(0.8, 0.25) + noise(np.random.default_rng(1), ROWS, size=0.01)
    assert diagnose(log(columns)).advice.variant == "dapo"


def paid_for_length(rng: Any, pay: float) -> list[Completion]:
    """Return 40 groups of 8 whose advantage is noise and, by `pay`, the length."""
    rows = []
    for group in range(40):
        lengths = rng.integers(50, 400, 8)
        advantages = pay * (lengths - lengths.mean()) / 100 + rng.standard_normal(8)
        rows += [
            Completion(
                step=group,
                prompt=f"p{group}",
                completion="x" * int(length),
                rewards={"r": float(value)},
                advantage=value,
            )
            for length, value in zip(lengths, advantages, strict=True)
        ]
    return rows


def test_a_reward_that_pays_for_length_is_mended_and_no_loss_changed() -> None:
    """The advantage comes from the reward: a loss that divides otherwise leaves it."""
    columns = sound(0)
    TABLE["longer"][0](columns, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    paid = diagnose(log(columns), completions=paid_for_length(rng, pay=2.0))
    assert paid.advice.variant is None
    assert "reward" in paid.advice.change
    assert diagnose(log(columns), completions=paid_for_length(rng, pay=0.0)).advice.variant == "dr_grpo"


def test_sequence_ratios_are_for_experts_that_drift() -> None:
    """A gap that grows on a mixture of experts, with what makes the ratios act; a dense model is told otherwise."""
    advice = of("gap grows", moe=True, gradient_accumulation_steps=4).advice
    assert advice.variant == "gspo"
    expected = {"importance_sampling_level": "sequence", "epsilon": 3e-4, "steps_per_generation": 16}
    assert advice.options.items() >= expected.items()
    assert "off-policy" in advice.carries
    assert of("gap grows", moe=False).advice.variant is None
    assert of("gap grows").advice.variant is None


def test_a_gap_from_the_start_is_no_matter_of_ratios() -> None:
    """Precision or routing, on a mixture of experts too."""
    found = of("gap from the start", moe=True)
    assert found.verdict == "sampler_mismatch"
    assert found.advice.variant is None
    assert found.advice.options == {"cast_lm_head_to_fp32": True}


def test_unstable_experts_get_sequence_ratios_only_where_they_act() -> None:
    """On-policy every ratio is 1: then it is the gradients that are clipped."""
    off_policy = of("gradients spike", moe=True, clips=0.05).advice
    assert off_policy.variant == "gspo"
    assert "exclude" in off_policy.because  # the gap between sampler and trainer was not logged
    assert of("gradients spike", moe=True).advice.options == {"max_grad_norm": 1.0}
    assert of("reward lost at once", moe=True, clips=0.05).advice.variant is None  # the learning rate's doing


def test_the_learning_rate_is_taken_from_the_log_where_options_lack_it() -> None:
    """The highest that was logged: a schedule ends at nothing."""
    columns: Columns = sound(0)
    TABLE["nothing moves"][0](columns, np.random.default_rng(0))
    columns["learning_rate"] = ramp(1e-6, 0)
    assert diagnose(log(columns)).advice.options == {"learning_rate": 1e-5}


def test_a_cap_that_is_known_is_doubled() -> None:
    """From the options, or from the length that stands in the log again and again."""
    assert of("cut", max_completion_length=512).advice.options == {"max_completion_length": 1024}
    assert of("cut").advice.options == {}
    assert of("cut, old log").advice.options == {"max_completion_length": 512}
