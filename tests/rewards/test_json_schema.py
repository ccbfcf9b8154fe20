"""`json_schema`: a document is paid where the specification accepts it, and a reason says why where it does not."""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards import schemas
from llm_finetuning.rewards.json_schema import POLICIES, WORDS, JsonSchema

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).parent / "schema_cases.jsonl"
HANDED = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases")) / "struct_cases.jsonl"
LIMIT_S = 2.0  # CPU seconds for one completion, however hostile

ONE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def judged(text: Any, schema: Any, **options: Any) -> tuple[float | None, str]:
    """Return the value and the reason of one completion whose schema stands in a column."""
    told: dict[str, list[Any]] = {}
    (value,) = JsonSchema(**options)(completions=[text], schema=[schema], log_extra=told.__setitem__)
    return value, told["json_schema_reason"][0]


def as_option(text: str, schema: Any) -> float | None:
    """Return the value under a schema in the options; None where that is refused."""
    try:
        reward = JsonSchema(schema=schema)
    except ValueError:
        return None
    return reward(completions=[text])[0]


def read_cases(path: Path) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for case in cases:
        if "repeat" in case:
            opening, times, closing, again = case["repeat"]
            case["text"] = opening * times + closing * again
    return [case for case in cases if case.get("type", "schema") == "schema"]


def disagreements(path: Path) -> list[tuple[Any, ...]]:
    """Return the cases of a file that come out otherwise than expected, in any way a schema or completion is given."""
    found = []
    for case in read_cases(path):
        text, schema = case["text"], case["schema"]
        expected = None if case["expected"] is None else float(case["expected"])
        values = (
            judged(text, schema)[0],
            judged(text, json.dumps(schema))[0],
            judged([{"role": "assistant", "content": text}], schema)[0],
            as_option(text, schema),
        )
        if any(value != expected for value in values):
            found.append((schema, text[:200], expected, values))
    return found


def test_own_cases() -> None:
    """Nine hundred cases by kind: right, wrong, and schemas that are none."""
    assert disagreements(OWN) == []


@pytest.mark.skipif(not HANDED.is_file(), reason=f"{HANDED} is not there; set FINETUNE_CASES")
def test_handed_cases() -> None:
    """The project's cases, gathered from failures of other validators."""
    assert disagreements(HANDED) == []


@pytest.mark.parametrize(
    ("text", "schema", "options", "expected"),
    [
        ('{"a": 1}', ONE, {}, (1.0, "valid")),
        ('{"a": "1"}', ONE, {}, (0.0, "invalid")),
        ("", ONE, {}, (0.0, "empty")),
        (None, ONE, {}, (0.0, "empty")),
        ([], ONE, {}, (0.0, "empty")),
        ("a", ONE, {}, (0.0, "not_json")),
        ('{"a":1} {"a":1}', ONE, {}, (0.0, "trailing_text")),
        ('{"a":1,"a":1}', ONE, {}, (0.0, "duplicate_key")),
        ("<think>x", ONE, {}, (0.0, "reasoning_unclosed")),
        ('<think>{"a":1}</think>', ONE, {}, (0.0, "empty")),
        ('```json\n{"a":1}\n```', ONE, {"fence": False}, (0.0, "not_json")),
        ('So <answer>{"a":1}</answer>', ONE, {"extract": "answer_tag"}, (1.0, "valid")),
        ('<answer>```json\n{"a":1}\n```</answer>', ONE, {"extract": "answer_tag"}, (1.0, "valid")),
        ('<answer>```json\n{"a":1}\n```</answer>', ONE, {"extract": "answer_tag", "fence": False}, (0.0, "not_json")),
        ('{"a":1}', ONE, {"extract": "answer_tag"}, (0.0, "no_answer")),
        ('<answer>{"a":1}', ONE, {"extract": "answer_tag"}, (0.0, "unclosed")),
        ('<answer>{"a":1}</answer><answer>{"a":2}</answer>', ONE, {"extract": "answer_tag"}, (0.0, "conflicting")),
        ('<think><answer>{"a":1}</answer>', ONE, {"extract": "answer_tag"}, (0.0, "reasoning_unclosed")),
        ('See:\n```json\n{"a":1}\n```\nDone.', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('```\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('1. so\n   ```json\n   {"a":1}\n   ```', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('```json\n{"a":1}\n```\n```json\n{"a": 1}\n```', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('```json\n{"a":1}\n```\n```json\n{"a":2}\n```', ONE, {"extract": "last_fence"}, (0.0, "conflicting")),
        ('```json\n{"a":true}\n```\n```json\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (0.0, "conflicting")),
        ('```json\n{"a"}\n```\n```json\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (0.0, "conflicting")),
        ('```sh\nls\n```\n```json\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('```json\n{"a":1}\n```\n```sh\nls\n```', ONE, {"extract": "last_fence"}, (1.0, "valid")),
        ('````json\n{"a":1}\n```\n````', ONE, {"extract": "last_fence"}, (0.0, "trailing_text")),
        ('```json\n{"a":1}\n```\n```json\n{"a":', ONE, {"extract": "last_fence"}, (0.0, "unclosed")),
        ('{"a":1}', ONE, {"extract": "last_fence"}, (0.0, "no_answer")),
        ('```py\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (0.0, "no_answer")),
        ('<think>\n```json\n{"a":1}\n```', ONE, {"extract": "last_fence"}, (0.0, "reasoning_unclosed")),
        ('<think>\n```json\n{"a":1}\n```\n</think>', ONE, {"extract": "last_fence"}, (0.0, "no_answer")),
        ("1", None, {}, (None, "schema_unreadable")),
        ("1", float("nan"), {}, (None, "schema_unreadable")),
        ("1", "", {}, (None, "schema_unreadable")),
        ("1", '{"type":"integer","type":"integer"}', {}, (None, "schema_unreadable")),
        ("1", '```json\n{"type":"integer"}\n```', {}, (None, "schema_unreadable")),
        ("1", {"const": {1, 2}}, {}, (None, "schema_unreadable")),
        ("1", {"const": float("inf")}, {}, (None, "schema_unreadable")),
        ("1", {"type": "intger"}, {}, (None, "schema_unreadable")),
        ("", {"type": "intger"}, {}, (None, "schema_unreadable")),
        ("1", {"pattern": "(?<y>a)\\k<y>"}, {}, (None, "schema_unreadable")),
        ("1", {"$ref": "file:///etc/hostname"}, {}, (None, "schema_remote")),
        ("1", {"type": "object", "minLength": None}, {}, (None, "schema_padded")),
        ("1", '{"properties": {"a": {}, "b": null}}', {}, (None, "schema_padded")),
        ("1", {"type": ["string", "integer"], "const": None}, {}, (None, "schema_padded")),
        ("null", {"type": ["string", "null"], "const": None}, {}, (1.0, "valid")),
        ("1", {"type": "intger", "title": None}, {}, (None, "schema_unreadable")),
    ],
)
def test_reason(text: Any, schema: Any, options: dict[str, Any], expected: tuple[float | None, str]) -> None:
    """Every verdict says why, in one word that can be counted; only a bad schema abstains."""
    assert expected == judged(text, schema, **options)
    assert JsonSchema(**options).explain(text, schema).partition(":")[0] == expected[1]


def test_pattern_with_look_around_is_bounded() -> None:
    """Where a pattern has to backtrack, a text beyond the limit does not match; shorter ones are decided."""
    schema = {"pattern": "^(a|a|(?=b)a)*$"}

    assert judged('"' + "a" * 10 + '"', schema)[0] == 1.0
    assert judged('"' + "a" * 2000 + '"', {"pattern": r"^(a+)\1$"})[0] == 1.0
    assert judged('"' + "a" * 40 + 'c"', schema)[0] == 0.0


def test_explanation_of_many_alternatives_is_short() -> None:
    """Listing what fails in each of many alternatives is not tried; a small document is explained."""
    tree = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}]}
    wide = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "null"}}]}

    assert JsonSchema(schema=tree).explain("[" * 100 + "1" + "]" * 100).endswith("too many to list")
    assert JsonSchema(schema=tree).explain("[[1]]").startswith("invalid: at $: [[1]] is not valid under any")
    assert JsonSchema(schema=wide).explain("[" + ",".join(["1"] * 200_000) + "]").endswith("too many to list")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"schema": {"properties": {"a": {"type": "strng"}}}},
            r"schema: at \$\.properties\.a\.type: 'strng' is not one",
        ),
        ({"schema": {"type": ["string", "nul"]}}, r"at \$\.type\[1\]: 'nul' is not one of"),
        ({"schema": {"required": "a"}}, r"at \$\.required: 'a' is not of type 'array'; correct it"),
        ({"schema": {"items": {"pattern": "a{"}}}, r"at \$\.items\.pattern: .* simplify the pattern"),
        ({"schema": {"items": {"$ref": "#/$defs/x"}}}, r"at \$\.items\.\$ref: .*correct the reference"),
        ({"schema": {"items": {"$ref": "#x"}}}, r"at \$\.items\.\$ref: .*correct the reference"),
        (
            {"schema": {"items": {"$ref": "http://127.0.0.1:9/x"}}},
            r"at \$\.items\.\$ref: .*'http://127.0.0.1:9/x'; nothing",
        ),
        (
            {"schema": {"anyOf": [{"$ref": "../x.json#/a"}]}},
            r"at \$\.anyOf\[0\]\.\$ref: .*'x.json'; nothing is fetched",
        ),
        (
            {"schema": {"$schema": "http://example.com/s"}},
            r"at \$\.\$schema: 'http://example.com/s' names no known draft",
        ),
        (
            {"schema": {"properties": {"a b": {"minLength": None}}}},
            r"at \$\.properties\['a b'\]\.minLength: null, as table",
        ),
        ({"schema": {"$schema": "http://["}}, r"schema: at \$"),
        ({"schema": 5}, "schema: a schema is a mapping, true or false, not a number"),
        ({"schema": "schema.json"}, r"schema: the schema is not strict JSON \(not_json\)"),
        ({"schema": {"const": {1, 2}}}, r"cannot be written as JSON \(set is no JSON\)"),
        ({"schema_file": "not-there.json"}, r"schema_file not-there\.json: cannot be read \(No such file"),
        ({"schema": True, "schema_file": "x.json"}, "schema and schema_file: both are given; leave one out"),
        ({"extract": "hole"}, "extract: 'hole' is not one of whole, answer_tag, last_fence"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    """Told when the brief is read: what, where in the schema, how to mend it, in one line."""
    with pytest.raises(ValueError, match=words) as refusal:
        JsonSchema(**options)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_schema_from_a_file(tmp_path: Path) -> None:
    """The file is read once, as strictly as a document, and is announced to those who make its digest."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(ONE), "utf-8")

    assert JsonSchema(schema_file=str(path))(completions=['{"a": 1}', "{}"]) == [1.0, 0.0]
    assert JsonSchema.file_options == ("schema_file",)
    for content in (b"\xff", b"{", b'{"type": "strng"}'):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="schema_file"):
            JsonSchema(schema_file=str(path))


def test_a_missing_column_is_no_score() -> None:
    """A reward that needs the schema column says so instead of paying nothing."""
    with pytest.raises(KeyError, match="rules"):
        JsonSchema(schema_column="rules")(completions=["1"], schema=[True])


def test_each_row_has_its_own_schema() -> None:
    """Mappings, JSON text and booleans may stand in one column; table readers' arrays are lists."""
    numpy = pytest.importorskip("numpy")
    array = {"enum": numpy.array(["1", "2"], dtype=object), "minLength": numpy.int64(1)}
    cells = [{"type": "integer"}, '{"type": "string"}', True, False, array, {"type": "integer"}]

    assert JsonSchema()(completions=["1", "1", "1", "1", '"1"', '"1"'], schema=cells) == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(("one", "other"), [({"const": 1}, {"const": True}), ({"const": 0}, {"const": 0.5})])
def test_schemas_alike_to_python_stay_apart(one: Any, other: Any) -> None:
    """1 and true are one key to a dictionary and two constants to a schema."""
    texts = [json.dumps(one["const"]), json.dumps(other["const"])]

    assert JsonSchema()(completions=texts * 2, schema=[one, one, other, other]) == [1.0, 0.0, 0.0, 1.0]


def test_nothing_is_fetched() -> None:
    """A reference to a listening server is refused without a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"$id": address, "$ref": "other.json"}, {"$schema": address}):
            assert judged("1", schema)[0] is None
            assert as_option("1", schema) is None
        with pytest.raises(TimeoutError):
            server.accept()


def test_explanation_names_place_and_rule() -> None:
    """The first rule that is broken, for a person; a bad schema and unreadable text are explained too."""
    reward = JsonSchema(schema={"properties": {"b": {"items": {"minimum": 3}}}})

    assert (
        reward.explain('{"b": [5, 2]}')
        == "invalid: at $.b[1]: 2 is less than the minimum of 3 (rule $.properties.b.items.minimum)"
    )
    assert reward.explain('{"b": [5]}') == "valid"
    assert reward.explain('{"b": [5') == "not_json: it is not JSON"
    assert JsonSchema().explain("1", {"type": "x"}).startswith("schema_unreadable: at $.type")


def test_every_code_has_its_words() -> None:
    """Each code that reading can give is explained to people, and the reference lists all codes."""
    reference = (ROOT / "skills/grpo-rlvr-training/references/structured-rewards.md").read_text("utf-8")
    codes = {*WORDS, "valid", "invalid", "schema_unreadable", "schema_remote", "schema_padded"}

    assert {code for code in codes if f"`{code}`" not in reference} == set()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
WORDS_NEAR = st.lists(
    st.sampled_from(
        [
            *("<think>", "</think>", "<answer>", "</answer>", "```json\n", "\n```\n", "```", '{"a":1}', '{"a":', "1"),
            *("}", "[", "]", "null", '"', "\\", " ", "\n", "\ud800", "\x00", "NaN", "1e999"),
        ]
    ),
    max_size=16,
).map("".join)
KEYWORDS = st.sampled_from(
    [
        *(
            "$ref",
            "$schema",
            "$id",
            "$anchor",
            "$dynamicRef",
            "$dynamicAnchor",
            "$recursiveRef",
            "$defs",
            "$vocabulary",
        ),
        *("type", "const", "enum", "pattern", "format", "multipleOf", "minimum", "exclusiveMaximum", "minLength"),
        *("items", "prefixItems", "contains", "minContains", "uniqueItems", "unevaluatedItems", "additionalItems"),
        *("properties", "patternProperties", "additionalProperties", "propertyNames", "required", "dependentSchemas"),
        *("dependencies", "allOf", "anyOf", "oneOf", "not", "if", "then", "contentEncoding", "definitions", "id"),
    ]
)
ARGUMENTS = JSON_VALUES | st.sampled_from(
    [
        *("#", "#/$defs/a", "#a", "a", "http://a/b#c", "file:///x", "urn:a:b", "string", "(a", "(?=a)b", "email"),
        *(f"http://json-schema.org/draft-0{n}/schema#" for n in (3, 4, 6, 7)),
        *(float("inf"), 10**400, 1e300, 1e-300, -1, 0),
    ]
)
ANY_SCHEMA = (
    JSON_VALUES
    | st.sampled_from([ONE, True, False, {"const": 1}, {"pattern": "^(?=a)b"}, {"items": {"$ref": "#"}}])
    | st.recursive(
        st.dictionaries(KEYWORDS, ARGUMENTS, max_size=3),
        lambda inner: st.dictionaries(KEYWORDS, inner | st.lists(inner, max_size=2), max_size=3),
        max_leaves=5,
    )
)


@given(text=st.text() | WORDS_NEAR, schema=ANY_SCHEMA, policy=st.sampled_from(sorted(POLICIES)))
def test_any_text_gives_a_value_in_range_or_an_abstention(text: str, schema: Any, policy: str) -> None:
    """No completion and no schema makes the reward raise, in text or in chat form."""
    value, reason = judged(text, schema, extract=policy)

    assert value in (0.0, 1.0, None)
    assert (value is None) == reason.startswith("schema_")
    assert judged([{"role": "assistant", "content": text}], schema, extract=policy) == (value, reason)
    assert JsonSchema(extract=policy).explain(text, schema).partition(":")[0] == reason


@given(value=JSON_VALUES, other=JSON_VALUES)
def test_any_value_meets_its_own_constant(value: Any, other: Any) -> None:
    """What Python writes as JSON is valid under `true`, is its own constant, and is no other's."""
    text = json.dumps(value)

    assert judged(text, schema=True)[0] == 1.0
    assert judged(text, {"const": value})[0] == 1.0
    assert judged(text, json.dumps({"enum": [value]}))[0] == 1.0
    assert judged(text, {"not": {"const": value}})[0] == 0.0
    same = jsonschema.Draft202012Validator({"const": other}).is_valid(value)
    assert judged(text, {"const": other})[0] == float(same)


SMALL = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "a", "ab", "é"])
    | st.sampled_from([0.5, 1.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
COUNTS = st.integers(0, 2)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "additionalProperties"), inner),
            **dict.fromkeys(("propertyNames", "unevaluatedProperties", "unevaluatedItems"), inner),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
            **dict.fromkeys(("properties", "dependentSchemas", "patternProperties"), named),
        },
    )


LEAVES = st.booleans() | st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
        "const": SMALL,
        "enum": st.lists(SMALL, max_size=3),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "pattern": st.sampled_from(["a", "^a*$", "b$"]),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 2)),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), COUNTS),
    },
)
SCHEMAS = st.recursive(LEAVES, keywords, max_leaves=6)


@given(schema=SCHEMAS, value=SMALL)
def test_the_verdict_is_that_of_the_specification(schema: Any, value: Any) -> None:
    """Another implementation of draft 2020-12, jsonschema, decides alike where numbers are small."""
    if schemas._contradicts_null(schema):
        return
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)

    assert judged(json.dumps(value), schema) == ((1.0, "valid") if expected else (0.0, "invalid"))


def test_scores_follow_their_completions() -> None:
    """Permuting or splitting a batch permutes or splits its scores, and judging again changes none."""
    rows = read_cases(OWN)
    random.Random(3).shuffle(rows)
    texts, cells = [row["text"] for row in rows], [row["schema"] for row in rows]
    together = JsonSchema()(completions=texts, schema=cells)

    assert together == JsonSchema()(completions=texts, schema=cells)
    assert together[::-1] == JsonSchema()(completions=texts[::-1], schema=cells[::-1])
    assert together[:100] == JsonSchema()(completions=texts[:100], schema=cells[:100])


def test_equal_pairs_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch each pair of schema and text is judged one time; other schemas judge the same text anew."""
    asked: list[Any] = []
    decide = schemas.Schema.accepts
    monkeypatch.setattr(schemas.Schema, "accepts", lambda self, value: asked.append(value) or decide(self, value))
    cells = [{"type": "integer"}, '{"type": "integer"}', {"type": "string"}]

    assert JsonSchema()(completions=["1"] * 6, schema=cells * 2) == [1.0, 1.0, 0.0] * 2
    assert len(asked) <= 3


HOSTILE: dict[str, tuple[str, Any]] = {
    "brackets": ("[" * 100_000 + "]" * 100_000, {"type": "array"}),
    "open brackets": ("[" * 1_000_000, True),
    "deep, recursive schema": ("[" * 50_000 + "]" * 50_000, {"type": "array", "items": {"$ref": "#"}}),
    "200 deep, branching": (
        "[" * 199 + '"x"' + "]" * 199,
        {
            "anyOf": [
                {"items": {"$ref": "#"}, "type": "array"},
                {"items": {"$ref": "#"}, "type": "array"},
                {"type": "null"},
            ]
        },
    ),
    "200 deep, all of": ("[" * 199 + '"x"' + "]" * 199, {"allOf": [{"items": {"$ref": "#"}}] * 2, "type": "array"}),
    "200 deep, unevaluated": (
        "[" * 199 + '"x"' + "]" * 199,
        {
            "anyOf": [{"prefixItems": [{"$ref": "#"}]}, {"contains": {"$ref": "#"}}],
            "unevaluatedItems": False,
            "type": "array",
        },
    ),
    "nested repeats": ('"' + "a" * 40 + '!"', {"pattern": "(a+)+$"}),
    "nested repeats, long": ('"' + "a" * 1_000_000 + '!"', {"pattern": "^(a|aa)+$"}),
    "look-ahead": ('"' + "a" * 5_000 + '!"', {"pattern": r"^(?=a)(a+)+$"}),
    "back-reference": ('"' + "a" * 5_000 + '!"', {"pattern": r"^(a*)*\1b$"}),
    "hostile key": ('{"' + "a" * 40 + '!":1}', {"patternProperties": {"(a+)+$": False}, "additionalProperties": False}),
    "hostile regex in the text": ('"' + "(?=" * 300_000 + '"', {"format": "regex"}),
    "long e-mail": ('"' + "a" * 1_000_000 + '@"', {"format": "email"}),
    "long host name": ('"' + "a." * 500_000 + '"', {"format": "hostname"}),
    "distinct numbers": ("[" + ",".join(map(str, range(150_000))) + ",0]", {"uniqueItems": True}),
    "distinct objects": ("[" + ",".join(f'{{"a":{n}}}' for n in range(80_000)) + ',{"a":0}]', {"uniqueItems": True}),
    "many fractions": ("[" + ",".join(["1e-399"] * 140_000) + "]", {"items": {"multipleOf": 0.1}}),
    "many keys": ("{" + ",".join(f'"k{n}":1' for n in range(90_000)) + "}", {"additionalProperties": False}),
    "think tags": ("<think>" * 140_000, True),
    "closed think tags": ("<think></think>" * 66_000, True),
    "fences": ("```json\n{}\n```\n" * 60_000 + "x", True),
    "answer tags": ("<answer>" * 120_000, True),
    "quotes": ('"' * 1_000_000, True),
    "backslashes": ("\\" * 1_000_000, True),
    "spaces after a fence": ("```" + " " * 1_000_000 + "`", True),
    "nulls": ("\0" * 1_000_000, True),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_completion_takes_long(name: str, policy: str) -> None:
    """Each text is judged within the limit, and none of them is paid where the whole is the document."""
    text, schema = HOSTILE[name]
    reward = JsonSchema(extract=policy, schema=schema)
    begun = time.process_time()
    (value,) = reward(completions=[text])
    explained = reward.explain(text)

    assert time.process_time() - begun < LIMIT_S
    assert value == 0.0 or policy == "last_fence"
    assert len(explained) < 1000


def test_threads_are_served_alike() -> None:
    """Off the main thread the verdicts are the same."""
    rows = read_cases(OWN)
    texts, cells = [row["text"] for row in rows], [row["schema"] for row in rows]
    expected = [None if row["expected"] is None else float(row["expected"]) for row in rows]
    found: list[list[float | None]] = []
    threads = [
        threading.Thread(target=lambda: found.append(JsonSchema()(completions=texts, schema=cells))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 4


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc for the resident size")
def test_memory_stays_flat_over_twenty_thousand_calls() -> None:
    """Kept schemas are bounded, whether they are given as mappings or as text."""
    reward = JsonSchema()

    def calls(begin: int, end: int) -> None:
        for n in range(begin, end):
            schema = {"properties": {f"k{n}": {"pattern": f"^a{n}[a-z]+$"}}}
            reward(completions=[f'{{"k{n}": "a{n}b"}}'] * 2, schema=[schema, json.dumps(schema)])

    def resident_mib() -> float:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096 / 2**20

    calls(0, 5_000)
    before = resident_mib()
    calls(5_000, 20_000)

    assert resident_mib() - before < 8


def test_import_is_quick() -> None:
    """The reward costs under 0.15 s of CPU and loads jsonschema only to word the fault of a schema."""
    code = (
        "import sys, time; t = time.process_time(); from llm_finetuning.rewards.json_schema import JsonSchema as J; "
        "J(schema={'type': 'integer'})(completions=['1']); s = time.process_time() - t; "
        "print(s, 'jsonschema' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True, timeout=60
    )
    seconds, heavy = run.stdout.split()

    assert float(seconds) < 0.15
    assert heavy == "False"
