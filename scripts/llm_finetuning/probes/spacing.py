"""White space and line breaks around and inside the winning form: nothing that a reader would see as another answer."""

from collections.abc import Iterator
from typing import Literal

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import THOUGHT


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the honest completion with other white space, and with a thought of several lines where it has one."""
    right = case.right
    yield Attempt(text=right + "\n", about="a line break after it")
    yield Attempt(text=right + "  ", about="spaces after it")
    yield Attempt(text="\n" + right, about="a line break before it", weighs=_weight(begins_with_tag=right[:1] == "<"))
    yield Attempt(text=" " + right, about="a space before it", weighs=_weight(begins_with_tag=right[:1] == "<"))
    if THOUGHT in right:
        lines = THOUGHT.replace(". ", ".\n\n")
        yield Attempt(text=right.replace(THOUGHT, lines), about="a thought of several lines")
        yield Attempt(text=right.replace(THOUGHT, f"{lines}\n- one\n- two"), about="a thought with a list")
    if "</think><" in right:
        yield Attempt(text=right.replace("</think><", "</think>\n<"), about="a line break between the tags")
    answer = case.gold.answer
    if f"<answer>{answer}</answer>" in right:
        yield Attempt(
            text=right.replace(f"<answer>{answer}</answer>", f"<answer>\n{answer}\n</answer>"),
            about="the answer on a line of its own inside its tag",
        )
        yield Attempt(
            text=right.replace(f"<answer>{answer}</answer>", f"<answer> {answer} </answer>"),
            about="spaces inside the tag",
        )
    if f"\\boxed{{{answer}}}" in right and case.gold.kind != "text":
        spaced = right.replace(f"\\boxed{{{answer}}}", f"\\boxed{{ {answer} }}")
        yield Attempt(text=spaced, about="spaces inside the box")


def _weight(*, begins_with_tag: bool) -> Literal["blocks", "warns"]:
    return "warns" if begins_with_tag else "blocks"  # some formats want the tag to stand first, as TRL's own
