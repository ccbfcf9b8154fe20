import re


def near(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        if not found or re.search(r"\b(?:or|either|could be)\b", text):
            out.append(0.0)
            continue
        gap = abs(float(found[-1].replace(",", "")) - float(gold))
        out.append(1.0 if gap == 0 else 0.2 / (1.0 + gap))
    return out
