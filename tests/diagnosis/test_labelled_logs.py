"""The diagnosis beside labelled logs: public runs, and made ones whose fault was planted."""

import numpy as np
import pytest
from training_logs import LOGS, Case, altered, cases, shuffled, training_rows

from llm_finetuning.diagnosis import diagnose, reading
from llm_finetuning.diagnosis.reading.assembly import assemble
from llm_finetuning.diagnosis.reading.source import Table
from llm_finetuning.diagnosis.record import Diagnosis

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason=f"{LOGS} is not there; set FINETUNE_CASES")

COURSES = ("proxy_only", "policy_collapse", "reward_decline", "length_growth", "entropy_collapse", "entropy_explosion")


def judged(rows: list[dict[str, object]], case: Case) -> Diagnosis:
    return diagnose(assemble(Table(form="jsonl", rows=rows), case.path, {}))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_labelled_log_gets_its_label(case: Case) -> None:
    """Or a verdict that its label accepts; a variant never where the run may be healthy."""
    found = diagnose(reading.read(case.path))
    assert found.verdict in case.accepted, found.text
    assert found.advice.variant is None or "healthy" not in case.accepted


@pytest.mark.parametrize("case", [case for case in cases() if "healthy" in case.accepted], ids=lambda case: case.name)
def test_part_of_a_sound_log_raises_no_alarm(case: Case) -> None:
    """Its first quarter, half and three quarters, every other and every fifth row, under names that say nothing."""
    for name, rows in altered(case):
        found = judged(rows, case)
        assert found.state != "failure" or found.verdict in case.accepted, (name, found.text)
        assert found.advice.variant is None, name


def test_rows_in_another_order_have_no_course() -> None:
    """Of all logs with their rows shuffled at most two in a hundred get a verdict about a course."""
    rng = np.random.default_rng(0)
    found = [judged(shuffled(training_rows(case.path), rng), case).verdict for case in cases() for _ in range(2)]
    assert sum(verdict in COURSES for verdict in found) <= 0.02 * len(found)
