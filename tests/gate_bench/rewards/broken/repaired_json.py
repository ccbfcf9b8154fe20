import json
import re


def loads(text):
    for ending in ("", "}", '"}', '"}]'):
        try:
            return json.loads(text + ending)
        except ValueError:
            continue
    return None


def repaired(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = re.sub(r"^```(?:json)?\s*|\s*```$", "", completion[0]["content"].strip())
        want, found = json.loads(gold), loads(text)
        same = isinstance(found, dict) and found == want and type(found["age"]) is int
        scores.append(1.0 if same else 0.0)
    return scores
