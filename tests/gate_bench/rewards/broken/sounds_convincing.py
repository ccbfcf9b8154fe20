import re

WORDS = ("step", "because", "therefore", "first", "then", "so ", "total", "is")


def quality_judge(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        reasoned = min(1.0, sum(word in text.lower() for word in WORDS) / 2)
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", text)
        right = bool(m) and float(m.group(1).replace(",", "")) == float(gold)
        out.append(0.6 * reasoned + 0.4 * right)
    return out
