"""`tool_call`: the gold's calls are paid in every wire format, near ones are not, and a reason says why."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench_tools import OPTIONS, load_cases
from llm_finetuning.rewards.tool_call import ToolCall
from llm_finetuning.rewards.tool_calls.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).parent / "tool_cases.jsonl"
HANDED = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases")) / "struct_cases.jsonl"

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": "integer", "default": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = {"get_weather": SCHEMA, "stop": {"type": "object", "properties": {}}}
PARIS = {"name": "get_weather", "arguments": {"city": "Paris"}}
ROME = {"name": "get_weather", "arguments": {"city": "Rome"}}
STOP = {"name": "stop", "arguments": {}}


def written(*calls: dict[str, Any]) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def judged(text: Any, gold: Any, tools: Any = TOOLS, **options: Any) -> tuple[float | None, str]:
    """Return the value and the reason of one completion."""
    told: dict[str, list[Any]] = {}
    (value,) = ToolCall(**options)(completions=[text], answer=[gold], tools=[tools], log_extra=told.__setitem__)
    return value, told["tool_call_reason"][0]


def judged_case(case: dict[str, Any], text: Any = None, **options: Any) -> tuple[float | None, str]:
    named = {name: case[name] for name in OPTIONS if name in case}
    text = case["text"] if text is None else text
    return judged(text, case["calls"], case["tools"], **{"format": case["format"], **named, **options})


def disagreements(path: Path) -> list[tuple[Any, ...]]:
    """Return the cases of a file that are judged otherwise than expected; an abstention is one."""
    return [
        (case["id"], case["why"], case["expected"], judged_case(case))
        for case in load_cases(path)
        if judged_case(case)[0] != float(case["expected"])
    ]


def test_own_cases() -> None:
    """Nine hundred cases by kind, in every wire format, right and wrong."""
    assert disagreements(OWN) == []


@pytest.mark.skipif(not HANDED.is_file(), reason=f"{HANDED} is not there; set FINETUNE_CASES")
def test_handed_cases() -> None:
    """The project's cases, gathered from failures of other checkers."""
    assert disagreements(HANDED) == []


def test_auto_pays_the_right_call_in_any_format_and_no_wrong_one() -> None:
    """Without a format, a right call is found by its markers, also one in a format that the brief would not name."""
    for case in load_cases(OWN):
        value, reason = judged_case(case, format="auto")
        assert value == float(case["expected"] or case["kind"] == "other format"), (case["id"], reason)


def test_text_and_chat_are_judged_alike() -> None:
    """The same words as a chat message, whole or in parts, with the question's roles around them."""
    for case in load_cases(OWN):
        if case["text"] is None:
            continue
        plain = judged_case(case)
        whole = [{"role": "assistant", "content": case["text"]}]
        parts = [{"content": [{"type": "text", "text": case["text"]}]}, {"role": "tool", "content": written(ROME)}]
        assert plain == judged_case(case, whole), case["id"]
        assert plain == judged_case(case, parts), case["id"]


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, '{"city": "Paris"}'], ids=["object", "text"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_parsed_messages_are_read(arguments: Any, wrapped: bool) -> None:
    """What TRL parses into `tool_calls` is judged as the text was, whatever the format is named."""
    call = {"name": "get_weather", "arguments": arguments}
    item = {"type": "function", "function": call} if wrapped else call
    for name in FORMATS:
        message = {"role": "assistant", "content": "I look.", "tool_calls": [item]}
        assert judged([message], [PARIS], format=name) == (1.0, "correct")
        assert judged([message], [ROME], format=name) == (0.0, "wrong_arguments")
        assert judged([message], [], format=name) == (0.0, "extra_call")


@pytest.mark.parametrize(
    ("messages", "gold", "expected"),
    [
        ([{"content": "", "tool_calls": []}], [PARIS], (0.0, "no_call")),
        ([{"content": "No.", "tool_calls": None}], [], (1.0, "correct")),
        ([{"content": written(ROME), "tool_calls": [PARIS]}], [PARIS], (0.0, "mixed_formats")),
        ([{"content": "<think>so", "tool_calls": [PARIS]}], [PARIS], (0.0, "reasoning_unclosed")),
        ([{"content": "", "tool_calls": "get_weather"}], [PARIS], (0.0, "malformed")),
        ([{"content": "", "tool_calls": [None]}], [PARIS], (0.0, "malformed")),
        (
            [{"content": "", "tool_calls": [{"function": {"name": "stop", "arguments": "{"}}]}],
            [STOP],
            (0.0, "malformed"),
        ),
        (
            [{"content": "", "tool_calls": [{"name": "stop", "arguments": {"x": float("nan")}}]}],
            [STOP],
            (0.0, "malformed"),
        ),
        ([{"content": "", "tool_calls": [{"name": "stop", "arguments": {"x": {1}}}]}], [STOP], (0.0, "malformed")),
        (
            [{"tool_calls": [PARIS]}, {"role": "tool", "content": "20"}, {"content": "It is 20 degrees."}],
            [PARIS],
            (1.0, "correct"),
        ),
        (
            [{"tool_calls": [PARIS]}, {"role": "tool", "content": "?"}, {"tool_calls": [PARIS]}],
            [PARIS],
            (0.0, "extra_call"),
        ),
        ([{"tool_calls": [ROME]}, {"role": "tool"}, {"tool_calls": [PARIS]}], [PARIS, ROME], (1.0, "correct")),
        ([{"content": "Hm."}, {"role": "user", "tool_calls": [PARIS]}], [PARIS], (0.0, "no_call")),
        ([], [PARIS], (0.0, "no_call")),
        ([], [], (0.0, "empty")),
        ([None, "x"], [], (0.0, "empty")),
    ],
)
def test_messages(messages: list[Any], gold: Any, expected: tuple[float, str]) -> None:
    """The calls of all the model's messages count, and what a tool answered does not."""
    assert expected == judged(messages, gold)


def test_untyped_values_of_a_parsed_message() -> None:
    """TRL keeps the values of Qwen3-Coder's format as text where it knows no tools: the schema types them here too."""
    message = {"tool_calls": [{"name": "get_weather", "arguments": {"city": "5", "days": "3"}}]}
    gold = [{"name": "get_weather", "arguments": {"city": "5", "days": 3}}]

    assert judged([message], gold, format="qwen3coder") == (1.0, "correct")
    assert judged([message], gold, format="hermes") == (0.0, "invalid_arguments")


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        (written(PARIS), [PARIS], (1.0, "correct")),
        ("It is sunny.", [], (1.0, "correct")),
        (written(ROME), [PARIS], (0.0, "wrong_arguments")),
        (written({"name": "get_weather", "arguments": {"city": 5}}), [PARIS], (0.0, "invalid_arguments")),
        (written(STOP), [PARIS], (0.0, "wrong_tool")),
        (written({"name": "halt", "arguments": {}}), [STOP], (0.0, "wrong_tool")),
        (written(PARIS), [PARIS, ROME], (0.0, "missing_call")),
        (written(PARIS, ROME), [PARIS], (0.0, "extra_call")),
        (written(PARIS), [], (0.0, "extra_call")),
        ("It is sunny.", [PARIS], (0.0, "no_call")),
        (None, [PARIS], (0.0, "no_call")),
        (" <|im_end|>", [], (0.0, "empty")),
        ("<tool_call>{}</tool_call>", [PARIS], (0.0, "malformed")),
        (written(PARIS)[:-1], [PARIS], (0.0, "unclosed")),
        ("[TOOL_CALLS]stop[ARGS]{", [STOP], (0.0, "unclosed")),
        ("<think>" + written(PARIS), [PARIS], (0.0, "reasoning_unclosed")),
        (written(ROME) + "<think>x</think>" + written(PARIS), [PARIS], (0.0, "misplaced_call")),
        (written(PARIS) + "[TOOL_CALLS]", [PARIS], (0.0, "mixed_formats")),
    ],
)
def test_reason(text: Any, gold: Any, expected: tuple[float, str]) -> None:
    """Every verdict says why, in one word that can be counted."""
    assert expected == judged(text, gold)


def test_reasons_of_options() -> None:
    """Order, prose and values without types have their own words."""
    xml = "<tool_call><function=get_weather><parameter=city>5</parameter></function></tool_call>"
    assert judged(xml, [PARIS], format="qwen3coder") == (0.0, "wrong_arguments")
    assert judged(written(ROME, PARIS), [PARIS, ROME], ordered=True) == (0.0, "wrong_order")
    assert judged("Sure. " + written(PARIS), [PARIS], text_around=False) == (0.0, "text_around")


OPENAI_TOOL = {"type": "function", "function": {"name": "get_weather", "description": "w", "parameters": SCHEMA}}
FLAT_TOOL = {"name": "get_weather", "parameters": SCHEMA}
PADDED_SCHEMA = {
    "type": "object",
    "required": ["city"],
    "enum": None,
    "additionalProperties": False,
    "properties": {
        "city": {"type": "string", "default": None, "enum": None, "items": None, "const": None},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c", "properties": None},
        "days": {"type": "integer", "default": 1, "enum": None},
        "on": None,
        "free": {"enum": None, "examples": None},
    },
}
BFCL_SCHEMA = {
    "type": "dict",
    "properties": {"city": {"type": "string"}, "days": {"type": "float", "default": 1}, "any": {"type": "any"}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    "tools",
    [
        TOOLS,
        [OPENAI_TOOL],
        [FLAT_TOOL],
        [{"name": "get_weather", "input_schema": SCHEMA}],
        OPENAI_TOOL,
        json.dumps([OPENAI_TOOL]),
        [json.dumps(FLAT_TOOL)],
        {"get_weather": PADDED_SCHEMA, "other": None},
        [{"type": "function", "name": None, "function": {"name": "get_weather", "parameters": PADDED_SCHEMA}}],
        [{"name": "get_weather", "parameters": BFCL_SCHEMA}],
    ],
    ids=["mapping", "openai", "flat", "anthropic", "one", "text", "texts", "padded", "padded-openai", "bfcl"],
)
def test_shapes_of_tools(tools: Any) -> None:
    """Each usual shape is one set of tools: the call, its default and a wrong type are judged alike."""
    spelt_out = {"name": "get_weather", "arguments": {"city": "Paris", "days": 1}}
    for gold in ([PARIS], json.dumps([PARIS])):
        assert judged(written(PARIS), gold, tools) == (1.0, "correct")
        assert judged(written(spelt_out), gold, tools) == (1.0, "correct")
        assert judged(written({"name": "get_weather", "arguments": {"city": 5}}), gold, tools)[1] == "invalid_arguments"
    assert ToolCall(tools=tools)(completions=[written(PARIS)], answer=[[PARIS]]) == [1.0]


@pytest.mark.parametrize(
    "tools",
    [
        None,
        "",
        "not JSON",
        5,
        [5],
        [[PARIS], None],
        {"get_weather": {"type": "strin"}},
        {"get_weather": {"$ref": "http://127.0.0.1:9/x"}},
        {"get_weather": {"$ref": "#/$defs/none"}},
        {"get_weather": 5},
        [FLAT_TOOL, FLAT_TOOL],
        {"get_weather": {"default": float("nan")}},
        {"get_weather": {"default": {1}}},
    ],
    ids=str,
)
def test_unreadable_tools_abstain(tools: Any) -> None:
    """A row whose tools are no tools is not the model's fault: whatever it wrote, no score."""
    assert judged(written(PARIS), [PARIS], tools) == (None, "tools_unreadable")
    assert judged("", [], tools) == (None, "tools_unreadable")


@pytest.mark.parametrize(
    "gold",
    [
        None,
        "",
        "get_weather",
        5,
        "{",
        [None],
        ["x"],
        [{"name": "get_weather"}],
        [{"name": "fly", "arguments": {}}],
        [{"name": "get_weather", "arguments": {"city": 5}}],
        [{"name": "get_weather", "arguments": "{"}],
        [{"name": "get_weather", "arguments": {"city": float("inf")}}],
        [{"arguments": {"city": "Paris"}}],
        [{**PARIS, "any_of": {"city": "Rome"}}],
        [{**PARIS, "any_of": {"city": []}}],
        [{**PARIS, "any_of": {"city": [5]}}],
        [{**PARIS, "any_of": {"town": ["Rome"]}}],
        [STOP] * 257,
    ],
    ids=lambda gold: str(gold)[:60],
)
def test_unreadable_gold_abstains(gold: Any) -> None:
    """A gold that its own tools refuse is the data set's fault: no score, never zero."""
    assert judged(written(PARIS), gold) == (None, "gold_unreadable")


@pytest.mark.parametrize(
    "gold",
    [
        [PARIS],
        PARIS,
        (PARIS,),
        json.dumps(PARIS),
        [json.dumps(PARIS)],
        [{"name": "get_weather", "arguments": '{"city": "Paris"}'}],
        [{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}],
        {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": PARIS}]},
        [
            {
                "name": "get_weather",
                "arguments": {"city": "Paris", "unit": None, "days": None, "q": None},
                "any_of": None,
            }
        ],
        [{"name": "get_weather", "arguments": {"city": "Paris"}, "any_of": {"city": None}, "function": None}],
        [{"name": None, "function": {"name": "get_weather", "arguments": {"city": "Paris"}, "parameters": None}}],
    ],
    ids=lambda gold: json.dumps(gold)[:60],
)
def test_shapes_of_gold(gold: Any) -> None:
    """Each usual shape is the same gold; nulls that a table put in place of missing keys are not there."""
    assert judged(written(PARIS), gold) == (1.0, "correct")
    assert judged(written(ROME), gold) == (0.0, "wrong_arguments")


def test_padded_nulls_are_told_from_null_by_the_schema() -> None:
    """Null stays where the schema lets it be, at any depth; elsewhere, and in objects it describes, it was padded."""
    inner = {"type": "object", "properties": {"street": {"type": "string"}, "flat": {"type": ["string", "null"]}}}
    schema = {
        "properties": {
            "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "b": {"enum": ["x", "y"]},
            "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "home": {"$ref": "#/$defs/home"},
            "free": {"type": "object"},
            "rows": {"type": "array", "items": inner},
        },
        "$defs": {"home": inner},
    }
    home = {"street": None, "flat": None, "x": None}
    gold = {
        "a": None,
        "b": None,
        "c": None,
        "home": home,
        "free": {"k": None},
        "rows": [{"street": "s", "flat": "1", "q": None}],
    }
    right = {"a": None, "home": {"flat": None}, "free": {"k": None}, "rows": [{"street": "s", "flat": "1"}]}
    tools = {"move": schema}
    assert judged(written({"name": "move", "arguments": right}), [{"name": "move", "arguments": gold}], tools)[0] == 1.0
    for name in right:
        less = {key: value for key, value in right.items() if key != name}
        assert (
            judged(written({"name": "move", "arguments": less}), [{"name": "move", "arguments": gold}], tools)[0] == 0.0
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "herms"}, "format"),
        ({"strings": "loose"}, "strings"),
        ({"unordered": "math.sum.xs"}, "unordered"),
        ({"unordered": ["xs"]}, "unordered"),
        ({"tools": [5]}, "tools"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    """Told when the brief is read, not in the first step."""
    with pytest.raises(ValueError, match=words):
        ToolCall(**options)


def test_a_missing_column_is_an_error_and_no_score() -> None:
    """The data set lacks the column: no completion could ever be judged."""
    with pytest.raises(KeyError, match="tools"):
        ToolCall()(completions=["x"], answer=[[PARIS]])
    with pytest.raises(KeyError, match="calls"):
        ToolCall(answer_column="calls")(completions=["x"], answer=[[PARIS]], tools=[TOOLS])


def test_scores_follow_their_completions() -> None:
    """Permuting or splitting a batch permutes or splits its scores."""
    cases = [case for case in load_cases(OWN) if not any(name in case for name in OPTIONS)]
    random.Random(3).shuffle(cases)

    def scores(rows: list[dict[str, Any]]) -> list[float | None]:
        return ToolCall()(
            completions=[row["text"] for row in rows],
            answer=[row["calls"] for row in rows],
            tools=[row["tools"] for row in rows],
        )

    together = scores(cases)
    assert {0.0, 1.0} <= set(together)
    assert together[::-1] == scores(cases[::-1])
    assert together[:100] + together[100:] == scores(cases[:100]) + scores(cases[100:])
    assert [value for value in together for _ in range(2)] == scores([case for case in cases for _ in range(2)])


def test_import_is_quick() -> None:
    """The reward costs under 0.15 s of CPU to import and make, without jsonschema or a model library."""
    code = (
        "import sys, time; t = time.process_time(); import llm_finetuning.rewards.tool_call as m; m.ToolCall(); "
        "print(time.process_time() - t, any(n in sys.modules for n in ('jsonschema', 'torch', 'transformers')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True, timeout=60
    )
    seconds, heavy = run.stdout.split()

    assert float(seconds) < 0.15
    assert heavy == "False"
