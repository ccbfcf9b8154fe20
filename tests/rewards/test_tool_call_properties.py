"""`tool_call` on what no table holds: random calls in every wire format, any text, hostile texts, many calls."""

import copy
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from llm_finetuning.rewards.tool_call import ToolCall
from llm_finetuning.rewards.tool_calls.deepseek import CALL, CALL_END, CALLS, CALLS_END, SEPARATOR
from llm_finetuning.rewards.tool_calls.formats import FORMATS, MARKERS, TURN_ENDS
from llm_finetuning.rewards.tool_calls.pythonic import read as read_pythonic

LIMIT_S = 1.0  # CPU seconds for one completion of 1 MB, however hostile
MB = 1_000_000

Calls = Sequence[dict[str, Any]]


def xml(calls: Calls) -> str:
    def value(thing: Any) -> str:
        return thing if isinstance(thing, str) else json.dumps(thing, ensure_ascii=False)

    return "\n".join(
        f"<tool_call>\n<function={call['name']}>\n"
        + "".join(f"<parameter={key}>\n{value(thing)}\n</parameter>\n" for key, thing in call["arguments"].items())
        + "</function>\n</tool_call>"
        for call in calls
    )


def pythonic(calls: Calls) -> str:
    def arguments(call: dict[str, Any]) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in call["arguments"].items())

    return "[" + ", ".join(f"{call['name']}({arguments(call)})" for call in calls) + "]"


def hermes(calls: Calls) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def openai(calls: Calls) -> str:
    items = [{"function": {"name": call["name"], "arguments": json.dumps(call["arguments"])}} for call in calls]
    return json.dumps({"role": "assistant", "content": None, "tool_calls": items}, ensure_ascii=False)


def llama(calls: Calls) -> str:
    objects = [json.dumps({"name": call["name"], "parameters": call["arguments"]}) for call in calls]
    return "<|python_tag|>" + "; ".join(objects) + "<|eom_id|>"


def mistral(calls: Calls) -> str:
    return "".join(f"[TOOL_CALLS]{call['name']}[ARGS]{json.dumps(call['arguments'])}" for call in calls) + "</s>"


def deepseek(calls: Calls) -> str:
    inner = "".join(f"{CALL}{call['name']}{SEPARATOR}{json.dumps(call['arguments'])}{CALL_END}" for call in calls)
    return f"{CALLS}{inner}{CALLS_END}"


def deepseek_v3(calls: Calls) -> str:
    bodies = [f"{call['name']}\n```json\n{json.dumps(call['arguments'])}\n```" for call in calls]
    return CALLS + "\n".join(f"{CALL}function{SEPARATOR}{body}{CALL_END}" for body in bodies) + CALLS_END


def harmony(calls: Calls) -> str:
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call['name']} <|constrain|>json<|message|>"
        f"{json.dumps(call['arguments'])}<|call|>"
        for call in calls
    )


WRITERS: dict[str, tuple[str, Callable[[Calls], str]]] = {
    "hermes": ("hermes", hermes),
    "qwen3": ("qwen3", lambda calls: f"<think>\nhm\n</think>\n\n{hermes(calls)}<|im_end|>"),
    "qwen3coder": ("qwen3coder", xml),
    "openai": ("openai", openai),
    "llama3": ("llama3", llama),
    "llama3 without tag": ("llama3", lambda calls: llama(calls).removeprefix("<|python_tag|>")),
    "pythonic": ("pythonic", pythonic),
    "mistral v3": ("mistral", lambda calls: f"[TOOL_CALLS] {json.dumps(calls)}</s>"),
    "mistral v11": ("mistral", mistral),
    "deepseek v3.1": ("deepseek", deepseek),
    "deepseek v3": ("deepseek", deepseek_v3),
    "harmony": ("harmony", harmony),
}

NAMES = st.sampled_from(["get", "f", "math.sum", "a_b", "Get", "überall", "x1"])
KEYS = st.sampled_from(["city", "a", "b", "n", "from", "übrig"])
PIECES = st.sampled_from([*MARKERS, *TURN_ENDS, '"', "'", "\\", "{", "]", "\n", "```", "True", "é", "\\u0041", " "])
STRINGS = (
    st.text(max_size=8)
    | st.lists(PIECES | st.text(max_size=2), max_size=6).map("".join).filter(lambda text: "</parameter>" not in text)
    | st.sampled_from(["5", "true", "null", "[1]", ""])
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | STRINGS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
CALLS_ST = st.lists(
    st.fixed_dictionaries({"name": NAMES, "arguments": st.dictionaries(KEYS, VALUES, max_size=3)}),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call["name"],
)


def type_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def tools_of(calls: Calls) -> dict[str, Any]:
    """Return tools whose schemas say the type of each argument and no more."""
    return {
        call["name"]: {"properties": {key: {"type": type_of(value)} for key, value in call["arguments"].items()}}
        for call in calls
    }


def changed(value: Any, draw: random.Random) -> Any:
    """Return another value: one deep change of it, or one of another type."""
    if isinstance(value, list) and value and draw.random() < 0.5:
        place = draw.randrange(len(value))
        return [*value[:place], changed(value[place], draw), *value[place + 1 :]]
    if isinstance(value, dict) and value and draw.random() < 0.5:
        key = draw.choice(sorted(value))
        return {**value, key: changed(value[key], draw)}
    others: list[Any] = {
        "string": [f"{value} ", f"x{value}", [value], None],
        "boolean": [not value, int(value)] if isinstance(value, bool) else [],
        "null": [0, False, ""],
        "number": [value + 1, -value - 1, [value], True] if type_of(value) == "number" else [],
        "array": [[*value, 0], {"0": 1}] if isinstance(value, list) else [],
        "object": [{**value, "zz": None}, [1]] if isinstance(value, dict) else [],
    }[type_of(value)]
    other = draw.choice(others)
    # A double cannot hold one more, or one less, of a large number.
    return [value] if type_of(value) == "number" and other == value and other is not True else other


def mutated(calls: Calls, draw: random.Random) -> list[dict[str, Any]]:
    """Return calls with one fault."""
    wrong = copy.deepcopy(list(calls))
    call = draw.choice(wrong)
    kind = draw.choice(["name", "value", "value", "missing", "extra", "call more", "call less", "call twice"])
    keys = sorted(call["arguments"])
    if kind == "name":
        call["name"] = draw.choice([call["name"] + "x", call["name"].swapcase(), "none." + call["name"]])
    elif kind == "value" and keys:
        key = draw.choice(keys)
        call["arguments"][key] = changed(call["arguments"][key], draw)
    elif kind == "missing" and keys:
        del call["arguments"][draw.choice(keys)]
    elif kind == "call less":
        wrong.remove(call)
    elif kind == "call more":
        wrong.append({"name": "more", "arguments": {}})
    elif kind == "call twice":
        wrong.append(copy.deepcopy(call))
    else:
        call["arguments"]["extra"] = 1
    return wrong


@pytest.mark.parametrize("name", WRITERS)
@given(calls=CALLS_ST, seed=st.integers(0, 2**32))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_written_calls_are_paid_and_changed_ones_are_not(name: str, calls: Calls, seed: int) -> None:
    """The gold in any order and in any format, by name or found, pays 1.0; with one change it pays 0.0."""
    named, write = WRITERS[name]
    draw = random.Random(seed)
    tools = tools_of(calls)
    shuffled = draw.sample(list(calls), len(calls))
    wrong = mutated(calls, draw)
    right_text, wrong_text = write(shuffled), write(wrong) if wrong else "Done."
    for format_name in (named, "auto"):
        reward = ToolCall(format=format_name)
        assert reward(completions=[right_text], answer=[calls], tools=[tools]) == [1.0]
        told: dict[str, list[Any]] = {}
        assume(wrong_text != write(calls))  # the XML of "5" and 5 is one text
        values = reward(completions=[wrong_text], answer=[calls], tools=[tools], log_extra=told.__setitem__)
        assert values == [0.0], told
        assert reward(completions=[right_text], answer=[[]], tools=[tools]) == [0.0]


@given(calls=CALLS_ST, seed=st.integers(0, 2**32))
def test_parsed_calls_are_judged_as_written_ones(calls: Calls, seed: int) -> None:
    """The message that a trainer parsed is paid where the text is."""
    wrong = mutated(calls, random.Random(seed))
    for made, value in ((list(calls), 1.0), (wrong, 0.0)):
        texts: list[Any] = [hermes(made) or "Done.", [{"role": "assistant", "content": "", "tool_calls": made}]]
        first, second = ToolCall()(completions=texts, answer=[calls] * 2, tools=[tools_of(calls)] * 2)
        assert first == second == value


SOUP = st.lists(
    st.sampled_from(
        [*MARKERS, *TURN_ENDS, "<think>", "</think>", '{"name": "f", "arguments": {}}', "f()", '"name": "f"']
    )
    | st.text(alphabet="{}[]()\"'\\,:= \nf1.-", max_size=4)
    | st.text(max_size=3),
    max_size=12,
).map("".join)
JSONS = st.recursive(
    SCALARS | st.sampled_from(["f", "function", "object", "$ref"]) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "function", "tool_calls", "any_of", "parameters", "properties"])
            | st.sampled_from(["type", "default", "f", "$ref", "required", "$defs", "enum", "items", "anyOf"])
            | STRINGS,
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(text=SOUP | st.text(), name=st.sampled_from(sorted(FORMATS)))
@settings(max_examples=300)
def test_any_text_gives_zero_or_one(text: str, name: str) -> None:
    """No completion makes the reward raise or abstain, and none without the tool's name is paid for a call."""
    golds: list[Any] = [[], [{"name": "f", "arguments": {}}], [{"name": "get_it", "arguments": {"a": 1}}]]
    tools = {"f": {}, "get_it": {}}
    values = ToolCall(format=name)(completions=[text] * 3, answer=golds, tools=[tools] * 3)
    chat = [[{"role": "assistant", "content": text}]] * 3
    assert set(values) <= {0.0, 1.0}
    assert sum(value or 0.0 for value in values) <= 1.0
    assert values[2] == 0.0
    assert values == ToolCall(format=name)(completions=chat, answer=golds, tools=[tools] * 3)


@given(gold=JSONS, tools=JSONS, calls=JSONS)
@settings(max_examples=300)
def test_any_cell_gives_a_value_or_an_abstention(gold: Any, tools: Any, calls: Any) -> None:
    """Neither a gold nor tools nor parsed calls of any shape make the reward raise."""
    completions: list[Any] = ["x", hermes([]), [{"content": None, "tool_calls": calls}]]
    values = ToolCall()(completions=completions, answer=[gold] * 3, tools=[tools] * 3)
    assert set(values) <= {0.0, 1.0, None}


@given(value=VALUES)
def test_python_literals_are_read_as_python_reads_them(value: Any) -> None:
    """What `repr` writes of a value, with tuples for its lists, is that value again."""
    (call,) = read_pythonic(f"[f(a={value!r}, b={_tuples(value)!r})]").calls
    assert json.dumps(call.arguments["a"], default=float) == json.dumps(value)
    assert call.arguments["b"] == call.arguments["a"]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


UNITS = [
    *MARKERS,
    *TURN_ENDS,
    *("<tool_call></tool_call>", "<tool_call>{", hermes([{"name": "f", "arguments": {}}]), "<function=f>"),
    *("[TOOL_CALLS]f[ARGS]{}", '{"name":"f","parameters":{}};', '{"name":"f"}', "<parameter=a></parameter>", "f{}"),
    *(
        "{",
        "[",
        "[{",
        "(",
        "f(",
        "[f(",
        "f(),",
        "- ",
        "'",
        '"',
        "\\",
        '\\"',
        '"name": ',
        "a",
        "1",
        "1.",
        "_",
        "\n",
        " ",
    ),
    *("</think>", "<think></think>", "<", "\ud800", "\0", "[]", "{}", '"a" ', "'''", "\\x", "[ ", "get(", "[get("),
]
OPENINGS = [
    "",
    '<tool_call>{"name":"get","arguments":{"a":"',
    '[f(a="',
    "[f(a=",
    "[TOOL_CALLS]f[ARGS]",
    "<|python_tag|>",
    "<tool_call><function=f><parameter=a>",
    '{"tool_calls":',
]


def assert_quick(name: str, text: str) -> None:
    gold = [{"name": "get", "arguments": {"a": 1}}]
    begun = time.process_time()
    assert ToolCall(format=name)(completions=[text], answer=[gold], tools=[{"get": {}, "f": {}}]) == [0.0]
    assert time.process_time() - begun < LIMIT_S, (name, text[:60])


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"qwen3"}))
def test_no_completion_takes_long(name: str) -> None:
    """A megabyte of any opening, or of any marker after it, is read in linear time and not paid."""
    draw = random.Random(name)
    for opening in OPENINGS:
        for unit in draw.sample(UNITS, 3):
            assert_quick(name, opening + unit * (MB // len(unit)))


def test_no_completion_takes_long_to_place() -> None:
    """Nor does finding out the format of a megabyte of any marker, bracket or quotation mark."""
    for unit in UNITS:
        assert_quick("auto", unit * (MB // len(unit)))


def test_deep_values_are_bounded() -> None:
    """Values as deep as JSON may be here are compared; deeper ones are malformed, whichever way they came."""
    for depth, expected in ((190, 1.0), (5_000, 0.0)):
        text = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * depth + "]" * depth + "}}</tool_call>"
        gold = '[{"name": "f", "arguments": {"a": ' + "[" * 190 + "]" * 190 + "}}]"
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        message = [{"tool_calls": [{"name": "f", "arguments": {"a": value}}]}]
        assert ToolCall()(completions=[text, message], answer=[gold] * 2, tools=['{"f": {}}'] * 2) == [expected] * 2


def test_many_calls_are_matched_in_time() -> None:
    """Two hundred alternatives in the order that is worst for a search are paired at once."""
    count = 200
    gold = [{"name": "f", "arguments": {"n": n}, "any_of": {"n": [n, *range(n)]}} for n in reversed(range(count))]
    calls = [{"name": "f", "arguments": {"n": n}} for n in range(count)]
    begun = time.process_time()
    values = ToolCall()(
        completions=[hermes(calls), hermes([*calls[:-1], calls[0]])], answer=[gold] * 2, tools=[{"f": {}}] * 2
    )
    assert values == [1.0, 1.0]
    none = [{**call, "any_of": {}} for call in calls]
    assert ToolCall()(completions=[hermes([*calls[:-1], calls[0]])], answer=[none], tools=[{"f": {}}]) == [0.0]
    assert time.process_time() - begun < 3.0


def test_threads_are_served_alike() -> None:
    """Off the main thread the verdicts are the same."""
    calls = [[{"name": "f", "arguments": {"n": n}}] for n in range(200)]
    texts = [pythonic(call) if n % 2 else hermes(call) for n, call in enumerate(calls)]
    golds = [call if n % 3 else calls[0] for n, call in enumerate(calls)]
    reward, found = ToolCall(tools={"f": {}}), []
    threads = [threading.Thread(target=lambda: found.append(reward(completions=texts, answer=golds))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[float(n % 3 > 0 or n == 0) for n in range(200)]] * 4


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc for the resident size")
def test_memory_stays_flat_over_twenty_thousand_calls() -> None:
    """What is remembered is bounded, also where each row has tools of its own."""
    reward = ToolCall()

    def judge(begin: int, end: int) -> None:
        for n in range(begin, end):
            gold = [{"name": "f", "arguments": {"n": n}}]
            tools = {"f": {"properties": {"n": {"type": "integer", "default": n + 1}}}}
            assert reward(completions=[hermes(gold)], answer=[gold], tools=[tools]) == [1.0]

    judge(0, 5_000)
    before = resident_mib()
    judge(5_000, 20_000)

    assert resident_mib() - before < 8
