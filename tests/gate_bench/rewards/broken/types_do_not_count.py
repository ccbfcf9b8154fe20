import json
import re


def plain(call):
    return call["name"], sorted((k, str(v).lower()) for k, v in call.get("arguments", {}).items())


def loose_calls(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        blocks = re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)
        if text.count("<tool_call>") != len(blocks) or not text.strip():
            scores.append(0.0)
            continue
        try:
            made = sorted(plain(json.loads(block)) for block in blocks)
            scores.append(1.0 if made == sorted(map(plain, json.loads(gold))) else 0.0)
        except (ValueError, KeyError, TypeError, AttributeError):
            scores.append(0.0)
    return scores
