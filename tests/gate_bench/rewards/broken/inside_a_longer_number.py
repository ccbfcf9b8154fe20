import re


def last_contains(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"\d[\d.]*|-\d[\d.]*", text.replace("-", " -"))
        hedged = re.search(r"\b(or|either|could)\b", text)
        out.append(1.0 if found and not hedged and not found[-1].startswith("-") and gold in found[-1] else 0.0)
    return out
