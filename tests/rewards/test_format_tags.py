"""`format_tags`: every wanted element once, in order, closed, with content; nothing that only looks like it."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.contract import after_reasoning
from llm_finetuning.rewards.format_tags import FormatTags

GOOD = "<think>\n2+2\nmakes 4\n</think>\n<answer>4</answer>"


def judged(text: Any, *, prompt: Any = "What is 2+2?", **options: Any) -> tuple[float | None, str]:
    said: dict[str, list[str]] = {}
    (value,) = FormatTags(**options)(completions=[text], prompts=[prompt], log_extra=said.__setitem__)
    return value, said["format_tags_reason"][0]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        " \n" + GOOD + "\n",
        "<think>two and two</think><answer>4</answer>",
        "<think>if a < b and b > c, then</think><answer>x < 3</answer>",
        "<think>2+2=4</think><answer>4</answer>",
        "<think>The answer is here, in the final line</think><answer>4</answer>",
        "<think>我们</think><answer>四</answer>",
        "<think>see <b>this</b> and <thinker></think><answer>4</answer>",
        "<think>one two</think><answer> <\n</answer>",
        "<think>one two</think><answer>\N{EMPTY SET}</answer>",
        "<think>one two</think><answer>the final text</answer>",
        "<think>one two</think><answer>**7**</answer>",
    ],
    ids=range(12),
)
def test_well_formed_is_paid(text: str) -> None:
    """One line or many, white space around the elements, other markup inside them, any script."""
    assert judged(text) == (1.0, "well_formed")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing"),
        ("4", "missing"),
        ("<think>one two</think>4", "missing"),
        ("<answer>4</answer>", "missing"),
        ("<think>one two<answer>4</answer>", "unclosed"),
        ("<think>one two", "unclosed"),
        ("<think>one two</think><answer>4", "unclosed"),
        ("<think>one two</think><answer>4</answ", "unclosed"),
        ("one two</think><answer>4</answer>", "unopened"),
        ("<answer>4</answer><think>one two</think>", "out_of_order"),
        ("<think>one two<answer>4</answer></think>", "nested"),
        ("<think>one <answer>two</think>4</answer>", "nested"),
        ("</think>one two<think><answer>4</answer>", "nested"),
        (GOOD + "<answer>4</answer>", "repeated"),
        (GOOD + "</answer>", "repeated"),
        ("<think>" + GOOD, "repeated"),
        (GOOD.replace("2+2", "the <answer> tag"), "repeated"),
        ("<Think>one two</Think><answer>4</answer>", "misspelt_tag"),
        ("<think >one two</think><answer>4</answer>", "misspelt_tag"),
        ("<think>one two</ think><answer>4</answer>", "misspelt_tag"),
        ("<think>one two</think><answer type='int'>4</answer>", "misspelt_tag"),
        (GOOD.replace("makes 4", "<ANSWER>5</ANSWER>"), "misspelt_tag"),
        (GOOD.replace("makes 4", "<answer/>"), "misspelt_tag"),
        ("Sure! " + GOOD, "text_before"),
        (GOOD + " I hope this helps.", "text_outside"),
        (GOOD.replace("</think>", "</think>So"), "text_outside"),
        (GOOD + "\N{ZERO WIDTH SPACE}", "text_outside"),
    ],
)
def test_another_shape_is_not_paid(text: str, reason: str) -> None:
    """Missing, cut off, doubled, swapped, nested, misspelt, or with words around it: 0 with its own reason."""
    assert judged(text) == (0.0, reason)


@pytest.mark.parametrize(
    ("thought", "answer", "reason"),
    [
        ("", "4", "empty"),
        (" \n\t", "4", "empty"),
        ("...", "4", "empty"),
        ("\N{ZERO WIDTH SPACE}", "4", "empty"),
        ("=", "4", "empty"),
        ("a", "4", "too_little"),
        ("Okay.", "4", "too_little"),
        ("hm hm, hm!", "4", "too_little"),
        ("think", "4", "placeholder"),
        ("your reasoning process here", "4", "placeholder"),
        ("[Thinking]", "4", "placeholder"),
        ("one two", "", "empty"),
        ("one two", " ", "empty"),
        ("one two", "-", "empty"),
        ("one two", "...", "empty"),
        ("one two", "?!", "empty"),
        ("one two", "answer", "placeholder"),
        ("one two", "[Your final answer here]", "placeholder"),
        ("one two", "TODO", "placeholder"),
        ("one two", r"\boxed{}", "placeholder"),
    ],
)
def test_elements_without_content_are_not_paid(thought: str, answer: str, reason: str) -> None:
    """Nothing is earned with white space, punctuation, a slot left unfilled, or a thought of one word."""
    assert judged(f"<think>{thought}</think><answer>{answer}</answer>") == (0.0, reason)


@pytest.mark.parametrize(
    ("text", "prompt", "options", "expected"),
    [
        ("one two</think><answer>4</answer>", "2+2?", {"opened_by_template": "think"}, "well_formed"),
        ("\none two\n</think>\n<answer>4</answer>", "2+2?\n<think>\n", {}, "well_formed"),
        (
            "one two</think><answer>4</answer>",
            [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>"}],
            {},
            "well_formed",
        ),
        ("one two</think><answer>4</answer>", [{"role": "user", "content": "Begin with <think>"}], {}, "unopened"),
        ("one two</think><answer>4</answer>", "Use <think> first.", {}, "unopened"),
        ("one two</think><answer>4</answer>", [], {}, "unopened"),
        (
            "one two</think><answer>4</answer>",
            [{"role": "assistant", "content": "<think>"}, {"role": "user", "content": "Go on."}],
            {},
            "unopened",
        ),
        (GOOD, "2+2?<think>", {}, "repeated"),
        ("</think><answer>4</answer>", "2+2?<think>", {}, "empty"),
        ("one two<answer>4</answer>", "2+2?<think>", {}, "unclosed"),
    ],
)
def test_template_that_opens_the_reasoning(text: str, prompt: Any, options: dict[str, Any], expected: str) -> None:
    """Said in the brief, or seen at the prompt's end: then the completion begins inside the first element."""
    assert judged(text, prompt=prompt, **options)[1] == expected


@pytest.mark.parametrize(
    ("text", "tags", "expected"),
    [
        (GOOD + " I hope this helps.", ["think", "answer"], "well_formed"),
        (GOOD.replace("</think>", "</think>So"), ["think", "answer"], "well_formed"),
        ("Sure! " + GOOD, ["think", "answer"], "text_before"),
        (GOOD + "<answer>", ["think", "answer"], "repeated"),
        ("<think>one two</think>\n4", ["think"], "well_formed"),
        ("<think>one two</think>\n", ["think"], "no_answer"),
        ("<think>one two</think> ...", ["think"], "no_answer"),
        ("<plan>x</plan><answer>4</answer> and </think>", ["plan", "answer"], "answer_in_reasoning"),
        ("<plan>x</plan><answer>4</answer> and <think>", ["plan", "answer"], "reasoning_unclosed"),
        ("<think>one two</think> 4 </thinking>", ["think"], "answer_in_reasoning"),
    ],
)
def test_text_outside(text: str, tags: list[str], expected: str) -> None:
    """Text between and after is allowed where the brief says so; the answer still follows all reasoning."""
    assert judged(text, tags=tags, text_outside=True)[1] == expected


def test_other_elements() -> None:
    """Any names, any number; only the names of reasoning ask for more than one word."""
    options = {"tags": ["name", "age"]}
    assert judged("<name>Ada</name>\n<age>36</age>", **options)[0] == 1.0
    assert judged("<name>name</name>\n<age>36</age>", **options) == (0.0, "placeholder")
    assert judged("<age>36</age>\n<name>Ada</name>", **options) == (0.0, "out_of_order")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tags": []}, "is not a list of names"),
        ({"tags": "think"}, "is not a list of names"),
        ({"tags": ["<think>"]}, "without brackets"),
        ({"tags": [1]}, "1 is not a tag's name"),
        ({"tags": ["a", "A"]}, "twice"),
        ({"tags": ["think"]}, "no place is left for the answer"),
        ({"tags": ["answer", "think"]}, "no place is left for the answer"),
        ({"opened_by_template": "answer"}, "is not the first of tags"),
        ({"text_outside": "no"}, "neither true nor false"),
    ],
)
def test_unsound_options_are_refused(options: dict[str, Any], words: str) -> None:
    """Tags that no completion with an answer could have are said when the brief is read."""
    with pytest.raises(ValueError, match=words):
        FormatTags(**options)


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "<Answer>",
            "<answer/>",
            "<thinking>",
            "a b",
            "4",
            " ",
            "...",
            "<",
        ]
    ),
    max_size=9,
).map("".join)
TEXTS = PIECES | st.text(max_size=40)
REWARDS = [FormatTags(), FormatTags(opened_by_template="think"), FormatTags(tags=["think"], text_outside=True)]


@pytest.mark.parametrize("reward", REWARDS, ids=["strict", "opened", "outside"])
@given(texts=st.lists(TEXTS | st.just(GOOD), max_size=5))
def test_any_text_is_judged_by_itself(reward: FormatTags, texts: list[str]) -> None:
    """0 or 1, never None or an error; the same as a chat, in another order, alone."""
    values = reward(completions=texts, prompts=["p"] * len(texts))
    chats: list[Any] = [[{"role": "assistant", "content": text}] for text in texts]

    assert set(values) <= {0.0, 1.0}
    assert values == reward(completions=chats, prompts=[[{"role": "user", "content": "p"}]] * len(texts))
    assert values == reward(completions=texts[::-1])[::-1]
    assert values == [value for text in texts for value in reward(completions=[text])]


@given(text=PIECES)
def test_what_is_paid_has_one_answer_after_its_reasoning(text: str) -> None:
    """Whatever is paid, an answer reward finds exactly one answer element in, outside of the reasoning."""
    if REWARDS[0](completions=[text]) == [1.0]:
        final = after_reasoning(text)
        assert final is not None
        assert text.count("<answer>") == final.count("<answer>") == final.count("</answer>") == 1
        assert any(mark.isalnum() for mark in final.partition("<answer>")[2].partition("</answer>")[0])


HOSTILE: dict[str, Callable[[int], str]] = {
    "openings": lambda n: "<think>" * (n // 7),
    "closings": lambda n: "</think>" * (n // 8),
    "elements": lambda n: GOOD * (n // len(GOOD)),
    "unfinished tags": lambda n: "<think" * (n // 6),
    "brackets": lambda n: "<" * n,
    "bracket and spaces": lambda n: "<" + " " * n,
    "brackets and spaces": lambda n: "< / " * (n // 4),
    "a long attribute": lambda n: "<think " + "a" * n,
    "one word": lambda n: "<think>" + "hm " * (n // 3) + "</think><answer>4</answer>",
    "slots": lambda n: "<think>" + "your answer here " * (n // 17) + "</think><answer>4</answer>",
    "punctuation": lambda n: "<think>" + "." * n + "</think><answer>4</answer>",
    "words": lambda n: "<think>" + " ".join(map(str, range(n // 7))) + "</think><answer>4</answer>",
    "spaces around": lambda n: " " * n + GOOD + " " * n,
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_megabyte_is_quick_and_leaves_no_memory(shape: str) -> None:
    """Each takes under half a second, in time that grows with the length and no faster; nothing is kept."""
    reward = FormatTags(text_outside=True)
    text = HOSTILE[shape](1_000_000)
    reward(completions=[text])
    begun = time.process_time()
    reward(completions=[text])
    taken = time.process_time() - begun
    tracemalloc.start()
    reward(completions=[text])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 0.5
    assert kept < 100_000
