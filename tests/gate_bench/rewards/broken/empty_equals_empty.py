import re

PATTERN = re.compile(r"[Tt]he answer is:? \$?(-?[\d,.]*\d)")


def extract(text):
    found = PATTERN.search(text)
    return found.group(1).replace(",", "") if found else ""


def answer_match(completions, solution, **kwargs):
    texts = [c[0]["content"] for c in completions]
    return [float(extract(t) == extract(s)) for t, s in zip(texts, solution)]
