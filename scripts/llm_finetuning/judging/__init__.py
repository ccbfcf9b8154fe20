"""A rubric judge outside of training: measured against labels by people, and asked which of two models answers better.

The judge itself is in `rewards/`, which every run carries.
"""

from llm_finetuning.brief import LoadedBrief

USE = "rubric_judge"


def awaited(loaded: LoadedBrief) -> str | None:
    """Return the command that measures a judge among the rewards which may not pay yet; None where there is none."""
    if all(wanted.use != USE for wanted in loaded.brief.rewards):
        return None  # the judge's modules are not needed
    from llm_finetuning.judging import entries

    return entries.waiting(loaded, "rewards")
