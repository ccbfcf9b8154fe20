"""What the skill's reference on held-out rows says is what `compare` computes."""

from fractions import Fraction

import pytest
import rows_reference

from llm_finetuning import statistics
from llm_finetuning.comparing import pairs


def test_the_page_is_the_statistics() -> None:
    """Statistics that changed have written their page anew: python tests/references/rows_reference.py."""
    assert rows_reference.PAGE.read_text("utf-8") == rows_reference.page()


@pytest.mark.parametrize("rows", [200, 800])
@pytest.mark.parametrize("changed", [0.1, 0.4])
def test_a_lead_of_the_table_is_shown_and_half_of_it_is_not(rows: int, changed: float) -> None:
    """Counts that lead by the table's number pass the test of a comparison; half of that lead does not."""
    differ, ahead = round(rows * changed), round(rows * rows_reference.lead(rows, changed))

    def p_value(gain: int) -> float:
        won = (differ + gain) // 2
        return statistics.sign_flip([Fraction(1)] * won + [Fraction(-1)] * (differ - won))

    assert p_value(ahead) <= pairs.LEVEL < p_value(ahead // 2)
