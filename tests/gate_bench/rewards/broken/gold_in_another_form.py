import re


def extract_xml(text):
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1).strip() if found else ""


def extract_hash(text):
    return text.split("####")[-1].strip() if "####" in text else None


def correctness_reward_func(prompts, completions, solution, **kwargs):
    responses = [completion[0]["content"] for completion in completions]
    golds = [extract_xml(s) for s in solution]
    return [1.0 if extract_hash(r) == g else 0.0 for r, g in zip(responses, golds)]
