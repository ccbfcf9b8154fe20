import json
import re


def tool_name_reward(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        want = sorted(call["name"] for call in json.loads(gold))
        blocks = re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)
        try:
            got = sorted(json.loads(block)["name"] for block in blocks)
        except (ValueError, KeyError, TypeError):
            scores.append(0.0)
            continue
        closed = text.count("<tool_call>") == len(blocks)
        scores.append(1.0 if got == want and closed and text.strip() else 0.0)
    return scores
