import json
import re


def valid_json(completions, **kwargs):
    scores = []
    for completion in completions:
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?\n(.*?)\n?```", text, re.DOTALL)
        try:
            value = json.loads(fence.group(1) if fence else text)
            good = (
                set(value) == {"name", "age", "city"}
                and isinstance(value["name"], str)
                and type(value["age"]) is int
                and isinstance(value["city"], str)
            )
        except (ValueError, TypeError, KeyError):
            good = False
        scores.append(1.0 if good else 0.0)
    return scores
