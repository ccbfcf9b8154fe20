"""The prompt said back: pays where a reward searches the text for the gold or for words of the task."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.prompts import all_said


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the prompt; where the gold stands in it, the finding only warns: a last number may be right by chance."""
    said = all_said(case.prompt.prompt)[: case.characters]
    holds = not case.gold.answer or case.gold.answer.casefold() in said.casefold()
    weighs = "warns" if holds else "blocks"
    yield Attempt(text=said, about="the prompt repeated", weighs=weighs)  # type: ignore[arg-type]
    yield Attempt(text=f"The question is: {said}\n{said}", about="the prompt twice", weighs=weighs)  # type: ignore[arg-type]
