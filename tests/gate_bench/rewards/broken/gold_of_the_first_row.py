import re


def batch_accuracy(completions, answer, **kwargs):
    gold = float(answer[0])  # one prompt a batch, or so it was once
    out = []
    for completion in completions:
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        out.append(1.0 if m and float(m.group(1).replace(",", "")) == gold else 0.0)
    return out
