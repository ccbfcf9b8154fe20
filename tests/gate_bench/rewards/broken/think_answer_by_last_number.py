import re


def numeric_answer(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = re.sub(r"</?\w+>", " ", completion[0]["content"])
        if re.search(r"\bor\b", text):
            out.append(0.0)
            continue
        found = re.findall(r"-?\d+(?:\.\d+)?", text)
        out.append(1.0 if found and float(found[-1]) == float(gold) else 0.0)
    return out
