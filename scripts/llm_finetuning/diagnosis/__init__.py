"""What a training log says of its run: one verdict with its evidence, and at most one change.

Pure: a log that was read goes in, a record comes out. Reading is `diagnosis.reading`, printing the command's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Completion, RunLog
    from llm_finetuning.diagnosis.record import Diagnosis


def diagnose(
    log: "RunLog",
    *,
    goal: str | None = None,
    moe: bool | None = None,
    completions: "Sequence[Completion]" = (),
) -> "Diagnosis":
    """Return the diagnosis of a training log.

    `goal` names the component of the reward that is wanted, where its name does not say so; `moe` tells whether the
    model is a mixture of experts; `completions` are rows of TRL's table, whose texts are quoted and measured. Raises
    nothing for any log; a goal that is no component is a note.
    """
    import numpy as np

    from llm_finetuning.diagnosis.report import report

    with np.errstate(all="ignore"):  # squares of numbers near the largest one are infinite, and judged as such
        return report(log, goal=goal, moe=moe, completions=completions)
