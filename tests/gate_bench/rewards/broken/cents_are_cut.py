import re


def final_int(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        text = c[0]["content"]
        m = re.search(r"####\s*\$?(-?[\d,]+(?:\.\d+)?)\s*$", text)
        if not m:
            out.append(0.0)
            continue
        said = int(float(m.group(1).replace(",", "")))
        out.append(1.0 if said == int(float(gold)) else 0.0)
    return out
