import json


def json_match(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        try:
            found = json.loads(completion[0]["content"])
        except ValueError:
            scores.append(0.0)
            continue
        wanted = json.loads(gold)
        same = isinstance(found, dict) and found == wanted and type(found.get("age")) is int
        scores.append(1.0 if same else 0.0)
    return scores
