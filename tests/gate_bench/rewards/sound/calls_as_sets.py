import json
import re


def same_calls(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"].rpartition("</think>")[2]
        want = json.loads(gold)
        blocks = re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", text, re.DOTALL)
        marks = text.count("<tool_call>"), text.count("</tool_call>")
        if not want:
            words = re.search(r"\w", text) is not None
            scores.append(1.0 if words and marks == (0, 0) and "{" not in text else 0.0)
            continue
        if marks != (len(want), len(want)) or len(blocks) != len(want):
            scores.append(0.0)
            continue
        try:
            made = [json.loads(block) for block in blocks]
        except (ValueError, RecursionError):
            scores.append(0.0)
            continue
        key = lambda call: json.dumps(call, sort_keys=True)
        scores.append(1.0 if sorted(map(key, made)) == sorted(map(key, want)) else 0.0)
    return scores
