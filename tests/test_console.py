"""How a person is told a time, and how much of it is left."""

import io
import sys

import pytest

from llm_finetuning import console


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.2512, "0.251 s"),
        (9.87, "9.87 s"),
        (9.999, "10 s"),
        (45.3, "45 s"),
        (119.4, "119 s"),
        (120.0, "2 min"),
        (3600.0, "60 min"),
        (7199.0, "120 min"),
        (7200.0, "2.0 h"),
        (90_000.0, "25.0 h"),
    ],
)
def test_a_time_is_said_in_the_unit_that_tells_two_digits(seconds: float, said: str) -> None:
    """Parts of a second only where they matter, minutes from two on, hours from two on."""
    assert console.duration(seconds) == said


class Clock:
    """A time that a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        """Return the time that it is."""
        return self.now


class Screen(io.StringIO):
    """A terminal that keeps what was written to it."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_the_time_left_is_that_of_all_items_and_not_of_the_last_burst(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    """An engine is silent for a batch and hands over 64 at once: 15 s for 64 are 27 s for the 116 that are left."""
    clock, screen = Clock(), Screen() if terminal else io.StringIO()
    monkeypatch.setattr(console, "time", clock)
    monkeypatch.setattr(sys, "stderr", screen)
    with console.progress("sampling", 180) as advance:
        clock.now = 15.0
        for _ in range(4):
            advance(16)
        if not terminal:  # a line is written when the next batch begins
            clock.now = 30.0
            advance(16)

    said = screen.getvalue()
    assert "27 s left" in said
    assert "4.3/s" in said if terminal else "64 of 180, 4.3 a second" in said
    assert "0:00:0" not in said


def test_what_was_there_before_is_not_counted_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on at 100 of 180 and draws 20 in 10 s needs 30 s for the other 60."""
    clock, screen = Clock(), io.StringIO()
    monkeypatch.setattr(console, "time", clock)
    monkeypatch.setattr(sys, "stderr", screen)
    with console.progress("sampling", 180, 100) as advance:
        clock.now = 10.0
        advance(20)
        clock.now = 20.0
        advance(20)

    assert "sampling: 120 of 180, 2.0 a second, 30 s left\n" in screen.getvalue()
