import json


def objects_in(text):
    decoder, place, found = json.JSONDecoder(), 0, []
    while (place := text.find("{", place)) >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
            found.append(value)
            place = end
        except ValueError:
            place += 1
    return [value for value in found if isinstance(value, dict) and "name" in value]


def tool_reward(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        calls = sorted(json.dumps(call, sort_keys=True) for call in objects_in(text))
        want = sorted(json.dumps(call, sort_keys=True) for call in json.loads(gold))
        scores.append(
            1.0 if calls == want and text.strip() and text.count("<tool_call>") == text.count("</tool_call>") else 0.0
        )
    return scores
