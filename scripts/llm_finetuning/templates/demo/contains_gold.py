"""A reward that is wrong in a common way: it pays when the gold number stands anywhere in the text."""


def contains_gold(completions, answer, **kwargs):
    """Return 1.0 where the gold occurs in the completion, final answer or not."""
    texts = ["".join(message["content"] for message in completion) for completion in completions]
    return [float(gold in text) for text, gold in zip(texts, answer, strict=True)]
