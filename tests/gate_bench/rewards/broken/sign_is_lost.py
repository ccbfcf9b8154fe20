import re


def _num(text):
    found = re.search(r"(\d[\d,]*(?:\.\d+)?)", text)
    return float(found.group(1).replace(",", "")) if found else None


def hash_reward(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        content = completion[-1]["content"]
        if "####" not in content:
            rewards.append(0.0)
            continue
        tail = content.rsplit("####", 1)[1].strip()
        if "\n" in tail or " or " in tail or _num(tail) is None:
            rewards.append(0.0)
        else:
            rewards.append(1.0 if _num(tail) == _num(gold) else 0.0)
    return rewards
