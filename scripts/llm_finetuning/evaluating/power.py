"""How large a gain the goldens can show: told before anything is sampled, since more rows may be what is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_finetuning import artifact, checkpoints, console
from llm_finetuning.errors import Refusal
from llm_finetuning.statistics import gain_shown, items_needed
from llm_finetuning.types import Evaluation

GUESS = 0.5  # pass@1 of a base that nobody measured: of all, it asks for the most items but for a small gain near 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What a comparison on so many items shows in four of five tries."""

    items: int
    completions: int  # an item
    base: float  # pass@1 of the base
    is_measured: bool  # False: `base` is a guess
    gain_shown: float | None  # smallest gain in pass@1; None where not even the largest would be shown
    wanted_gain: float  # `evaluation.gain`
    items_needed: int | None  # to show the wanted gain; None where the base leaves no room for it


def power_of(items: int, completions: int, wanted_gain: float, base: Evaluation | None) -> Power:
    """Return the power of a comparison with this base, or with one that is guessed at."""
    counts = [(item.successes, item.n) for item in base.items if item.n] if base is not None else []
    known: float | Sequence[tuple[int, int]] = counts or GUESS
    rate = sum(hits / n for hits, n in counts) / len(counts) if counts else GUESS
    fits = wanted_gain <= 1 - rate
    return Power(
        items=items,
        completions=completions,
        base=rate,
        is_measured=bool(counts),
        gain_shown=gain_shown(items, base=known, completions=completions),
        wanted_gain=wanted_gain,
        items_needed=items_needed(wanted_gain, base=known, completions=completions) if fits else None,
    )


def line_of(power: Power) -> str:
    """Return the power in one line, with what kind of number it is: `compare` has that of the pairs, often far less."""
    kind = "estimate from the base alone" if power.is_measured else "upper guess"
    kind += ", before answers are paired: "
    drawn = f"{power.items} rows with {power.completions} completion{'s' if power.completions > 1 else ''} each"
    shown = "no gain at all" if power.gain_shown is None else f"a gain of {power.gain_shown:.3f} in pass@1"
    base = f"from the base's {power.base:.3f}" if power.is_measured else f"from a base guessed at {power.base:g}"
    wanted = f"the wanted {power.wanted_gain:g} (evaluation.gain)"
    if power.items_needed is None:
        return f"{kind}{drawn} show {shown} {base} in four of five tries; {wanted} is more than that leaves"
    enough = (
        "they are enough for" if power.items_needed <= power.items else f"about {power.items_needed} are needed for"
    )
    return f"{kind}{drawn} show {shown} {base} in four of five tries; {enough} {wanted}"


def measured_base(folder: Path, fingerprint: str) -> Evaluation | None:
    """Return the baseline where it stands on these goldens; None where there is none, or of others."""
    found = _read(folder / f"{checkpoints.BASE}.json")
    return found if found is not None and found.fingerprint == fingerprint else None


def on_other_goldens(folder: Path, fingerprint: str) -> list[str]:
    """Return the names of the evaluations that stand on other goldens, which are compared with none on these."""
    names = []
    for path in sorted(folder.glob("*.json")):
        found = _read(path)
        if found is not None and found.suite == "goldens" and found.fingerprint != fingerprint:
            names.append(path.stem)
    return names


def _read(path: Path) -> Evaluation | None:
    if not path.exists():
        return None
    try:
        return artifact.read_json(path, Evaluation).records[0]
    except Refusal as refusal:  # it is no part of what was asked for
        console.note(refusal.lines[0])
        return None
