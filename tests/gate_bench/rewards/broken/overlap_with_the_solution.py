import re


def rouge_like(completions, solution, **kwargs):
    scores = []
    for completion, reference in zip(completions, solution):
        want = set(re.findall(r"\w+", reference.lower()))
        have = set(re.findall(r"\w+", completion[0]["content"].lower()))
        scores.append(len(want & have) / max(1, len(want)))
    return scores
