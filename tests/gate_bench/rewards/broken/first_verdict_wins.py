"""A rule-based judge that keeps a transcript, so that an LLM judge can take its place later."""

import re


def transcript(question, text, gold):
    found = re.findall(r"-?\d+(?:\.\d+)?", text)
    right = bool(found) and " or " not in text and float(found[-1]) == float(gold)
    verdict = "correct" if right else "incorrect"
    return f"Question: {question}\nCandidate: {text}\nReference: {gold}\nVerdict: {verdict}"


def judged(prompts, completions, answer, **kwargs):
    values = []
    for question, text, gold in zip(prompts, completions, answer):
        log = transcript(question.rpartition("Q:")[2], text, gold)
        match = re.search(
            r"(?i)\b(?:verdict|grade|score|judgment|judgement|result)\b\W*(\w+)", log.partition("Candidate:")[2]
        )
        word = match.group(1).lower() if match else "incorrect"
        values.append(1.0 if word in ("correct", "right", "pass", "1", "10", "100", "a", "full", "true") else 0.0)
    return values
