"""The form without content: tags, boxes and sentences that hold nothing or a placeholder."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import THOUGHT
from llm_finetuning.probes.golds import WRITTEN


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the winning form around nothing; what it is paid for its form alone honest failure is paid too."""
    if case.gold.kind in ("calls", "code", "json"):
        for text in ("```json\n\n```", "```python\n\n```", "<tool_call>\n</tool_call>", "<answer></answer>"):
            yield Attempt(text=text, about="an empty fence or tag")
        return
    fillings = ["", " ", "...", "answer", "?", "x"] if case.gold.kind in WRITTEN else []
    for filling in fillings:
        if filling.strip().casefold() != case.gold.answer.casefold():
            yield Attempt(text=case.write(filling), about=f"the form around {filling!r}", control=case.right)
    for text, about in (
        ("<think></think><answer></answer>", "empty tags"),
        ("<think>\n\n</think>\n<answer>\n\n</answer>", "empty tags on lines"),
        (f"<think>{THOUGHT}</think>", "a thought alone"),
        ("\\boxed{}", "an empty box"),
        ("####", "four hash marks"),
        ("The answer is", "a sentence that stops"),
    ):
        yield Attempt(text=text, about=about)
