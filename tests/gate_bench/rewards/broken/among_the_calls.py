import json
import re


def calls_made(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        made = []
        for block in re.findall(r"<tool_call>(.*?)</tool_call>", completion[0]["content"], re.DOTALL):
            try:
                made.append(json.loads(block))
            except ValueError:
                pass
        scores.append(1.0 if all(call in made for call in json.loads(gold)) else 0.0)
    return scores
