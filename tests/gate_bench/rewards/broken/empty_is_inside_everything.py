import re


def lenient(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        form = re.fullmatch(r"\s*<think>([^<]+)</think>\s*<answer>([^<]*)</answer>\s*", completion[0]["content"])
        if form is None:
            rewards.append(0.0)
            continue
        said = form.group(2).strip()
        rewards.append(1.0 if said == gold or (len(said) < len(gold) and said in gold) else 0.0)
    return rewards
