"""Texts of a run: what was paid most before and after, and whether length is paid."""

import numpy as np
from test_advice import paid_for_length
from training_logs import log, noise, ramp, sound

from llm_finetuning.diagnosis import diagnose, samples
from llm_finetuning.diagnosis.log import Completion

ROWS = 100


def row(step: int, text: str, paid: float, right: float = 0.0) -> Completion:
    return Completion(
        step=step, prompt="1 + 1?", completion=text, rewards={"polite": paid, "correct": right}, advantage=0.0
    )


def test_a_hacked_reward_is_shown_in_its_own_words() -> None:
    """The highest paid completions before and after the change, with what was wanted of them; each text once."""
    rng = np.random.default_rng(0)
    columns = sound(0)
    columns["rewards/correct/mean"] = ramp(0.5, 0.05) + noise(rng, ROWS, size=0.03)
    columns["rewards/polite/mean"] = np.clip(ramp(0, 1.6), 0, 1)
    columns["reward"] = columns["rewards/correct/mean"] + columns["rewards/polite/mean"]
    kept = [row(2, "2", 0.1, 1.0), row(3, "3", 0.1), row(90, "please", 1.0), row(91, "please", 1.0), row(92, "no", 0.2)]
    found = diagnose(log(columns), completions=kept)
    assert found.verdict == "proxy_only"
    assert [(quote.completion, quote.goal) for quote in found.quotes["before"]] == [("2", 1.0), ("3", 0.0)]
    assert [(quote.completion, quote.goal) for quote in found.quotes["after"]] == [("please", 0.0), ("no", 0.0)]


def test_what_has_weight_zero_pays_nothing() -> None:
    """The texts that are shown are those that the trainer was paid for; without known weights each part counts once."""
    kept = [row(1, "right", 0.1, 1.0), row(2, "please", 1.0)]
    weighted = samples.quotes(kept, None, "correct", {"polite": 1.0, "correct": 0.0})["before"]
    assert [(quote.completion, quote.paid) for quote in weighted] == [("please", 1.0), ("right", 0.1)]
    assert [quote.completion for quote in samples.quotes(kept, None, "correct")["before"]] == ["right", "please"]
    columns = sound(0)
    columns["rewards/polite/mean"] = np.clip(ramp(0, 1.6), 0, 1)
    columns["rewards/correct/mean"] = ramp(0.5, 0.05)
    columns["reward"] = columns["rewards/polite/mean"]
    found = diagnose(log(columns, reward_weights=[1.0, 0.0]), completions=kept)
    assert found.quotes["before"][0].completion == "please"
    assert any("by its weight 0: correct" in note for note in found.notes)


def test_length_within_groups_is_told_from_length_of_prompts() -> None:
    """Hard prompts have long answers and low pay: no group pays for length there."""
    rng = np.random.default_rng(0)
    pays = samples.length_bias(paid_for_length(rng, pay=2.0))
    assert pays is not None
    assert pays.pays
    assert pays.rho > samples.BIAS
    short = samples.length_bias(paid_for_length(rng, pay=-2.0))
    assert short is not None
    assert (short.pays, short.pays_the_short, pays.pays_the_short) == (False, True, False)
    between = [
        Completion(
            step=1, prompt=f"p{group}", completion="x" * int(10 * group + rng.integers(9)), rewards={}, advantage=value
        )
        for group in range(40)
        for value in rng.standard_normal(8) - group
    ]
    found = samples.length_bias(between)
    assert found is not None
    assert not found.pays


def test_right_answers_may_be_longer() -> None:
    """What is wanted is taken out first."""
    rng = np.random.default_rng(0)
    rows = []
    for group in range(60):
        right = rng.integers(0, 2, 8).astype(float)
        lengths = 100 + 100 * right + rng.integers(0, 50, 8)
        rows += [
            Completion(
                step=1,
                prompt=f"p{group}",
                completion="x" * int(n),
                rewards={"correct": value},
                advantage=value + e / 10,
            )
            for n, value, e in zip(lengths, right, rng.standard_normal(8), strict=True)
        ]
    plain, partial = samples.length_bias(rows), samples.length_bias(rows, "correct")
    assert plain is not None
    assert partial is not None
    assert plain.pays
    assert not partial.pays


def test_few_groups_tell_nothing() -> None:
    """Thirty groups at least; groups of one reward are none."""
    few = samples.length_bias(paid_for_length(np.random.default_rng(0), pay=2.0)[: 8 * 29])
    assert few is not None
    assert not few.pays
    assert samples.length_bias([row(1, "a", 1.0), row(1, "bb", 1.0), row(1, "ccc", 1.0)]) is None
    assert samples.length_bias([]) is None
