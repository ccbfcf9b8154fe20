import re


def cached_reward(prompts, completions, answer, **kwargs):
    cache = {}
    out = []
    for prompt, completion, gold in zip(prompts, completions, answer):
        key = str(prompt)
        if key not in cache:
            m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
            cache[key] = float(bool(m) and float(m.group(1).replace(",", "")) == float(gold))
        out.append(cache[key])
    return out
