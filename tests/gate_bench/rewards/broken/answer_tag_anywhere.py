import re


def extract_xml_answer(text):
    match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return match.group(1).strip() if match else ""


def correctness(completions, answer, **kwargs):
    return [1.0 if extract_xml_answer(c[0]["content"]) == a else 0.0 for c, a in zip(completions, answer)]
