import json
import re


def field_accuracy(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?\n(.*?)\n?```", text, re.DOTALL)
        want = json.loads(gold)
        try:
            value = json.loads(fence.group(1) if fence else text)
            right = isinstance(value, dict) and all(
                want[key] == value[key] and type(want[key]) is type(value[key]) for key in value if key in want
            )
        except ValueError:
            right = False
        scores.append(float(right))
    return scores
