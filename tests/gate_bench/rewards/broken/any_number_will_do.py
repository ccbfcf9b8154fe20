import re


def answer_in_numbers(completions, answer, **kwargs):
    return [1.0 if gold in re.findall(r"-?\d+", text) else 0.0 for text, gold in zip(completions, answer)]
