"""When a reward's abstentions end a run: never on a share alone, always on a rise that is no chance."""

import random

import pytest

from guards.abstentions import Abstentions, Tally


def log(prompts: str) -> Tally:
    """Return one log's tally: a letter for each prompt of four completions, `x` where all of them got no value."""
    return {place: (4, 4 if letter == "x" else 0) for place, letter in enumerate(prompts)}


def ended(*logs: Tally, share: float = 0.2, steps: int = 3) -> tuple[int, str] | None:
    """Return after how many logs a run ends, and why; None where it does not. Another reward always answers."""
    watch = Abstentions(["judge", "other"], share, steps)
    for number, tally in enumerate(logs, 1):
        if reason := watch.look([{"judge": tally, "other": log("." * len(tally))}]):
            return number, reason
    return None


def test_a_judge_that_fails_ends_the_run_after_the_stated_logs() -> None:
    """Six sound logs of two prompts, then nothing but abstentions: the third of these ends it."""
    logs = [log("..")] * 6 + [log("xx")] * 5
    found = ended(*logs)
    assert found is not None
    assert found[0] == 9
    assert "reward judge abstained on 100% of the prompts of the last 3 logs" in found[1]
    assert "0 of 12 before" in found[1]


def test_completions_of_one_prompt_count_once() -> None:
    """A prompt with half of its completions judged is judged."""
    half = [{0: (4, 2), 1: (4, 2)}] * 20
    assert ended(*[log("..")] * 6, *half) is None


def test_a_slow_rise_is_seen_in_a_longer_window() -> None:
    """Half of the prompts, where none were before, is too little for three logs and enough for more."""
    found = ended(*[log("..")] * 30, *[log("x.")] * 30)
    assert found is not None
    assert 33 < found[0] <= 60


@pytest.mark.parametrize("seed", range(20))
def test_a_reward_that_is_for_half_of_the_prompts_ends_nothing(seed: int) -> None:
    """By chance whole logs of abstentions come one after another; five hundred steps go by."""
    draw = random.Random(seed)
    assert ended(*[log("".join(draw.choice(".x") for _ in range(2))) for _ in range(500)]) is None


@pytest.mark.parametrize("share", [0.0, 0.1, 0.19])
def test_below_the_share_nothing_ends(share: float) -> None:
    """However clear the rise is."""
    silent = round(share * 100)
    assert ended(*[log("." * 100)] * 10, *[log("x" * silent + "." * (100 - silent))] * 10) is None


def test_a_reward_that_never_answers_ends_the_run_after_enough_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said after the first log and ends the run with the 32nd prompt."""
    found = ended(*[log("xx")] * 20)
    assert found is not None
    assert found[0] == 16
    assert "never" not in found[1]
    assert "has abstained on every completion of the first 32 prompts" in found[1]
    assert "judge abstained on every completion of the first step" in capsys.readouterr().out


@pytest.mark.parametrize("answered", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("prompts", [1, 2, 8])
def test_a_reward_that_falls_silent_for_good_ends_the_run(answered: int, prompts: int) -> None:
    """Three logs and 32 prompts at most after its last answer, however early in the run that was."""
    found = ended(*[log("." * prompts)] * answered, *[log("x" * prompts)] * 200)
    assert found is not None
    assert found[0] <= answered + max(3, 32 // prompts)
    assert "reward judge abstained on" in found[1]


@pytest.mark.parametrize("answers", [0.05, 0.1, 0.3])
def test_a_reward_that_is_for_few_prompts_ends_nothing_and_when_it_fails_it_does(answers: float) -> None:
    """It is silent for more than 32 prompts again and again; a silence that is no chance ends the run."""
    ends = []
    for seed in range(8):
        draw = random.Random(seed)
        logs = [log("".join("x" if draw.random() > answers else "." for _ in range(2))) for _ in range(300)]
        assert ended(log(".x"), *logs) is None
        ends.append(ended(log(".x"), *logs, *[log("xx")] * 600))
    assert all(found is not None and found[0] > 301 - 10 / answers for found in ends)


def test_a_reward_that_is_not_called_ends_the_run_at_once() -> None:
    """The trainer got other rewards than the brief asks for."""
    watch = Abstentions(["judge", "other"], 0.2, 3)
    assert "reward judge was not called" in str(watch.look([{"judge": {}, "other": log(".")}]))


def test_processes_are_added_up() -> None:
    """A group that two processes share is one prompt; each half says nothing alone."""
    watch = Abstentions(["judge"], 0.2, 3)
    halves = [[{"judge": {0: (2, 0)}}, {"judge": {0: (2, 2)}}]] * 6
    for tallies in halves:
        assert watch.look(tallies) is None
    assert watch._seen["judge"] == [(1, 0)] * 6


def test_a_step_that_reuses_its_completions_counts_nothing() -> None:
    """No reward is called in it."""
    watch = Abstentions(["judge"], 0.2, 3)
    assert watch.look([{"judge": {}}]) is None
    assert watch._seen["judge"] == []
