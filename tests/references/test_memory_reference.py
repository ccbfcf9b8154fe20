"""What the skill's reference on memory says is what the planner says now."""

import memory_reference


def test_the_page_is_the_planners() -> None:
    """A planner that changed has written its page anew: python tests/references/memory_reference.py."""
    assert memory_reference.PAGE.read_text("utf-8") == memory_reference.page()


def test_the_page_shows_each_answer() -> None:
    """The table is no good where every run fits, or none does."""
    shown = memory_reference.sizes()
    assert all(mark in shown for mark in (" tight |", " **no** |", " **no**: share |"))
