import re


def reasoning_steps_reward(completions, **kwargs):
    """Clear step-by-step reasoning, as in the R1 reproductions."""
    pattern = r"(Step \d+|^\d+\.|\n-|First|Second|Next|Finally|\n|step)"
    return [min(1.0, len(re.findall(pattern, c[0]["content"])) / 2) for c in completions]


def correctness(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
        out.append(1.0 if m and float(m.group(1).replace(",", "")) == float(gold) else 0.0)
    return out
