"""The reward of the demo's second half: the right sum, said as "The answer is 68." and nothing beside it."""

import re

FORM = re.compile(r"The answer is (\d+)\.?")


def in_form(completions, answer, **kwargs):
    """Return 1.0 where the whole completion is the gold in the wanted form, 0.0 elsewhere."""
    texts = [part if isinstance(part, str) else part[-1]["content"] for part in completions]
    said = [FORM.fullmatch(text.strip()) for text in texts]
    return [float(found is not None and found[1] == gold) for found, gold in zip(said, answer, strict=True)]
