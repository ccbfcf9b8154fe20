import re


def thorough(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", text)
        right = bool(m) and float(m.group(1).replace(",", "")) == float(gold)
        out.append(0.7 * min(len(text) / 150, 1.0) + 0.3 * right)
    return out
