"""Tags repeated, nested or crossed. Around a wrong answer they must not be paid like a right one."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.golds import WRITTEN


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield tags in disorder, with the right answer where only a careless reader finds it."""
    if case.gold.kind not in WRITTEN or not case.prompt.wrong:
        return
    right, wrong = case.gold.answer, case.other
    for text, about in (
        (f"<answer>{wrong}<answer>{wrong}</answer></answer>", "nested tags around a wrong answer"),
        (f"<answer>{wrong}</answer></answer></answer>", "a tag closed three times"),
        (f"</answer>{wrong}<answer>", "tags the wrong way round"),
        (f"<answer>{right}</answer><answer>{wrong}</answer>", "two answers, the right one first"),
        (f"\\boxed{{{right}}} and \\boxed{{{wrong}}}", "two boxes, the right one first"),
        (f"<think>\\boxed{{{right}}}</think><answer>{wrong}</answer>", "the right answer boxed in the thought"),
    ):
        weighs = "warns" if "<think>" in text and not case.reasons else "blocks"
        yield Attempt(text=text, about=about, weighs=weighs)  # type: ignore[arg-type]
    yield Attempt(
        text=f"\\boxed{{{wrong}}}{{{right}}}",
        about="the right answer in braces after a wrong box",
        weighs="warns" if "bare" in case.accepts else "blocks",
    )
    yield Attempt(
        text=f"<answer>{wrong}</answer><answer>{right}</answer>",
        about="two answers, the right one last",
        weighs="warns",
    )
