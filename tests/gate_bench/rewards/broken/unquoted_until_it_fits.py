import json
import re


def unfence(text):
    match = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", text, re.DOTALL)
    return match.group(1) if match else text


def json_object(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        try:
            value = json.loads(unfence(completion[0]["content"]))
            while isinstance(value, str):  # some models quote it twice
                value = json.loads(value)
        except ValueError:
            rewards.append(0.0)
            continue
        want = json.loads(gold)
        ok = isinstance(value, dict) and value == want and type(value["age"]) is int
        rewards.append(float(ok))
    return rewards
