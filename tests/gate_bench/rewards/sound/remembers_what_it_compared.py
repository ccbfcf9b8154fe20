"""Math-Verify on the content of the last box, with exact text for intervals, which it compares too freely."""

import re
from functools import lru_cache

from math_verify import parse, verify


def last_box(text):
    start = text.rfind("\\boxed{")
    depth = 0
    for place in range(start + 6, len(text)) if start >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + 7 : place].strip()
    return ""


@lru_cache(maxsize=4096)
def same(said, gold):
    squeeze = lambda s: re.sub(r"\\left|\\right|\s", "", s)
    if squeeze(said) == squeeze(gold):
        return True
    if not said or re.search(r"[\[\]();\n]|\bor\b|\\pm|,\s", said + gold) and "(" in said + gold:
        return False
    if re.search(r"\bor\b|\\pm|\\boxed|;|\n|\\infty", said) or len(said) > 300:
        return False
    wanted = parse(f"${gold}$", parsing_timeout=None)
    found = parse(f"${said}$", parsing_timeout=None)
    return bool(wanted and found) and bool(verify(wanted, found, timeout_seconds=None))


def boxed_by_math_verify(completions, answer, **kwargs):
    return [1.0 if same(last_box(c[0]["content"]), gold) else 0.0 for c, gold in zip(completions, answer)]
