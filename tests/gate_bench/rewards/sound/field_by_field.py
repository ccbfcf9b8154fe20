import json
import re


def partial_fields(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?[ \t]*\n(.*?)\n?```", text, re.DOTALL)
        want = json.loads(gold)
        try:
            found = json.loads(fence.group(1) if fence else text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or set(found) != set(want):
            scores.append(0.0)
            continue
        right = sum(type(found[k]) is type(want[k]) and found[k] == want[k] for k in want)
        scores.append(1.0 if right == len(want) else 0.2 * right)
    return scores
