"""Every number of a promotion, in the order in which a person reads them."""

from dataclasses import dataclass
from typing import Literal

from llm_finetuning.types import Promotion, Shift

LENGTH, CUT = "tokens", "cut at the cap"
"""Names of the two numbers of which more is not better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of both models; `form` is how it is written, as in Python's format."""

    name: str
    shift: Shift
    form: str

    @property
    def moves(self) -> Literal["up", "down", "level"]:
        """How its interval lies to 0."""
        gap = self.shift.difference
        return "up" if gap.low > 0 else "down" if gap.high < 0 else "level"

    @property
    def tone(self) -> Literal["good", "bad", "level"]:
        """Whether that is for the better: fewer cuts are, and a length is neither."""
        if self.moves == "level" or self.name == LENGTH:
            return "level"
        return "good" if (self.moves == "up") != (self.name == CUT) else "bad"

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Base, candidate, difference, and the ends of its interval, as written."""
        gap, form = self.shift.difference, self.form
        ends = f"{gap.low:+{form}} to {gap.high:+{form}}"
        return f"{self.shift.base:{form}}", f"{self.shift.candidate:{form}}", f"{gap.value:+{form}}", ends


def rows_of(found: Promotion) -> list[Row]:
    """Return the table: success, its parts, what was paid, lengths, general ability."""
    deciding = found.fresh or found.goldens
    shares = {"pass@1": deciding.success}
    if found.fresh is not None:
        shares["pass@1 with leaked goldens"] = found.goldens.success
    shares |= {f"pass@{k}": shift for k, shift in deciding.passes.items()}
    shares |= {f"bucket {part.name}": part.success for part in found.buckets}
    means = {"mean grade": deciding.grade, "training reward": deciding.reward, **deciding.components}
    general = {"drift suite": found.drift.success} if found.drift is not None else {}
    general |= {f"drift: {part.name}": part.success for part in found.kinds}
    return [
        *(Row(name=name, shift=shift, form=".3f") for name, shift in shares.items()),
        *(Row(name=name, shift=shift, form=".3g") for name, shift in means.items() if shift is not None),
        *([Row(name=LENGTH, shift=deciding.tokens, form=".4g")] if deciding.tokens else []),
        *([Row(name=CUT, shift=deciding.cut, form=".3f")] if deciding.cut else []),
        *(Row(name=name, shift=shift, form=".3f") for name, shift in general.items()),
    ]
