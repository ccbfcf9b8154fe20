import json
import re


def final_calls(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        want = json.loads(gold)
        text = completion[0]["content"]
        blocks = re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)
        try:
            made = [json.loads(block) for block in blocks[len(blocks) - len(want) :]]
        except ValueError:
            made = None
        key = lambda call: json.dumps(call, sort_keys=True)
        closed = text.count("<tool_call>") == len(blocks)
        same = made is not None and closed and sorted(map(key, made)) == sorted(map(key, want))
        scores.append(1.0 if same and text.strip() else 0.0)
    return scores
