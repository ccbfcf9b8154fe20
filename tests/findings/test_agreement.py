"""The reward against the reader: rates by part, and kappa."""

import pytest

from evidence_records import evidence, label, named, of_rewards
from llm_finetuning.findings import agreement
from llm_finetuning.statistics import stratified_share
from llm_finetuning.types import Estimate

POLICY = of_rewards([[1.0, 0.0]] * 100)  # 200 completions, half of them paid
PAID = [item.sample.sample_id for item in POLICY if item.reward == 1.0]
UNPAID = [item.sample.sample_id for item in POLICY if item.reward == 0.0]


def test_the_chosen_part_stands_for_itself_and_the_random_part_for_the_rest() -> None:
    """Two of four chosen rejects are paid, one of twenty drawn ones: over all that is far from 3 of 24."""
    labels = [
        *(label(name, "reject", part="chosen") for name in [*PAID[:2], *UNPAID[:2]]),
        *(label(name, "accept", part="chosen") for name in PAID[2:8]),
        *(label(name, "reject") for name in [PAID[8], *UNPAID[10:29]]),
        *(label(name, "accept") for name in PAID[10:30]),
    ]
    finding = named(agreement.findings(evidence(POLICY, labels=labels)), "false-pass")

    assert (finding.rate.hits, finding.rate.n) == (3, 24)
    # Of the 190 not chosen, half would be rejected, as half of the 40 drawn were: 95, of which 1 in 20 is paid.
    expected = stratified_share([(4, 2, 4), (95, 1, 20)])
    assert finding.estimate == expected
    assert finding.estimate.value == pytest.approx((4 * 0.5 + 95 * 0.05) / 99)
    assert "3 of 24" in finding.text
    assert "over all 200 completions, as they would be rejected: 7%" in finding.text


def test_without_a_chosen_part_the_plain_rate_is_all_there_is() -> None:
    """Labels made elsewhere count as drawn at random."""
    labels = [label(name, "reject") for name in UNPAID[:10]]
    finding = named(agreement.findings(evidence(POLICY, labels=labels)), "false-pass")

    assert finding.estimate is None
    assert finding.weight == "fine"


def test_what_any_reader_was_given_as_chosen_is_chosen() -> None:
    """It was certain to be read, so it stands for nothing else."""
    labels = [label(PAID[0], "accept"), label(PAID[0], "accept", reader="bob", part="chosen")]
    (read,) = evidence(POLICY, labels=labels).read

    assert read.chosen


def test_kappa_is_that_of_the_table() -> None:
    """The table of a published example gives its value: 20 both, 5 and 10 apart, 15 neither (kappa 0.4)."""
    words = ["accept"] * 20 + ["reject"] * 5
    labels = [label(name, word) for name, word in zip(PAID, words, strict=False)]
    words = ["accept"] * 10 + ["reject"] * 15
    labels += [label(name, word) for name, word in zip(UNPAID, words, strict=False)]
    found = evidence(POLICY, labels=labels)

    assert agreement.table(found.read, found.rule) == {
        "paid_accept": 20,
        "paid_reject": 5,
        "unpaid_accept": 10,
        "unpaid_reject": 15,
        "unscored_accept": 0,
        "unscored_reject": 0,
        "unsure": 0,
        "contested": 0,
    }
    kappa = agreement.reward_against_reader(found)
    assert isinstance(kappa, Estimate)
    assert (kappa.value, kappa.low, kappa.high) == pytest.approx((0.4, 0.1511, 0.6489), abs=1e-4)
    assert "0.40 (95% interval 0.15 to 0.65, n 50)" in named(agreement.findings(found), "kappa").text


def test_a_reader_who_accepts_all_has_no_kappa() -> None:
    """Where reward and reader never say no, chance agrees on everything."""
    found = agreement.findings(evidence(POLICY, labels=[label(name, "accept") for name in PAID]))

    assert "not defined: reward and reader say the same of all 100" in named(found, "kappa").text
