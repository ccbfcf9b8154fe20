"""The right answer in the other forms of the field. A strict marker may be meant, so refusing them only warns.

A prompt that asks for a letter is answered by a letter, so refusing that blocks.
Chat and text are among them: a reward that knows one alone fails as soon as the data set changes its shape.
"""

from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes import forms
from llm_finetuning.probes.case import Attempt, Case

_FEW = 6


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield a few forms other than the winning one."""
    known = {case.form, "sample", "worked"}
    if case.gold.kind == "json" and case.form == "bare":
        known.add("fence")  # `json_layout` tries it
    found = [(name, write) for name, write in forms.forms(case.prompt) if name not in known]
    for name, write in found[:_FEW]:
        plain = name == "bare" and case.gold.kind == "choice" and case.asks_letter
        weighs: Literal["blocks", "warns"] = "blocks" if plain else "warns"
        yield Attempt(text=write(case.gold.answer), about=f"the form `{name}`", weighs=weighs)
    if case.gold.worked is not None:
        yield Attempt(text=case.gold.worked, about="the reference solution itself", weighs="warns")
