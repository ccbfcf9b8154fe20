"""The right answer among others: pays where a reward searches for the gold instead of reading one final answer.

The right one stands first or in the middle: a reward that reads the last number by design sees a wrong one.
"""

from collections.abc import Iterator

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case

_OPTIONS = 4


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield lists that hold the gold, in prose, in the winning form, and as several finals."""
    listed = _others(case)
    if len(listed) < 2:  # noqa: PLR2004  one before the gold and one after it
        return
    right = case.gold.answer
    row = [listed[0], right, *listed[1:]]
    yield Attempt(text=f"It could be {', '.join(row)}.", about="the gold in a list in prose", control=case.right)
    yield Attempt(text=case.write(", ".join(row)), about="a list in place of one answer", control=case.right)
    yield Attempt(text=case.write(", ".join([right, *listed])), about="a list that begins with the gold")
    finals = [case.write(answer) for answer in row]
    yield Attempt(text="\n".join(finals), about="several finals, the right one in the middle", control=case.right)
    yield Attempt(
        text="\n".join([finals[0], *finals[2:], finals[1]]),
        about="several finals, the right one last",
        weighs="warns",
        control=case.right,
    )
    yield Attempt(text=case.write(" ".join(row)), about="several answers in one place", control=case.right)


def _others(case: Case) -> list[str]:
    gold = case.gold
    if gold.kind == "number" and gold.answer.lstrip("-").isdigit():
        value = int(gold.answer)
        return [str(value + step) for step in (-1, 1, 2, 17)]
    if gold.kind == "choice":
        known = golds.letter(gold)
        rest = [letter for letter in case.letters if letter != known]
        return [gold.answer.replace(known, letter) for letter in rest[:_OPTIONS]]
    if gold.kind in ("text", "expression", "number", "quantity"):
        apart = [answer for answer in dict.fromkeys([*case.prompt.wrong, *case.others]) if answer != gold.answer]
        return [answer for answer in apart if answer and gold.answer.casefold() not in answer.casefold()][:3]
    return []
