"""One verdict of many findings: the first cause in time, and what follows from it."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_logs import ROOT, log, noise, ramp, short, sound

from llm_finetuning.diagnosis import diagnose
from llm_finetuning.diagnosis.rules import ORDER, RULES

ROWS = 100


def collapsed_then_cut() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = sound(0)
    columns["reward"] = np.abs(noise(rng, ROWS, size=0.02))
    columns["reward"][:3] = (0.6, 0.4, 0.3)
    columns["completions/clipped_ratio"] = np.where(np.arange(ROWS) < 30, 0.05, 1.0)
    columns["frac_reward_zero_std"] = np.where(np.arange(ROWS) < 40, 0.1, 1.0)
    columns["entropy"] = np.where(np.arange(ROWS) < 50, 0.8, 0.01)
    return columns


def test_what_begins_later_follows() -> None:
    """A policy that is lost and then runs into the cap is not mended by a higher cap."""
    found = diagnose(log(collapsed_then_cut()))
    assert found.verdict == "policy_collapse"
    later = {one.code: one.role for one in found.findings[1:]}
    assert later["truncation"] == later["zero_signal"] == later["entropy_collapse"] == "consequence"
    assert "learning_rate" not in found.advice.options  # it is not known
    assert "learning rate" in found.advice.change


def test_the_order_turns_with_time() -> None:
    """Completions that were cut all along come before a reward that is lost late."""
    columns = sound(0)
    columns["completions/clipped_ratio"] = np.full(ROWS, 0.9)
    columns["reward"] = np.where(np.arange(ROWS) < 60, 0.6, 0.05) + noise(np.random.default_rng(1), ROWS, size=0.02)
    found = diagnose(log(columns))
    assert found.verdict == "truncation"
    assert "policy_collapse" in {one.code for one in found.findings if one.role == "consequence"}


def test_what_begins_together_is_ordered_by_cause() -> None:
    """Cut completions and groups of one reward from the first row: the cap is why nothing differs."""
    columns = sound(0)
    columns["reward"] = np.zeros(ROWS)
    columns["completions/clipped_ratio"] = np.ones(ROWS)
    columns["frac_reward_zero_std"] = np.ones(ROWS)
    assert diagnose(log(columns)).verdict == "truncation"


@pytest.mark.parametrize(
    ("rows", "every", "verdict"),
    [
        (7, 50, "too_short"),
        (30, 1, "too_short"),
        (19, 3, "too_short"),
        (20, 3, "inconclusive"),
        (12, 10, "inconclusive"),
    ],
)
def test_a_short_log_says_that_it_is_short(rows: int, every: int, verdict: str) -> None:
    """Eight rows and forty steps at least; twenty rows where the run has fewer than a hundred steps."""
    columns = {name: values[:rows] for name, values in sound(0, gain=0.0).items()}
    assert diagnose(log(columns, steps=every * np.arange(1.0, rows + 1))).verdict == verdict


def test_a_short_log_shows_what_is_there_from_its_first_row() -> None:
    """Four rows in which no group ever differs are enough; four cut ones are not."""
    silent = {"reward": [0.0] * 4, "frac_reward_zero_std": [1.0] * 4}
    assert diagnose(log(silent)).verdict == "zero_signal"
    old = {"reward": [0.0] * 4, "reward_std": [0.0] * 4}  # a row may speak of one group
    assert diagnose(log(old)).verdict == "too_short"
    later = {"reward": [0.0] * 12, "reward_std": [0.0, 0.2] + [0.0] * 10}
    assert diagnose(log(later)).verdict == "too_short"
    cut = {"reward": [0.0, 1.0, 0.0, 1.0], "completions/clipped_ratio": [0.6] * 4}
    assert diagnose(log(cut)).verdict == "too_short"


def test_a_short_log_shows_what_no_sound_run_has() -> None:
    """Two nats after twenty steps, and completions none of which ever ended."""
    torn = {"reward": [0.5, 0.4] * 10, "kl": np.linspace(0, 3, 20)}
    assert diagnose(log(torn)).verdict == "kl_blowup"
    drifted = {"reward": [0.5, 0.4] * 10, "kl": np.linspace(0, 0.5, 20)}
    assert diagnose(log(drifted)).verdict == "too_short"
    never_ended = {"reward": [0.0, 0.1] * 6, "completions/clipped_ratio": [1.0] * 12}
    assert diagnose(log(never_ended)).verdict == "truncation"


def test_a_short_log_shows_that_what_is_wanted_falls() -> None:
    """Where the reward rises at the same time, each surely, and where somebody or something says what is wanted."""
    rows = 30
    assert diagnose(short(0, fall=0.35)).verdict == "proxy_only"
    assert diagnose(short(0, rows=19, fall=0.35)).verdict == "too_short"
    assert diagnose(short(0, fall=0.0)).verdict == "too_short"
    still = {**sound(0, rows, gain=0.0), "rewards/easy/mean": ramp(0.1, 0.9, rows)}
    still["rewards/wanted/mean"] = ramp(0.6, 0.2, rows) + noise(np.random.default_rng(0), rows, size=0.03)
    assert diagnose(log(still, reward_weights=[1.0, 0.0])).verdict == "too_short"
    unnamed = {**sound(0, rows), "rewards/a/mean": still["rewards/easy/mean"]}
    unnamed["rewards/b/mean"] = still["rewards/wanted/mean"]
    assert diagnose(log(unnamed)).verdict == "too_short"
    assert diagnose(log(unnamed), goal="b").verdict == "proxy_only"


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_short_sound_runs_raise_no_alarm(correlation: float) -> None:
    """Of short runs whose reward rises while what is wanted stands still at most one in fifty is called hacked."""
    found = [diagnose(short(seed, correlation=correlation)) for seed in range(100)]
    assert sum(one.state == "failure" for one in found) <= 2


def test_a_short_log_excludes_no_course() -> None:
    """What is half cut is watched, a fall is not excluded; what it asks for is not there."""
    rows = 30
    columns = {**sound(0, rows), "reward": ramp(0.8, 0.3, rows) + noise(np.random.default_rng(0), rows, size=0.03)}
    columns["completions/clipped_ratio"] = np.full(rows, 0.54)
    found = diagnose(log(columns))
    excluded = {one.family for one in found.excluded if one.state == "excluded"}
    unknown = {one.family for one in found.excluded if one.state == "unknown"}
    assert found.verdict == "too_short"
    assert {"numbers", "signal"} <= excluded
    assert {"collapse", "decline", "entropy", "length"} <= unknown
    assert "truncation" not in excluded
    assert [(one.code, one.role) for one in found.findings[1:]] == [("truncation", "watch")]
    assert found.findings[0].confirm == "a log of 100 steps"
    columns["completions/clipped_ratio"] = np.full(rows, 0.4)
    assert [one.code for one in diagnose(log(columns)).findings] == ["too_short", "partly_cut"]


def test_a_run_that_has_ended_does_not_run_on() -> None:
    """Its own record, or max_steps, says so."""
    found = log(sound(0, 30))
    assert diagnose(found).advice.because.endswith("let it run on")
    for ended in (dataclasses.replace(found, ended=True), dataclasses.replace(found, options={"max_steps": 30})):
        assert diagnose(ended).advice.because.endswith("a longer run, or several seeds, can show one")
    assert diagnose(dataclasses.replace(found, options={"max_steps": 31})).advice.because.endswith("let it run on")


def test_what_confirms_is_not_there_yet() -> None:
    """An undecided run with evaluations is not asked for evaluations."""
    flat = sound(0, gain=0.0)
    assert diagnose(log(flat)).findings[0].confirm.startswith("a held-out score")
    judged = diagnose(log(flat, held_out={"reward": [0.3] * 5}, held_out_steps=[20, 40, 60, 80, 100]))
    assert "finetune compare" in judged.findings[0].confirm


def test_a_reward_that_never_varies_shows_no_smallest_change() -> None:
    """It is said to be the same in every row."""
    found = diagnose(log({"reward": np.ones(ROWS)}))
    assert (found.verdict, found.power) == ("inconclusive", [])
    assert "1 in every row" in found.text
    assert "change of 0" not in found.text


def test_spent_entropy_is_not_excluded_beside_a_collapse() -> None:
    """It is watched, or follows."""
    columns = sound(0)
    columns["reward"] = np.where(np.arange(ROWS) < 60, ramp(0.3, 0.9), 0.05) + noise(
        np.random.default_rng(0), ROWS, size=0.02
    )
    for until in (3, 70):
        entropy = np.where(np.arange(ROWS) < until, 0.6, 0.03)
        found = diagnose(log({**columns, "entropy": entropy}))
        assert found.verdict == "policy_collapse"
        assert {one.code for one in found.findings} & {"entropy_spent", "entropy_collapse"}
        assert "entropy" not in {one.family for one in found.excluded}


def test_a_distance_without_its_start_says_so() -> None:
    """An offset is taken off, and named where the number is."""
    columns = {**sound(0), "kl": 0.4 + ramp(0.0, 0.2)}
    found = diagnose(log(columns))
    texts = [one.text for one in (*found.findings, *found.excluded) if "kl" in one.text and "quarter" in one.text]
    assert texts
    assert all("above its start of 0.4" in text or "as it was logged" in text for text in texts)


def test_weights_belong_to_names() -> None:
    """Sorted names of a state are in another order than the trainer's list; weights by name, or none, are taken."""
    rng = np.random.default_rng(0)
    columns = {**sound(0), "rewards/a_watched/mean": ramp(0.5, 0.1) + noise(rng, ROWS, size=0.03)}
    columns["rewards/style/mean"] = columns["reward"]
    state = dataclasses.replace(log(columns, reward_weights=[1.0, 0.0]), form="trainer_state")
    listed = diagnose(state)
    assert "by its weight 0" not in " ".join(listed.notes)
    assert any("reward_weights were not used" in note for note in listed.notes)
    by_name = {"style": 1.0, "a_watched": 0.0}
    named = dataclasses.replace(state, options={"reward_weights": by_name})
    ours = dataclasses.replace(state, weights=by_name)
    for found in (diagnose(named), diagnose(ours)):
        assert (found.goal, found.verdict) == ("a_watched", "proxy_only")
        assert not any("not used" in note for note in found.notes)


def test_an_undecided_log_says_what_it_could_have_shown() -> None:
    """The smallest change, and what longer logs would show; a decided one has no need of it."""
    undecided = diagnose(log(sound(0, gain=0.0)))
    assert [one.rows for one in undecided.power] == [100, 200, 400]
    assert undecided.power[0].smallest > undecided.power[2].smallest > 0
    assert diagnose(log(sound(0))).power == []


def test_a_checkpoint_is_the_best_evaluation_before_the_failure() -> None:
    """Without evaluations it is the best stretch of training; at once lost, there is none to go back to."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    columns["reward"] = np.where(np.arange(ROWS) < 60, ramp(0.3, 0.9), 0.05) + noise(rng, ROWS, size=0.02)
    plain = diagnose(log(columns))
    assert plain.verdict == "policy_collapse"
    assert plain.checkpoint is not None
    assert 40 <= plain.checkpoint["step"] <= 60
    held_out = {"reward": [0.3, 0.6, 0.5, 0.1, 0.1]}
    judged = diagnose(log(columns, held_out=held_out, held_out_steps=[20, 40, 55, 80, 100]))
    assert judged.checkpoint is not None
    assert judged.checkpoint["step"] == 40
    assert diagnose(log(collapsed_then_cut())).checkpoint is None


def test_what_is_missing_is_named() -> None:
    """A log with a reward alone cannot exclude much, and says so."""
    found = diagnose(log({"reward": sound(0)["reward"]}))
    assert found.verdict == "healthy"
    assert {line.split(":")[0].split(" ")[0] for line in found.missing} >= {"entropy", "kl", "grad_norm"}
    unknown = {one.family for one in found.excluded if one.state == "unknown"}
    assert {"kl", "entropy", "mismatch", "signal", "hacking"} <= unknown


def test_a_reward_that_says_nothing_is_no_reason_to_call_a_run_healthy() -> None:
    """No reward at all is undecided."""
    assert diagnose(log({"loss": np.zeros(ROWS)})).state == "undecided"
    assert diagnose(log({})).verdict == "too_short"


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_sound_runs_raise_no_alarm(correlation: float) -> None:
    """Of runs in which nothing is wrong at most one in fifty is called a failure, and none is given a variant.

    A slice of what tests/bench_diagnosis.py draws.
    """
    rising = [diagnose(log(sound(seed, correlation=correlation))) for seed in range(50)]
    flat = [diagnose(log(sound(seed, correlation=correlation, gain=0.0))) for seed in range(50)]
    assert sum(one.state == "failure" for one in (*rising, *flat)) <= 2
    assert sum(one.verdict == "healthy" for one in rising) >= 45
    assert not any(one.advice.variant for one in (*rising, *flat))


def test_a_long_log_is_judged_in_seconds() -> None:
    """A hundred thousand steps."""
    began = time.process_time()
    assert diagnose(log(sound(0, rows=100_000))).verdict == "healthy"
    assert time.process_time() - began < 8


NAMES = (
    *(
        "reward",
        "reward_std",
        "frac_reward_zero_std",
        "completions/mean_length",
        "completions/clipped_ratio",
        "entropy",
    ),
    *(
        "kl",
        "grad_norm",
        "loss",
        "clip_ratio/region_mean",
        "rewards/a/mean",
        "rewards/correct/mean",
        "rewards/fmt/mean",
    ),
    *("sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/max", "completions/max_length"),
    *("sampling/importance_sampling_ratio/mean", "learning_rate"),
)
VALUES = st.one_of(
    st.none(),
    st.sampled_from([0.0, 1.0, float("nan"), float("inf"), -1.0]),
    st.floats(),
    st.floats(-1e6, 1e6),
    st.floats(0, 1),
)


@st.composite
def any_log(draw: st.DrawFn) -> object:
    rows = draw(st.integers(0, 60))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    columns = {}
    for name in names:
        kind = draw(st.sampled_from(["free", "constant", "drawn"]))
        if kind == "drawn":
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            columns[name] = draw(st.floats(-2, 2)) * np.arange(rows) + rng.standard_normal(rows)
        else:
            one = draw(VALUES)
            columns[name] = [one if kind == "constant" else draw(VALUES) for _ in range(rows)]
    steps = np.cumsum(np.full(rows, draw(st.sampled_from([0.5, 1, 10, 500]))))
    held = draw(st.lists(st.floats(0.01, 100), max_size=6))
    held_out = dict.fromkeys(draw(st.lists(st.sampled_from(("perplexity", "accuracy", "reward")), unique=True)), held)
    options = draw(st.dictionaries(st.sampled_from(["top_p", "learning_rate", "loss_type", "num_iterations"]), VALUES))
    if not columns:
        rows, steps = 0, np.zeros(0)
    return log(columns, steps=steps, held_out=held_out, held_out_steps=np.arange(1.0, len(held) + 1), **options)


@given(any_log(), st.sampled_from([None, "correct", "nowhere"]), st.sampled_from([None, True, False]))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_log_has_a_verdict(run: object, goal: str | None, moe: bool | None) -> None:
    """Nothing that a reader can hand over ends in an error, and the record is JSON."""
    found = diagnose(run, goal=goal, moe=moe)  # type: ignore[arg-type]
    assert found.verdict in ORDER
    assert {one.family for one in found.excluded} <= set(RULES)
    assert json.loads(json.dumps(dataclasses.asdict(found), allow_nan=False))["verdict"] == found.verdict
    assert found.state == "failure" or found.advice.variant is None


def test_the_package_is_light() -> None:
    """Help and status import it, and numpy waits until a log is judged."""
    program = (
        "import sys, llm_finetuning.diagnosis.report, llm_finetuning.diagnosis.record; print('numpy' in sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    ended = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_every_verdict_is_explained() -> None:
    """The reference that an agent reads has a row for each, and for nothing else."""
    text = (ROOT / "skills/grpo-rlvr-training/references/diagnosis.md").read_text("utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == ORDER
