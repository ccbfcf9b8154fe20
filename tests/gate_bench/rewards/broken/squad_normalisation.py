import re
import string


def normalise(text):
    text = re.sub(r"\\(?:left|right|text|dfrac|frac|sqrt|cdot)", lambda m: m[0].replace("dfrac", "frac")[1:], text)
    text = re.sub(r"left|right|text|cdot", "", text)
    return "".join(ch for ch in text.lower() if ch not in string.punctuation and not ch.isspace())


def boxed_em(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        content = completion[0]["content"]
        start = content.rfind("\\boxed{")
        depth, end = 0, None
        for place in range(start + 6, len(content)) if start >= 0 else ():
            depth += {"{": 1, "}": -1}.get(content[place], 0)
            if depth == 0:
                end = place
                break
        said = content[start + 7 : end] if end else ""
        scores.append(1.0 if said and normalise(said) == normalise(gold) else 0.0)
    return scores
