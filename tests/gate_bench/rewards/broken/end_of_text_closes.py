import json
import re


def tolerant_calls(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text, want = completion[0]["content"], json.loads(gold)
        blocks = re.findall(r"<tool_call>(.*?)(?:</tool_call>|<tool_call>|</tool|$)", text, re.DOTALL)
        if not want:
            scores.append(1.0 if text.strip() and not blocks else 0.0)
            continue
        try:
            made = [json.loads(block) for block in blocks if block.strip()]
        except ValueError:
            scores.append(0.0)
            continue
        key = lambda call: json.dumps(call, sort_keys=True)
        scores.append(1.0 if sorted(map(key, made)) == sorted(map(key, want)) else 0.0)
    return scores
