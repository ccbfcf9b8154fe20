"""Golds are read for what they are, and wrong answers are wrong to every reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.probes import golds, near_miss, programs_of_tests, prompts, schema_instances

KINDS = {
    "42": ("number", "42"),
    "-1,234.5": ("number", "-1,234.5"),
    "He has 5 left.\n#### 5": ("number", "5"),
    "so $x = \\boxed{\\frac{1}{2}}$.": ("expression", "\\frac{1}{2}"),
    "<think>t</think><answer>Rome</answer>": ("text", "Rome"),
    "B": ("choice", "B"),
    "(C)": ("choice", "(C)"),
    "B) 24 hours": ("choice", "B"),
    "A cat": ("text", "A cat"),
    "5 km": ("quantity", "5 km"),
    "30%": ("quantity", "30%"),
    "(1, 2)": ("expression", "(1, 2)"),
    "": ("none", ""),
    "   ": ("none", ""),
    '{"a": 1}': ("json", '{"a": 1}'),
    '[{"name": "f", "arguments": {}}]': ("calls", '[{"name": "f", "arguments": {}}]'),
    "def f(x):\n    return x": ("code", "def f(x):\n    return x"),
    "word " * 40: ("prose", ("word " * 40).strip()),
}


@pytest.mark.parametrize(("raw", "read"), KINDS.items())
def test_kinds(raw: str, read: tuple[str, str]) -> None:
    """The kind and the answer alone, out of worked solutions too."""
    gold = golds.read_gold(raw)
    assert (gold.kind, gold.answer) == read


@given(st.integers(-(10**9), 10**9))
def test_wrong_numbers_share_nothing_with_the_gold(value: int) -> None:
    """Neither is the other's part, so that a search for the gold's digits in a wrong answer cannot succeed."""
    found = golds.wrong_answers(golds.read_gold(str(value)), [], "ABCD")
    assert found
    for wrong in found:
        assert abs(float(wrong) - value) > 100
        assert str(abs(value)) not in wrong
        assert wrong.lstrip("-") not in str(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9999, max_value=9999))
def test_near_misses_are_wrong(value: object) -> None:
    """A number changed a little is another number, as written and as read."""
    answer = str(value)
    for wrong, _ in near_miss._numbers(answer, 0.0):
        assert float(wrong) != float(answer)


@pytest.mark.parametrize(
    "tests",
    [
        ["assert f(1) == 2", "assert f([1, 2]) == 'x'"],
        "def test():\n    assert f(1) == 2\n    assert 'x' == f([1, 2])",
    ],
)
def test_a_program_that_knows_the_answers_passes(tests: object) -> None:
    """It is honest work as far as any tests can tell."""
    space: dict[str, object] = {}
    exec(str(programs_of_tests.solved(tests)), space)  # noqa: S102
    assert [space["f"](1), space["f"]([1, 2])] == [2, "x"]  # type: ignore[operator]


@pytest.mark.parametrize("tests", [["assert f(x) == 2"], ["assert f(1) < 2"], [], None, ["assert ("]])
def test_tests_that_cannot_be_answered_have_no_program(tests: object) -> None:
    """None, rather than a program that is wrong."""
    assert programs_of_tests.solved(tests) is None


def test_instances_are_valid() -> None:
    """A schema's own example passes that schema."""
    import jsonschema

    schema = {
        "type": "object",
        "required": ["name", "age", "kind", "parts", "when"],
        "properties": {
            "name": {"type": "string", "minLength": 6},
            "age": {"type": "integer", "minimum": 18},
            "kind": {"enum": ["x", "y"]},
            "parts": {"type": "array", "minItems": 2, "items": {"type": "number", "maximum": 0}},
            "when": {"type": "string", "format": "date"},
        },
    }
    jsonschema.validate(schema_instances.instance(json.dumps(schema)), schema)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("so #### 21,280", 21280.0),
        ("it is $7.50.", 7.5),
        ("it is -$7", -7.0),
        ("12 - 5 = 7.0, I think", 7.0),
        ("no number", None),
    ],
)
def test_final_number_is_read_in_every_notation(text: str, value: float | None) -> None:
    """Commas, a dollar sign and decimals do not hide a number."""
    assert golds.final_number(text) == value


@pytest.mark.parametrize(
    ("prompt", "fence", "letter"),
    [
        ("You may put it in a code fence. Write nothing else.", True, False),
        ("Reply with JSON and no code fence.", False, False),
        ("Do not use ``` around it.", False, False),
        ("Answer with one letter.", False, True),
        ("Put the letter in \\boxed{}.", False, False),
        ("Which one is right?", False, False),
    ],
)
def test_what_a_prompt_allows(prompt: str, fence: bool, letter: bool) -> None:
    """A fence is allowed where it is spoken of and not forbidden; a letter is asked for where no form is named."""
    assert (prompts.allows_fence(prompt), prompts.asks_letter(prompt)) == (fence, letter)
