"""`read_json`: one strict JSON document with the values that were written, or a short code that says why not."""

import json
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.json_text import MAX_CHARACTERS, MAX_DEPTH, MAX_DIGITS, Document, read_json

LIMIT_S = 1.0  # CPU seconds for one text, however hostile

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NEAR_JSON = st.lists(
    st.sampled_from(
        [
            *(
                "{",
                "}",
                "[",
                "]",
                ",",
                ":",
                '"',
                "\\",
                "\\u",
                "d83d",
                "\\ude00",
                "1",
                "-",
                ".",
                "e",
                "E+9",
                "0",
                "true",
            ),
            *("null", "NaN", "Infinity", " ", "\n", "```", "```json\n", "\n```", '"a"', '"a":', "\ufeff", "\xa0"),
            *("\ud800", "9" * 401),
        ]
    ),
    max_size=24,
).map("".join)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" \t\r\n", "empty"),
        ("```\n\n```", "empty"),
        ("\xa0", "not_json"),
        ("\ufeff1", "bom"),
        ("```json\n\ufeff1\n```", "bom"),
        ("{'a': 1}", "not_json"),
        ("[1,]", "not_json"),
        ("[1", "not_json"),
        ('"a\nb"', "not_json"),
        ("1 2", "trailing_text"),
        ("{}{}", "trailing_text"),
        ("```json\n1\n``` \n2", "trailing_text"),
        ('{"a": 1, "\\u0061": 2}', "duplicate_key"),
        ('[{"b": {"a": 1, "a": 1}}]', "duplicate_key"),
        ("NaN", "not_finite"),
        ("[-Infinity]", "not_finite"),
        ("1e400", "not_finite"),
        ("-1e400", "not_finite"),
        ("9" * (MAX_DIGITS + 1), "number_too_long"),
        ("-" + "9" * (MAX_DIGITS + 1), "number_too_long"),
        ("0." + "3" * MAX_DIGITS, "number_too_long"),
        ("1e-401", "number_too_long"),
        ("1e-99999999999999999999", "number_too_long"),
        ('"\\ud800"', "lone_surrogate"),
        ('"\ud800"', "lone_surrogate"),
        ('{"\\udc00": 1}', "lone_surrogate"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "too_deep"),
        ('{"a":' * (MAX_DEPTH + 1), "too_deep"),
        ('["]]]]"' + ",[" * (MAX_DEPTH + 1), "too_deep"),
        ('["\\"]",' * (MAX_DEPTH + 1), "too_deep"),
        ('["\\\\",' + "[" * MAX_DEPTH, "too_deep"),
        ('"' + "a" * MAX_CHARACTERS + '"', "too_large"),
        ("```python\n1\n```", "fence_language"),
        ("```json\n1", "fence_unclosed"),
        ("````json\n1\n```", "fence_unclosed"),
        ("```1```", "not_json"),
        ("~~~\n1\n~~~", "not_json"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """Each fault has its code, and a refused text has no value."""
    assert read_json(text) == Document(None, problem)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n1\n", 1),
        ("-0", 0),
        ("9" * MAX_DIGITS, int("9" * MAX_DIGITS)),
        ("-" + "9" * MAX_DIGITS, -int("9" * MAX_DIGITS)),
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993.0", Decimal(2**53 + 1)),
        ("1.0000000000000000001", Decimal("1.0000000000000000001")),
        ("1e23", Decimal(10**23)),
        ("1e-400", Decimal("1e-400")),
        ("0e-999999999999", 0),
        ("1e-0000000000001", 0.1),
        ("0.30000000000000004", 0.1 + 0.2),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\x7f\u2028"', "\x7f\u2028"),
        ('{"a": 1, "A": 1}', {"a": 1, "A": 1}),
        ("```json\n[1]\n```", [1]),
        ("```\r\n[1]\r\n```\r\n", [1]),
        ("````JSON \n[1]\n  ````", [1]),
        ('["' + "[" * 1000 + '"]', ["[" * 1000]),
        ('["\\"' + "{" * 1000 + '\\\\"]', ['"' + "{" * 1000 + "\\"]),
    ],
)
def test_what_is_read(text: str, value: Any) -> None:
    """The value is the one that was written, to the last digit."""
    assert read_json(text) == Document(value)


def test_depth_is_counted_to_the_last_level() -> None:
    """Two hundred levels are read; brackets side by side are not depth."""
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH).problem is None
    assert read_json("[" + ",".join(["[]"] * 1000) + "]").problem is None


@pytest.mark.parametrize("text", ["```json\n1\n```", "```\n1\n```"])
def test_a_fence_is_taken_off_only_when_allowed(text: str) -> None:
    """Without the option a fence is prose."""
    assert read_json(text) == Document(1)
    assert read_json(text, fence=False).problem == "not_json"


@given(value=JSON_VALUES, spaced=st.booleans(), ascii_only=st.booleans())
def test_every_json_value_is_read_back(value: Any, spaced: bool, ascii_only: bool) -> None:
    """What Python writes as JSON is read as the same value, alone and in a fence."""
    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=ascii_only)
    document = read_json(text)

    assert document.problem is None
    assert json.dumps(document.value, default=float) == json.dumps(value)
    assert read_json(f"```json\n{text}\n```") == document


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return JSON text that lacks one of its characters."""
    text = json.dumps(draw(JSON_VALUES))
    place = draw(st.integers(0, len(text) - 1))
    return text[:place] + text[place + 1 :]


@given(text=st.text() | NEAR_JSON | damaged())
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing raises; what is read is what Python's own reader reads, and what that refuses is refused."""
    document = read_json(text, fence=False)
    try:
        expected = json.loads(text)
    except ValueError:
        assert document.problem is not None
    else:
        assert document.problem is not None or json.dumps(expected) == json.dumps(document.value, default=float)
    assert read_json(text).value is None or read_json(text).problem is None


@given(
    sign=st.sampled_from(["", "-"]),
    whole=st.integers(0, 10**30),
    part=st.text("0123456789", max_size=30),
    exponent=st.none() | st.integers(-200, 200),
)
def test_numbers_keep_their_value(sign: str, whole: int, part: str, exponent: int | None) -> None:
    """A number is a float only where the float's own digits are the ones that were written."""
    literal = f"{sign}{whole}" + (f".{part}" if part else "") + (f"e{exponent}" if exponent is not None else "")
    value = read_json(literal).value

    assert Decimal(literal) in (Decimal(value), Decimal(repr(value)) if isinstance(value, float) else None)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        "[" * MAX_CHARACTERS,
        '{"a":' * 200_000,
        '"' + '\\"' * 500_000,
        '"' * MAX_CHARACTERS,
        "\\" * MAX_CHARACTERS,
        "1" * MAX_CHARACTERS,
        "0." + "1" * 1_000_000,
        "1e" + "9" * 1_000_000,
        "```" + " " * 1_000_000 + "`",
        "`" * MAX_CHARACTERS,
        "```\n" + "```x\n" * 200_000,
        "```json\n" * 130_000,
        "[" + "1," * 500_000,
        "[" + ",".join(["1.00000000000000001"] * 50_000) + "]",
        "[" + ",".join(["1e-399"] * 140_000) + "]",
        "{" + ",".join(f'"{n}":{{}}' for n in range(90_000)) + "}",
        '"' + "\\ud83d\\ude00" * 80_000 + '"',
        '"' + "\\ud800" * 170_000 + '"',
        " " * MAX_CHARACTERS,
        "[" + '"[",' * 250_000,
    ],
    ids=range(21),
)
def test_no_text_takes_long(text: str) -> None:
    """Reading is linear in the length of the text."""
    begun = time.process_time()
    read_json(text)
    assert time.process_time() - begun < LIMIT_S
