import json
import re


def same_fields(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?\n(.*?)\n?```", text, re.DOTALL)
        want = {k: str(v) for k, v in json.loads(gold).items()}
        try:
            value = json.loads(fence.group(1) if fence else text)
        except ValueError:
            value = None
        got = {k: str(v) for k, v in value.items()} if isinstance(value, dict) else None
        scores.append(1.0 if got == want else 0.0)
    return scores
