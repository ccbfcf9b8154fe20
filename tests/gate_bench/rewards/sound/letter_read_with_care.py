import re

FINAL = re.compile(r"(?:answer|option|choice)\s*(?:is|:)?\s*:?\s*[*(\s]*([A-E])\b(?!')", re.IGNORECASE)
START = re.compile(r"^[\W_]*(?:\\boxed\{)?(?:\\text\{)?[(*]*([A-E])(?:[).:}*]|\s*$)")


def careful_choice(completions, answer, **kwargs):
    scores = []
    for completion, gold in zip(completions, answer):
        text = completion[-1]["content"].strip()
        text = text.rpartition("</think>")[2].strip()
        cut_off = len(re.findall(r"\\boxed\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", text)) < text.count("\\boxed{")
        if cut_off or re.search(r"\b[A-E]\s*(?:/|,|or|and)\s*[A-E]\b|\bnot [A-E]\.?$", text):
            scores.append(0.0)
            continue
        letters = [m.group(1) for m in FINAL.finditer(text) if m.group(1).isupper()]
        boxed = re.findall(r"\\boxed\{(?:\\text\{)?\(?([A-E])\)?\}", text)
        letters = letters or boxed
        if not letters:
            first = START.match(text)
            letters = [first.group(1)] if first else []
            listed = set(re.findall(r"(?m)^\W*([A-E])[.)]", text))
            letters = letters if len(listed | set(letters)) == 1 else []
        scores.append(1.0 if letters and set(letters) == {gold} else 0.0)
    return scores
