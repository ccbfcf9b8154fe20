"""How the tried rewards read a completion."""

# ruff: noqa: ANN201

import re

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def text_of(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]


def texts_of(completions):
    return [text_of(completion) for completion in completions]


def number_of(text):
    try:
        return float(text.replace(",", "").strip().rstrip("."))
    except ValueError:
        return None


def boxes_of(text):
    """Return the contents of all closed boxes, braces matched, and whether the last one is closed."""
    found, closed = [], True
    for match in re.finditer(r"\\boxed\{", text):
        depth, place = 1, match.end()
        while place < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            place += 1
        closed = depth == 0
        if closed:
            found.append(text[match.end() : place - 1].strip())
    return found, closed


def final_of(text):
    if "<think>" in text and "</think>" not in text:
        return ""
    return text.rpartition("</think>")[2]


def same(one, other):
    a, b = number_of(one), number_of(other)
    if a is not None and b is not None:
        return a == b
    return one.replace(" ", "") == other.replace(" ", "")


def once(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)
