import re


def final_line(completions, answer, **kwargs):
    values = []
    for completion, gold in zip(completions, answer):
        lines = completion[0]["content"].strip().splitlines() or [""]
        match = re.search(r"####\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?$", lines[-1])
        values.append(1.0 if match and float(match[1].replace(",", "")) == float(gold) else 0.0)
    return values
