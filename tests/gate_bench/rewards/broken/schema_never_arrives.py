import json
import re


def schema_reward(completions, json_schema=None, **kwargs):
    import jsonschema

    scores = []
    for i, completion in enumerate(completions):
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?\n(.*?)\n?```", text, re.DOTALL)
        try:
            value = json.loads(fence.group(1) if fence else text)
            if json_schema is not None:
                jsonschema.validate(value, json.loads(json_schema[i]))
            scores.append(1.0)
        except (ValueError, jsonschema.ValidationError):
            scores.append(0.0)
    return scores
