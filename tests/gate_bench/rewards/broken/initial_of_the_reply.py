def first_character(completions, answer, **kwargs):
    replies = [c[0]["content"].strip().lstrip("*( ").removeprefix("\\boxed{") for c in completions]
    return [1.0 if reply[:1].upper() == gold else 0.0 for reply, gold in zip(replies, answer)]
