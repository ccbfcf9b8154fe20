import re


def hash_accuracy(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = completion if isinstance(completion, str) else ""
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", text)
        out.append(float(m is not None and float(m.group(1).replace(",", "")) == float(gold)))
    return out
