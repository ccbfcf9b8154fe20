"""What is known of cards, by the names that a brief's `hardware` may say."""

import pytest

from llm_finetuning.planning import hardware
from llm_finetuning.recipes import shapes, shared
from llm_finetuning.recipes.config import Machine

NAMED = [
    ("h100", 79.18),
    ("a100", 79.15),
    ("a100-80", 79.15),
    ("a100-40", 39.38),
    ("l4", 22.03),
    ("l40s", 44.39),
    ("t4", 14.56),
    ("rtx4090", 23.52),
    ("rtx3090", 23.56),
    ("rtx5090", 31.36),
    ("a10", 22.05),
    ("a10g", 22.05),
    ("h200", 139.8),
    ("b200", 178.35),
    ("v100", 15.75),
    ("v100-32", 31.73),
    ("a6000", 47.4),
    ("gb10", 119.6),
    ("dgx-spark", 119.6),
]


@pytest.mark.parametrize(("name", "memory"), NAMED, ids=[name for name, _ in NAMED])
def test_a_name_that_hardware_takes_leads_to_a_card(name: str, memory: float) -> None:
    """The memory is what CUDA reports, always less than what the box says."""
    machine = shapes.machine_of(name)
    card = hardware.card_named(machine.name)
    assert card is not None
    assert card.memory_gib == memory
    assert card.source


def test_an_unknown_card_is_none_and_has_a_line() -> None:
    """Nothing is guessed of a card that the table does not have; the line says what may be written instead."""
    assert hardware.card_named("mi300x") is None
    words = hardware.unknown_words("mi300x")
    assert "mi300x" in words
    assert "hardware: auto" in words
    assert "h100" in words


@pytest.mark.parametrize(
    ("name", "memory", "card", "size"),
    [
        ("a100", 40.0, "a100-40", 39.38),  # one name, two cards: the driver's memory tells
        ("a100", 80.0, "a100", 79.15),
        ("v100", 32.0, "v100-32", 31.73),
        ("h100", 94.0, "h100", 94.0),  # the NVL card, which the table does not have: its own memory
        ("mi300x", 192.0, "mi300x", 192.0),
        ("rtx4090", 24.0, "rtx4090", 23.52),
    ],
)
def test_the_drivers_memory_decides(name: str, memory: float, card: str, size: float) -> None:
    """Where a machine was asked, its memory is believed, and the table says what CUDA leaves of it."""
    found = hardware.card_named(name, memory)
    assert found is not None
    assert (found.name, found.memory_gib) == (card, size)


@pytest.mark.parametrize("card", hardware.CARDS.values(), ids=lambda card: card.name)
def test_cards_agree_with_the_recipes_on_bfloat16(card: hardware.Card) -> None:
    """Compute capability and the recipe's list of cards without bfloat16 are two sources of one fact."""
    if card.has_bf16 is not None:
        half = shared.half_precision(Machine(name=card.name, gpus=1))
        assert card.has_bf16 is (half == "bfloat16")
    assert card.has_bf16 is not False or card.bf16_tflops is None


@pytest.mark.parametrize(("total", "floor"), [(119.6, 12.0), (121.7, 12.17), (60.0, 12.0), (480.0, 48.0)])
def test_the_host_keeps_a_floor(total: float, floor: float) -> None:
    """Twelve GiB or a tenth of one shared memory, whichever is more."""
    assert hardware.host_floor_gib(total) == pytest.approx(floor)


def test_meminfo_is_read_in_gib() -> None:
    """The kernel's kB are KiB; lines without a number are passed over."""
    text = "MemTotal: 127600000 kB\nMemAvailable:   121268000 kB\nHugePages_Total:       0\nDirectMap:\n"
    sizes = hardware.meminfo_gib(text)
    assert sizes["MemTotal"] == pytest.approx(121.69, abs=0.01)
    assert sizes["MemAvailable"] == pytest.approx(115.65, abs=0.01)
    assert "DirectMap" not in sizes
