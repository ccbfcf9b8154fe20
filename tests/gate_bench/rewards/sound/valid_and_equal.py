import json
import re


def equal(completions, answer, **kwargs):
    out = []
    for c, gold in zip(completions, answer):
        text = c[0]["content"].strip()
        fence = re.fullmatch(r"```(?:json)?[ \t]*\n(.*?)\n?```", text, re.DOTALL)
        try:
            value = json.loads(fence.group(1) if fence else text)
        except (ValueError, RecursionError):
            value = None
        wanted = json.loads(gold)
        out.append(1.0 if isinstance(value, dict) and value == wanted and type(value["age"]) is int else 0.0)
    return out
