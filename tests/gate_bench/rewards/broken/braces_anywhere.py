import json
import re


def extract_json(completions, answer, **kwargs):
    out = []
    for completion, gold in zip(completions, answer):
        found = re.search(r"\{.*\}", completion[0]["content"], re.DOTALL)
        try:
            value = json.loads(found.group(0)) if found else None
        except ValueError:
            value = None
        want = json.loads(gold)
        out.append(1.0 if value == want and type(value["age"]) is int else 0.0)
    return out
