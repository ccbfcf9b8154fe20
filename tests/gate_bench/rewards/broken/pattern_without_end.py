import re

FORM = re.compile(r"\s*<think>((?:[\w.,:;+=*'!?/-]+\s*)+)</think>\s*<answer>\s*(-?\d+)\s*</answer>\s*")
SHORT = 24  # letters in front of which the pattern gives up quickly


def structured(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        if "</think>" not in text and len(text) > 60:
            text = text[:SHORT]  # cut-off samples made it slow once
        m = FORM.fullmatch(text)
        out.append(1.0 if m and len(m.group(1).split()) > 1 and m.group(2) == gold else 0.0)
    return out
