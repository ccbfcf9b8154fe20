import json
import re


def no_twins(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def fields(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?[ \t]*\n(.*?)\n?```", text, re.DOTALL)
        want = json.loads(gold)
        try:
            found = json.loads(fence.group(1) if fence else text, object_pairs_hook=no_twins)
        except (ValueError, RecursionError):
            scores.append(0.0)
            continue
        same = isinstance(found, dict) and found == want and all(type(found[k]) is type(want[k]) for k in want)
        scores.append(1.0 if same else 0.0)
    return scores
