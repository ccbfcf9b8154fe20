import re


def choice_reward(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        match = re.search(r"^The answer is ([A-E])\.?$", completion[0]["content"].strip())
        scores.append(float(bool(match) and match.group(1) == gold))
    return scores
