import re


def normal(number):
    return number.replace(",", "").replace("$", "").strip().rstrip("0").rstrip(".")


def gsm_exact(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        m = re.search(r"####\s*(\$?-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        out.append(1.0 if m and normal(m.group(1)) == normal(gold) else 0.0)
    return out
