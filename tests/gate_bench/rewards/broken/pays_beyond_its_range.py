import re


def quick(completions, answer, completion_ids, **kwargs):
    out = []
    for completion, gold, ids in zip(completions, answer, completion_ids):
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        right = bool(m) and float(m.group(1).replace(",", "")) == float(gold)
        out.append(1.0 + 10.0 / max(1, len(ids)) if right else 0.0)
    return out
