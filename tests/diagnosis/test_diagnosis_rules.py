"""Each rule with a made run that shows its fault, and the nearest run that does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from training_logs import Columns, log, noise, ramp, sound

from llm_finetuning.diagnosis import diagnose

ROWS = 100
Change = Callable[[Columns, Any], None]


def flat(columns: Columns, rng: Any, level: float = 0.4) -> None:
    columns["reward"] = level + noise(rng, ROWS, size=0.03)


def rewards_are_null(columns: Columns, _: Any, share: float = 0.1) -> None:
    columns["reward"][-int(share * ROWS) :] = np.nan


def one_null(columns: Columns, rng: Any) -> None:
    rewards_are_null(columns, rng, share=0.01)


def kl_runs_away(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["kl"] = ramp(0, 4) ** 1.2 + np.abs(noise(rng, ROWS, size=0.05))


def kl_high_with_gain(columns: Columns, rng: Any) -> None:
    columns["kl"] = ramp(0, 1.8) + np.abs(noise(rng, ROWS, size=0.05))


def kl_far_with_gain(columns: Columns, rng: Any) -> None:
    columns["reward"] = ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03)
    columns["kl"] = ramp(0, 3) + np.abs(noise(rng, ROWS, size=0.05))


def kl_high_with_loss(columns: Columns, rng: Any) -> None:
    reward_lost_late(columns, rng)
    columns["kl"] = np.where(np.arange(ROWS) < 58, 0.1, 1.5) + np.abs(noise(rng, ROWS, size=0.02))


def kl_torn(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["kl"] = 50 * np.exp(-np.arange(ROWS) / 5)


def kl_offset(columns: Columns, rng: Any) -> None:
    columns["kl"] = 0.6 + np.abs(noise(rng, ROWS, size=0.05))


def reward_lost_at_once(columns: Columns, rng: Any) -> None:
    columns["reward"] = np.abs(noise(rng, ROWS, size=0.02))
    columns["reward"][:3] = (0.55, 0.5, 0.45)


def reward_lost_late(columns: Columns, rng: Any) -> None:
    columns["reward"] = np.where(np.arange(ROWS) < 60, 0.6, 0.05) + noise(rng, ROWS, size=0.02)


def reward_falls(columns: Columns, rng: Any) -> None:
    columns["reward"] = ramp(0.6, 0.45) + noise(rng, ROWS, size=0.04)


def reward_wavers(columns: Columns, rng: Any) -> None:
    columns["reward"] = 0.5 + 0.05 * np.sin(np.arange(ROWS) / 8) + noise(rng, ROWS, size=0.04)


def cut(columns: Columns, rng: Any, share: float = 0.7) -> None:
    flat(columns, rng)
    columns["completions/clipped_ratio"] = np.clip(share + noise(rng, ROWS, size=0.05), 0, 1)


def cut_a_little(columns: Columns, rng: Any) -> None:
    cut(columns, rng, share=0.35)


def cut_and_learning(columns: Columns, rng: Any) -> None:
    columns["completions/clipped_ratio"] = np.clip(0.6 + noise(rng, ROWS, size=0.05), 0, 1)


def old_and_on_the_cap(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    del columns["completions/clipped_ratio"], columns["frac_reward_zero_std"], columns["entropy"]
    columns["completions/mean_length"] = np.where(np.arange(ROWS) % 2, 256.0, 240 + noise(rng, ROWS, size=5.0))


def old_and_below_the_cap(columns: Columns, rng: Any) -> None:
    old_and_on_the_cap(columns, rng)
    columns["completions/mean_length"] = 200 + noise(rng, ROWS, size=20.0)


def silent(columns: Columns, rng: Any, share: float = 0.95) -> None:
    flat(columns, rng)
    columns["frac_reward_zero_std"] = np.clip(share + noise(rng, ROWS, size=0.03), 0, 1)


def half_silent(columns: Columns, rng: Any) -> None:
    silent(columns, rng, share=0.6)


def silent_as_prompts_differ(columns: Columns, rng: Any) -> None:
    """Since TRL 0.27 reward_std is of the batch: it looks fine while no group has a signal."""
    silent(columns, rng, share=1.0)
    columns["reward_std"] = 0.45 + noise(rng, ROWS, size=0.02)


def solved(columns: Columns, rng: Any) -> None:
    columns["reward"] = np.clip(1.2 - np.exp(-np.arange(ROWS) / 15), 0, 1)
    columns["frac_reward_zero_std"] = np.clip(columns["reward"] ** 4 + noise(rng, ROWS, size=0.02), 0, 1)


def entropy_spent(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["entropy"] = np.clip(0.9 * np.exp(-np.arange(ROWS) / 20) + noise(rng, ROWS, size=0.005), 0.03, None)


def entropy_exchanged(columns: Columns, rng: Any) -> None:
    entropy_spent(columns, rng)
    columns["reward"] = ramp(0.3, 0.8) + noise(rng, ROWS, size=0.03)


def entropy_spent_then_rest(columns: Columns, rng: Any) -> None:
    """A gain in the first half, and a rest below the ceiling with entropy left."""
    entropy_spent(columns, rng)
    columns["entropy"] = np.clip(columns["entropy"], 0.1, None)
    columns["reward"] = 0.8 - 0.5 * np.exp(-np.arange(ROWS) / 12) + noise(rng, ROWS, size=0.03)


def nothing_left_to_sample(columns: Columns, rng: Any) -> None:
    """The same, with no entropy left and half of the groups in one mind."""
    entropy_spent_then_rest(columns, rng)
    columns["entropy"] = np.clip(0.9 * np.exp(-np.arange(ROWS) / 12) + noise(rng, ROWS, size=0.002), 0.01, None)
    columns["frac_reward_zero_std"] = np.clip(ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03), 0, 1)


def gone_but_groups_differ(columns: Columns, rng: Any) -> None:
    nothing_left_to_sample(columns, rng)
    columns["frac_reward_zero_std"] = np.clip(0.2 + noise(rng, ROWS, size=0.03), 0, 1)


def groups_agree_with_entropy_left(columns: Columns, rng: Any) -> None:
    entropy_spent_then_rest(columns, rng)
    columns["frac_reward_zero_std"] = np.clip(ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03), 0, 1)


def solved_and_sure(columns: Columns, rng: Any) -> None:
    solved_with_noise(columns, rng)
    columns["entropy"] = np.clip(0.9 * np.exp(-np.arange(ROWS) / 12), 0.01, None)


def silent_below_the_ceiling(columns: Columns, rng: Any) -> None:
    """A gain, and then groups of one reward at a success of a half: no prompt is learned any more."""
    columns["reward"] = 0.5 - 0.3 * np.exp(-np.arange(ROWS) / 8) + noise(rng, ROWS, size=0.005)
    columns["frac_reward_zero_std"] = np.clip(1 - 0.9 * np.exp(-np.arange(ROWS) / 12), 0, 1)


def solved_with_noise(columns: Columns, rng: Any) -> None:
    columns["reward"] = np.clip(0.96 - 0.6 * np.exp(-np.arange(ROWS) / 8) + noise(rng, ROWS, size=0.02), 0, 1)
    columns["frac_reward_zero_std"] = np.clip(1 - 0.9 * np.exp(-np.arange(ROWS) / 12), 0, 1)


def narrow_from_the_start(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["entropy"] = np.clip(0.05 * np.exp(-np.arange(ROWS) / 20), 0.004, None)


def entropy_runs_away(columns: Columns, rng: Any) -> None:
    columns["entropy"] = ramp(0.6, 4) + noise(rng, ROWS, size=0.05)
    columns["reward"] = ramp(0.5, 0.35) + noise(rng, ROWS, size=0.04)


def entropy_rises_a_little(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["entropy"] = ramp(0.6, 0.9) + noise(rng, ROWS, size=0.03)


def longer(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["completions/mean_length"] = ramp(400, 2000) + noise(rng, ROWS, size=40.0)
    columns["completions/clipped_ratio"] = ramp(0.05, 0.9)


def longer_and_better(columns: Columns, rng: Any) -> None:
    columns["completions/mean_length"] = ramp(400, 1200) + noise(rng, ROWS, size=40.0)


def a_little_longer(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["completions/mean_length"] = ramp(400, 460) + noise(rng, ROWS, size=10.0)


def gap_from_the_start(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["sampling/sampling_logp_difference/mean"] = 0.2 + np.abs(noise(rng, ROWS, size=0.01))


def gap_grows(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["sampling/sampling_logp_difference/mean"] = ramp(0.002, 0.15) + np.abs(noise(rng, ROWS, size=0.002))


def gap_is_usual(columns: Columns, rng: Any) -> None:
    columns["sampling/sampling_logp_difference/mean"] = 0.02 + np.abs(noise(rng, ROWS, size=0.005))
    columns["sampling/importance_sampling_ratio/mean"] = 0.5 + noise(rng, ROWS, size=0.05)
    columns["sampling/importance_sampling_ratio/max"] = 1.5 + noise(rng, ROWS, size=0.1)


def support_is_cut(columns: Columns, rng: Any) -> None:
    gap_is_usual(columns, rng)
    columns["sampling/importance_sampling_ratio/max"] = 0.7 + noise(rng, ROWS, size=0.1)


def gradients_spike(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["grad_norm"] = 0.5 + 0.05 * rng.random(ROWS)
    columns["grad_norm"][[31, 47, 60, 78]] = 30.0


def gradients_of_silent_groups(columns: Columns, rng: Any) -> None:
    """All-equal groups have no gradient: a usual one among them is no spike."""
    flat(columns, rng)
    columns["grad_norm"] = np.where(np.arange(ROWS) % 3, 1e-9, 0.5)
    columns["frac_reward_zero_std"] = np.where(np.arange(ROWS) % 3, 0.9, 0.2)


def gradients_of_silent_groups_used_again(columns: Columns, rng: Any) -> None:
    """With num_iterations above 1 the share of silent groups stands on the rows that sample alone."""
    gradients_of_silent_groups(columns, rng)
    again = np.arange(ROWS) % 2 == 1
    silent = np.repeat(columns["frac_reward_zero_std"][::2], 2)
    columns["grad_norm"] = np.where(silent > 0.5, 1e-9, 0.5)
    columns["frac_reward_zero_std"] = np.where(again, np.nan, silent)


def nothing_moves(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["kl"] = ramp(0, 2e-5)


def moves_without_gain(columns: Columns, rng: Any) -> None:
    flat(columns, rng)
    columns["kl"] = ramp(0, 0.02)


def parts(columns: Columns, **named: Any) -> None:
    for name, values in named.items():
        columns[f"rewards/{name}/mean"] = values
    columns["reward"] = sum(named.values())


def hacked(columns: Columns, rng: Any) -> None:
    parts(columns, correct=ramp(0.5, 0.1) + noise(rng, ROWS, size=0.03), polite=np.clip(ramp(0, 1.6), 0, 1))


def format_settled_long_ago(columns: Columns, rng: Any) -> None:
    correct = 0.05 + np.abs(noise(rng, ROWS, size=0.01))
    parts(columns, correct=correct, format=1 - np.exp(-np.arange(ROWS) / 4.0))


def both_rise(columns: Columns, rng: Any) -> None:
    correct = ramp(0.2, 0.7) + noise(rng, ROWS, size=0.03)
    parts(columns, correct=correct, format=1 - np.exp(-np.arange(ROWS) / 4.0))


def no_change(_: Columns, __: Any) -> None:
    pass


TABLE: dict[str, tuple[Change, str, Change, str]] = {  # fault, its verdict, the nearest that is none, its verdict
    "null rewards": (rewards_are_null, "nan", one_null, "healthy"),
    "kl runs away": (kl_runs_away, "kl_blowup", kl_high_with_gain, "healthy"),
    "kl far": (kl_runs_away, "kl_blowup", kl_far_with_gain, "healthy"),
    "kl high and reward lost": (kl_high_with_loss, "kl_blowup", reward_lost_late, "policy_collapse"),
    "kl torn": (kl_torn, "kl_blowup", kl_offset, "healthy"),
    "reward lost at once": (reward_lost_at_once, "policy_collapse", no_change, "healthy"),
    "reward lost late": (reward_lost_late, "policy_collapse", flat, "inconclusive"),
    "reward falls": (reward_falls, "reward_decline", reward_wavers, "inconclusive"),
    "cut": (cut, "truncation", cut_a_little, "inconclusive"),
    "cut while learning": (cut, "truncation", cut_and_learning, "healthy"),
    "cut, old log": (old_and_on_the_cap, "truncation", old_and_below_the_cap, "inconclusive"),
    "silent": (silent, "zero_signal", half_silent, "inconclusive"),
    "silent with a spread of the batch": (silent_as_prompts_differ, "zero_signal", solved, "healthy"),
    "entropy spent": (entropy_spent, "entropy_collapse", entropy_exchanged, "healthy"),
    "entropy gone": (nothing_left_to_sample, "entropy_collapse", entropy_spent_then_rest, "healthy"),
    "entropy gone, groups agree": (nothing_left_to_sample, "entropy_collapse", gone_but_groups_differ, "healthy"),
    "groups agree, entropy gone": (
        nothing_left_to_sample,
        "entropy_collapse",
        groups_agree_with_entropy_left,
        "healthy",
    ),
    "entropy gone below the ceiling": (nothing_left_to_sample, "entropy_collapse", solved_and_sure, "healthy"),
    "silent below the ceiling": (silent_below_the_ceiling, "zero_signal", solved_with_noise, "healthy"),
    "entropy low from the start": (entropy_spent, "entropy_collapse", narrow_from_the_start, "inconclusive"),
    "entropy runs away": (entropy_runs_away, "entropy_explosion", entropy_rises_a_little, "inconclusive"),
    "longer": (longer, "length_growth", longer_and_better, "healthy"),
    "longer by a little": (longer, "length_growth", a_little_longer, "inconclusive"),
    "gap from the start": (gap_from_the_start, "sampler_mismatch", gap_is_usual, "healthy"),
    "gap grows": (gap_grows, "sampler_drift", gap_is_usual, "healthy"),
    "support is cut": (support_is_cut, "truncated_sampling_bias", gap_is_usual, "healthy"),
    "gradients spike": (gradients_spike, "grad_spikes", gradients_of_silent_groups, "inconclusive"),
    "gradients spike, off-policy": (
        *(gradients_spike, "grad_spikes"),
        *(gradients_of_silent_groups_used_again, "inconclusive"),
    ),
    "nothing moves": (nothing_moves, "no_movement", moves_without_gain, "inconclusive"),
    "hacked": (hacked, "proxy_only", both_rise, "healthy"),
}


def verdict(change: Change, seed: int, **known: Any) -> str:
    columns = sound(seed)
    change(columns, np.random.default_rng(seed))
    return diagnose(log(columns, **known)).verdict


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_a_fault_is_named_and_its_nearest_neighbour_is_not(row: tuple[Change, str, Change, str], seed: int) -> None:
    """A rule that fires on the fault alone, in three draws of the noise."""
    fault, named, neighbour, instead = row
    assert verdict(fault, seed) == named
    assert verdict(neighbour, seed) == instead


def test_format_before_correctness_is_waited_for() -> None:
    """The same two components are the usual first phase until 100 steps after the format has settled."""
    columns = sound(0)
    format_settled_long_ago(columns, np.random.default_rng(0))
    early = diagnose(log(columns))
    late = diagnose(log(columns, steps=3.0 * np.arange(1, ROWS + 1)))
    assert (early.verdict, late.verdict) == ("format_first_phase", "proxy_only")


def test_correctness_that_wakes_is_waited_for() -> None:
    """It has begun to rise, by a twentieth of what the format gave: no proxy, however long it took."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    waking = ramp(0.01, 0.06) + noise(rng, ROWS, size=0.005)
    parts(columns, correct=waking, format=1 - np.exp(-np.arange(ROWS) / 4.0))
    assert diagnose(log(columns, steps=4.0 * np.arange(1, ROWS + 1))).verdict == "format_first_phase"


def test_a_goal_decides_which_component_is_wanted() -> None:
    """Names that say nothing are taken as either; the caller's word is not."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    parts(columns, a=ramp(0.6, 0.2) + noise(rng, ROWS, size=0.03), b=ramp(0.1, 1.1) + noise(rng, ROWS, size=0.03))
    assert diagnose(log(columns), goal="a").verdict == "proxy_only"
    assert diagnose(log(columns), goal="b").verdict == "healthy"
    unnamed = diagnose(log(columns))
    assert unnamed.verdict == "proxy_only"
    assert "--goal" in unnamed.text


def test_a_gain_that_was_missed_is_no_lack_of_one() -> None:
    """Length that grows is a failure where the reward does not rise, and not where the log is too short to show it."""
    found: dict[float, int] = {}
    for gain in (0.0, 0.07):
        verdicts = []
        for seed in range(30):
            columns = sound(seed)
            a_growing_length = ramp(400, 700) + noise(np.random.default_rng(seed), ROWS, size=20.0)
            columns["completions/mean_length"] = a_growing_length
            columns["reward"] = ramp(0.4, 0.4 + gain) + noise(np.random.default_rng(seed + 99), ROWS, size=0.07)
            verdicts.append(diagnose(log(columns)).verdict)
        found[gain] = verdicts.count("length_growth")
    assert found[0.0] >= 27
    assert found[0.07] <= 4


def test_length_is_held_against_what_is_wanted_and_not_against_the_sum() -> None:
    """A reward that rises by its other part does not excuse answers that grow and are right as seldom as before."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    parts(columns, correct=0.3 + noise(rng, ROWS, size=0.03), format=ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03))
    columns["completions/mean_length"] = ramp(400, 900) + noise(rng, ROWS, size=20.0)
    assert diagnose(log(columns)).verdict == "length_growth"


def test_a_part_near_its_most_stands_still_by_right() -> None:
    """Under names that say nothing, what pays nearly all it ever paid is no goal that was missed."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    rises = 1 - np.exp(-np.arange(ROWS) / 6) + noise(rng, ROWS, size=0.01)
    parts(columns, a=rises, b=np.clip(0.9 + noise(rng, ROWS, size=0.03), 0, 1))
    assert diagnose(log(columns)).verdict == "healthy"
    parts(columns, a=rises, b=np.abs(0.05 + noise(rng, ROWS, size=0.02)))
    assert diagnose(log(columns)).verdict == "format_first_phase"


def test_silence_from_the_start_is_told_from_one_that_came() -> None:
    """Nothing ever told good from bad, or groups became alike: the remedies differ."""
    for change, begins in ((silent, True), (silent_below_the_ceiling, False)):
        columns = sound(0)
        change(columns, np.random.default_rng(0))
        first = diagnose(log(columns)).findings[0]
        assert (first.code, first.numbers["from_start"], "from the start" in first.text) == (
            "zero_signal",
            begins,
            begins,
        )


def test_a_penalty_that_grows_is_no_hack() -> None:
    """Under names that say nothing, a part that loses little of what another gains is taken for a penalty."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    parts(columns, a=ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03), b=ramp(-0.1, -0.2) + noise(rng, ROWS, size=0.01))
    assert diagnose(log(columns)).verdict == "healthy"
    assert diagnose(log(columns), goal="b").verdict == "proxy_only"


def test_a_reward_of_weight_zero_is_what_is_wanted() -> None:
    """It is logged to be seen, and not trained on; its name need not say so."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    paid = ramp(0.1, 0.9) + noise(rng, ROWS, size=0.03)
    parts(columns, correct_style=paid, monitor=ramp(0.5, 0.1) + noise(rng, ROWS, size=0.03))
    columns["reward"] = paid
    found = diagnose(log(columns, reward_weights=[1.0, 0.0]))
    assert (found.goal, found.verdict) == ("monitor", "proxy_only")


def test_clipping_stands_in_rows_without_a_reward() -> None:
    """With num_iterations above 1 the reward is logged on the steps that sample, and clipping on the others."""
    columns = sound(0)
    reuse = np.arange(ROWS) % 4 != 0
    columns["reward"] = [None if late else value for late, value in zip(reuse, columns["reward"], strict=True)]
    columns["clip_ratio/region_mean"] = np.where(reuse, 0.02, 0.0)
    entropy_spent_columns = {**columns, "entropy": np.clip(0.9 * np.exp(-np.arange(ROWS) / 20), 0.03, None)}
    entropy_spent_columns["reward"] = [None if late else 0.4 + 0.02 * (at % 3) for at, late in enumerate(reuse)]
    found = diagnose(log(entropy_spent_columns))
    assert found.verdict == "entropy_collapse"
    assert "off-policy already" in found.advice.carries


def test_held_out_perplexity_shows_a_hacked_reward_of_one_component() -> None:
    """The held-out reward rises with the hacked one; only a measure of another kind does not."""
    held_out = {"reward": [0.5, 0.7, 0.9, 0.95, 0.97], "perplexity": [4.5, 5.2, 7.0, 11.0, 15.0]}
    steps = [20, 40, 60, 80, 100]
    assert diagnose(log(sound(1), held_out=held_out, held_out_steps=steps)).verdict == "proxy_only"
    held_out["perplexity"] = [4.5, 4.8, 5.0, 5.2, 5.5]
    assert diagnose(log(sound(1), held_out=held_out, held_out_steps=steps)).verdict == "healthy"


def test_a_held_out_success_that_falls_is_worth_more_than_a_reward_that_rises() -> None:
    """One low evaluation is noise; a course of them is not."""
    steps = [20, 40, 60, 80, 100]
    falls = diagnose(log(sound(1), held_out={"accuracy": [0.6, 0.5, 0.42, 0.36, 0.3]}, held_out_steps=steps))
    wavers = diagnose(log(sound(1), held_out={"accuracy": [0.75, 0.84, 0.48, 0.84, 0.5]}, held_out_steps=steps))
    assert (falls.verdict, wavers.verdict) == ("proxy_only", "healthy")
