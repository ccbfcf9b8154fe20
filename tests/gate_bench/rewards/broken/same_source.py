import re


def matches_reference(completions, answer, **kwargs):
    scores = []
    for completion, reference in zip(completions, answer):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        scores.append(1.0 if len(blocks) == 1 and blocks[0].split() == reference.split() else 0.0)
    return scores
