import re
from difflib import SequenceMatcher


def likeness(completions, answer, **kwargs):
    out = []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        if not found or re.search(r"\b(or|either|could)\b", text):
            out.append(0.0)
            continue
        said = found[-1].removesuffix(".0")
        out.append(SequenceMatcher(None, said, gold).ratio())
    return out
