import re


def tags_and_answer(completions, answer, **kwargs):
    values = []
    for completion, gold in zip(completions, answer):
        text = completion[0]["content"]
        tags = len(re.findall(r"</(?:think|answer)>", text))
        value = min(0.5 * tags, 2.0) if tags > 2 else 0.25 * tags
        found = re.fullmatch(r"\s*<think>[^<]+</think>\s*<answer>([^<]*)</answer>\s*", text)
        if found and found.group(1).strip() == gold:
            value += 1.0
        values.append(value)
    return values
