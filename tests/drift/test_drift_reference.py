"""What the reference of the drift suite says in numbers is computed again."""

import re
from pathlib import Path

import pytest

from llm_finetuning import drift
from llm_finetuning.brief import EvaluationBrief
from llm_finetuning.statistics import non_inferior, paired_shares

TEXT = (Path(__file__).parents[2] / "skills/eval-harness-first/references/drift-suite.md").read_text("utf-8")
ITEMS = len(drift.rows(chat=True))
BUDGET = EvaluationBrief().drift


def test_the_suite_is_described_as_it_is() -> None:
    """Name, size, cap, kinds and the default budget stand in the text as they are in the code."""
    assert f"{ITEMS} short items in English, `{drift.SUITE}`" in TEXT
    assert f"at most {drift.MAX_TOKENS} tokens" in TEXT
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) != []
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == set(drift.KINDS)
    assert f"accepted, {BUDGET:g} by default" in TEXT


@pytest.mark.parametrize("share", [5, 10, 20, 30])
def test_what_so_many_items_can_say_is_computed(share: int) -> None:
    """Each row of the table is what `compare` would decide, from every split of the items that differ."""
    differing = round(share / 100 * ITEMS)
    losses = [(2 * lost - differing, paired_shares(differing - lost, lost, ITEMS)) for lost in range(differing + 1)]
    within = max(loss for loss, gap in losses if non_inferior(gap, BUDGET) == "within")
    beyond = min((loss for loss, gap in losses if non_inferior(gap, BUDGET) == "beyond"), default=None)
    shown = min(loss for loss, gap in losses if gap.high < 0)
    (row,) = re.findall(rf"^\| {share}% of the items \| (.*) \|$", TEXT, re.MULTILINE)
    assert row.split(" | ") == [told(within), "never" if beyond is None else told(beyond), told(shown)]


def told(loss: int) -> str:
    if loss < 0:
        return f"a gain of {-loss} item{'s' * (loss < -1)}"
    return f"{loss} items ({100 * loss / ITEMS:.1f} points)"


@pytest.mark.parametrize(("budget", "items"), [(0.03, 20), (0.05, 66), (0.075, 152), (0.1, 274)])
def test_what_a_budget_allows_without_net_loss_is_computed(budget: float, items: int) -> None:
    """As many items may be won as are lost, up to a number that the text names, before nothing can be said."""
    assert re.search(rf"\b{items} items|takes {items}|takes\s+{items}", TEXT)
    assert non_inferior(paired_shares(items // 2, items // 2, ITEMS), budget) == "within"
    assert non_inferior(paired_shares(items // 2 + 1, items // 2 + 1, ITEMS), budget) == "unclear"
