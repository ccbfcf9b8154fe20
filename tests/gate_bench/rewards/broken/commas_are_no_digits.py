import re


def gsm_reward(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        m = re.search(r"####\s*(-?\d+(?:\.\d+)?)\s*$", completion[0]["content"])
        out.append(1.0 if m and float(m.group(1)) == float(gold) else 0.0)
    return out
