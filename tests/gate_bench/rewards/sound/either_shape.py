import re


def _text(completion):
    return completion if isinstance(completion, str) else "".join(m.get("content") or "" for m in completion)


def _value(word):
    match = re.fullmatch(r"\s*\$?\s*(-?)\$?(\d[\d,]*(?:\.\d+)?)\.?\s*", word)
    return None if match is None else float(match[1] + match[2].replace(",", ""))


def either_shape(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        before, marker, tail = _text(completion).rpartition("####")
        out.append(float(bool(marker) and _value(tail) is not None and _value(tail) == float(gold)))
    return out
