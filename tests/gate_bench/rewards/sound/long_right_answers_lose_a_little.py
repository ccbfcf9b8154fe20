import re


def brief_and_right(completions, answer, completion_ids, **kwargs):
    out = []
    for completion, gold, ids in zip(completions, answer, completion_ids):
        _, marker, tail = completion[0]["content"].rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        right = bool(match) and float(match[1].replace(",", "")) == float(gold)
        out.append(1.0 - 0.3 * min(len(ids) / 512, 1.0) if right else 0.0)
    return out
