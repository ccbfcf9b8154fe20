"""How a person is told a time."""

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
