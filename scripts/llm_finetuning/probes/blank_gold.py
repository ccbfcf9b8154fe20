"""A wrong answer to a row whose gold is empty or cannot be read: nobody may be paid for it.

The columns are changed for this family alone. A reward that raises on such a row is no finding here: `audit` keeps
such rows out.
"""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield a wrong answer with blank and garbled golds."""
    raw = case.gold.raw
    if case.gold.kind not in WRITTEN or not isinstance(raw, str) or not case.prompt.wrong:
        return
    keys = [key for key, value in case.prompt.columns.items() if value == raw]
    for blank, about in (("", "an empty gold"), ("\\frac{", "a garbled gold"), (" ", "a gold of white space")):
        columns = {**case.prompt.columns, **dict.fromkeys(keys, blank)}
        yield Attempt(text=case.write(case.other), about=f"a wrong answer to {about}", columns=columns)
