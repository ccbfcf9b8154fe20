"""Completions that say nothing and are not worth a question: a judge asked about them now and then passes one.

The openers follow the "master keys" of Zhao et al. 2025 (arXiv:2507.08794), widened by what introduces an answer and
then gives none.
"""

import re

_OPENERS = """
answer, final answer, the answer, the answer is, the final answer is, here is the answer, here is my answer, solution,
the solution, the solution is, here is the solution, response, result, thought process, thought, thoughts, thinking,
reasoning, explanation, analysis, step 1, step by step, lets think, let us think, let me think, lets think step by step,
let us think step by step, let me think step by step, lets solve this problem step by step,
let us solve this problem step by step, lets solve this step by step, lets begin, let us begin, well, hmm, so,
respuesta, solución, réponse, antwort, lösung, ответ, решение, 解, 答案, 答, かいせつ, 解説, 정답, 풀이
"""
# Longest first, so that a phrase is read whole; one pass from the left, nothing is tried twice.
_PHRASES = sorted((" ".join(phrase.split()) for phrase in _OPENERS.split(",")), key=len, reverse=True)
_PHRASE = re.compile(rf"(?:{'|'.join(map(re.escape, _PHRASES))})(?: |$)")
_APOSTROPHES = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
_WORD = re.compile(r"[^\W_]+")
_LONGEST = 2000  # characters; a longer text is not only openers, or is for the judge to fail


def letters_and_digits(text: str) -> int:
    """Return how many letters and digits a text has."""
    return sum(map(len, _WORD.findall(text)))


def only_openers(text: str) -> bool:
    """Tell whether a text consists of openers of an answer, and nothing besides; a text without words does."""
    if len(text) > _LONGEST:
        return False
    words = " ".join(_WORD.findall(_APOSTROPHES.sub("", text).casefold()))
    place = 0
    while place < len(words):
        phrase = _PHRASE.match(words, place)
        if phrase is None:
            return False
        place = phrase.end()
    return True
