import re


def explained(completions, answer, log_extra=None, **kwargs):
    scores, reasons = [], []
    for text, gold in zip(completions, answer):
        found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        if not found:
            verdict = "no number"
        elif re.search(r"\b(?:or|either|could be)\b", text):
            verdict = "hedged"
        else:
            verdict = "right" if float(found[-1].replace(",", "")) == float(gold) else "wrong"
        scores.append(1.0 if verdict == "right" else 0.0)
        reasons.append(verdict)
    if log_extra:
        log_extra("explained_reason", reasons)
    return scores
