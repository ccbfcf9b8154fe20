import re


def digits(text):
    return re.sub(r"[^\d-]", "", text)


def hash_digits(completions, answer, **kwargs):
    scores = []
    for c, gold in zip(completions, answer):
        found = re.search(r"####\s*(\$?-?[\d,]*\.?\d+)\s*$", c[0]["content"])
        scores.append(float(found is not None and digits(found.group(1)) == digits(gold)))
    return scores
