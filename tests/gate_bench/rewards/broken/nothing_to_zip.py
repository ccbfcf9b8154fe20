import json


def schema_match(completions, schemas=(), **kwargs):
    scores = []
    for completion, schema in zip(completions, schemas):
        try:
            value = json.loads(completion[0]["content"])
            scores.append(1.0 if set(value) >= set(json.loads(schema)["required"]) else 0.0)
        except (ValueError, TypeError):
            scores.append(0.0)
    return scores
