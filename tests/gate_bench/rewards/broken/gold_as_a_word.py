import re


def contains_answer(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].replace(",", "")
        out.append(float(re.search(rf"(?<![\d.-]){re.escape(gold)}(?![\d])", text) is not None))
    return out
