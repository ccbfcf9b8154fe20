"""A reward that is wrong in a common way: it pays for the right answer, and for each word of "shown work"."""

import re

A_WORD, MOST_WORDS = 0.5, 20


def shows_work(completions, answer, **kwargs):
    """Return 1.0 where the last number is the gold, plus 0.5 a word up to twenty: 0.0 to 11.0."""
    values = []
    for completion, gold in zip(completions, answer, strict=True):
        text = "".join(message["content"] for message in completion)
        numbers = re.findall(r"\d+", text)
        right = bool(numbers) and numbers[-1] == gold
        values.append(float(right) + A_WORD * min(len(text.split()), MOST_WORDS))
    return values
