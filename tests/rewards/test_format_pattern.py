"""`format_pattern`: the whole final text, in linear time whatever the pattern and the text."""

import pickle
import re
import threading
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.format_pattern import FormatPattern

LINES = r"Reasoning: .+\nAnswer: \d+"


def judged(text: Any, pattern: str = LINES, **options: Any) -> tuple[float | None, str]:
    said: dict[str, list[str]] = {}
    (value,) = FormatPattern(pattern=pattern, **options)(completions=[text], log_extra=said.__setitem__)
    return value, said["format_pattern_reason"][0]


@pytest.mark.parametrize(
    ("text", "pattern", "options", "expected"),
    [
        ("Reasoning: a\nAnswer: 4", LINES, {}, "matches"),
        ("\n Reasoning: a\nb\n\nc\nAnswer: 4\n", LINES, {}, "matches"),
        ("Reasoning: a\nb\nAnswer: 4", LINES, {"dot_matches_newline": False}, "no_match"),
        ("Reasoning: a\nAnswer: 4", LINES, {"dot_matches_newline": False}, "matches"),
        ("Reasoning: a\nAnswer: 4.", LINES, {}, "no_match"),
        ("So: Reasoning: a\nAnswer: 4", LINES, {}, "no_match"),
        ("reasoning: a\nANSWER: 4", LINES, {}, "no_match"),
        ("reasoning: a\nANSWER: 4", LINES, {"ignore_case": True}, "matches"),
        ("<think>one</think>\n\nAnswer: 4", r"Answer: \d+", {}, "matches"),
        ("<think>one</think>\n\nAnswer: 4", r"Answer: \d+", {"part": "whole"}, "no_match"),
        ("<think>Answer: 4", r".*Answer: \d+", {}, "reasoning_unclosed"),
        ("<think>Answer: 4", r".*Answer: \d+", {"part": "whole"}, "matches"),
        ("<think>Answer: 4</think>", r"Answer: \d+", {}, "empty"),
        ("", "x", {}, "empty"),
        (" \n", "x", {}, "empty"),
        ("yes no", "yes|no", {}, "no_match"),
        ("no", "yes|no", {}, "matches"),
        ("a\nb", "(?m)^a$\n^b$", {}, "matches"),
        ("a\r\nb.", r"a.[.\n]b\.", {}, "matches"),
        ("<b>x</b>", r"\<b\>[\<x]\</b\>", {}, "matches"),
        ("b}}", r"b}+", {}, "matches"),
        ("ax", r"a\.", {}, "no_match"),
        ("a\rb", "a.b", {"dot_matches_newline": False}, "matches"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE}", r"\w+", {}, "no_match"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE}", r"\p{L}+", {}, "matches"),
        ("x\ud800", r"x\P{L}", {}, "matches"),
        ("x\0y", r"x.y", {}, "matches"),
        ([{"role": "assistant", "content": "Answer: 4"}], r"Answer: \d+", {}, "matches"),
    ],
)
def test_whole_text_matches(text: Any, pattern: str, options: dict[str, Any], expected: str) -> None:
    """From the first to the last character of the part, white space around it aside; a dot takes a line's end too."""
    assert judged(text, pattern, **options) == (float(expected == "matches"), expected)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", r"character 1: missing \)"),
        ("a)(b", "character 2: unbalanced parenthesis"),
        ("ab[z-a]", "character 4: bad character range z-a"),
        (r"\p{L}*(", r"character 7: missing \)"),
        ("x(?=a)", r"character 2: lookahead \(\(\?=\) cannot be matched in linear time"),
        (r"[(?=]\((?<!x)", "character 8: lookbehind"),
        (r"(a)\1", r"character 4: a backreference \(\\1\)"),
        ("(?P<q>a)(?P=q)", "character 9: a backreference"),
        ("(?>a)", "character 1: an atomic group"),
        (r"a\Z", r"has no \\Z \(leave it out\)"),
        ("a{,3}b", r"write \{0,3\}"),
        ("ab?+b", r"character 3: a possessive repetition \(\?\+\)"),
        (r"a{1,2}+b", "character 2: a possessive repetition"),
        (r"x\w{1,1000000}", "too large"),
        (r"x\w{1,100000}y", "too large"),
        ("(?x) a # why", "ends in a comment"),
        ("x\ud800", "the linear engine does not take it"),
        ("(" * 3000 + "a" + ")" * 3000, "correct it"),
        ("", "empty or blank text"),
        (".*", "empty or blank text"),
        (".+", "empty or blank text"),
        (r"(?:Answer: \d+)?", "empty or blank text"),
        (r"[\s\S]{1,80}", "empty or blank text"),
        (r"\n \n", "empty or blank text"),
        (5, "5 is not a text"),
    ],
)
def test_unusable_pattern_is_refused(pattern: Any, words: str) -> None:
    """The place in the pattern and how to mend it; what blank text could earn is no pattern either."""
    with pytest.raises(ValueError, match=f"^pattern: .*{words}"):
        FormatPattern(pattern=pattern)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"part": "all"}, "part: 'all' is not one of final, whole"),
        ({"ignore_case": "no"}, "ignore_case: 'no' is neither true nor false"),
        ({"dot_matches_newline": 0}, "dot_matches_newline: 0 is neither true nor false"),
    ],
)
def test_other_options_are_checked(options: dict[str, Any], words: str) -> None:
    """A misspelt part is not read as the whole, nor a word as true."""
    with pytest.raises(ValueError, match=words):
        FormatPattern(pattern="x", **options)


SIMPLE = st.text("ab(|)*+?.[]\\<", min_size=1, max_size=8)


@given(pattern=SIMPLE, texts=st.lists(st.text("ab<\n", max_size=6), max_size=4))
def test_agrees_with_python_on_plain_patterns(pattern: str, texts: list[str]) -> None:
    """Where both know the pattern, a value is what `re.fullmatch` says of the stripped text."""
    try:
        reward = FormatPattern(pattern=pattern)
        known = re.compile(pattern, re.DOTALL)
    except (ValueError, re.error, FutureWarning):
        return
    expected = [float(bool(text.strip() and known.fullmatch(text.strip()))) for text in texts]

    assert expected == reward(completions=texts)


@given(texts=st.lists(st.text(max_size=30) | st.just("Reasoning: x\nAnswer: 1"), max_size=5))
def test_any_text_is_judged_by_itself(texts: list[str]) -> None:
    """0 or 1, never None or an error; the same as a chat, in another order, alone."""
    reward = FormatPattern(pattern=LINES)
    values = reward(completions=texts)
    chats: list[Any] = [[{"role": "assistant", "content": text}] for text in texts]

    assert set(values) <= {0.0, 1.0}
    assert values == reward(completions=chats)
    assert values == reward(completions=texts[::-1])[::-1]
    assert values == [value for text in texts for value in reward(completions=[text])]


CATASTROPHIC = {
    "nested plus": (r"(a+)+$", "a" * 1_000_000 + "!"),
    "star of star": (r"(.*)*x", "a" * 1_000_000),
    "alternatives": (r"(?:a|a|aa)+b", "a" * 1_000_000),
    "optional run": (r"(?:a?){200}a{200}", "a" * 399 + "b" * 1_000_000),
    "many stars": (r".*.*.*.*.*.*=.*!", "a=" * 500_000),
    "words": (r"(?:\w+\s?)*:", "word " * 200_000),
    "matching": (r"(?:[^<]|<[^b])*<b>", "<a" * 500_000 + "<b>"),
}


@pytest.mark.parametrize("name", CATASTROPHIC)
def test_backtracking_patterns_are_quick(name: str) -> None:
    """A megabyte takes under half a second, on a worker thread too, and nothing of it is kept."""
    pattern, text = CATASTROPHIC[name]
    reward = FormatPattern(pattern=pattern)
    values: list[Any] = []
    thread = threading.Thread(target=lambda: values.extend(reward(completions=[text])))
    begun = time.process_time()
    thread.start()
    thread.join()
    taken = time.process_time() - begun
    tracemalloc.start()
    reward(completions=[text])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert values == [float(name == "matching")]
    assert taken < 0.5
    assert kept < 100_000


def test_reward_may_be_pickled() -> None:
    """TRL's asynchronous workers send rewards to another process; the engine's object stays behind."""
    reward = pickle.loads(pickle.dumps(FormatPattern(pattern=LINES)))  # noqa: S301  our own bytes

    assert reward(completions=["Reasoning: x\nAnswer: 1"]) == [1.0]
