import re


def boxed_match(completions, answer, **kwargs):
    rewards = []
    for c, g in zip(completions, answer):
        found = re.findall(r"\\boxed\{(.*?)\}", c[0]["content"])
        said = found[-1].replace(" ", "") if found else None
        rewards.append(float(said is not None and said != "" and said == g.replace(" ", "")))
    return rewards
