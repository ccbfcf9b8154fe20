"""Tool calls in Hermes form: which tool, with which arguments; some requests need no tool."""

import json
import random
import re
from typing import Any

from gate_bench.tasks.task import Problem, Task, Written, chat


def _tool(name: str, about: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS = [
    _tool(
        "get_weather", "weather of a city", {"city": {"type": "string"}, "days": {"type": "integer"}}, ["city", "days"]
    ),
    _tool("set_timer", "start a timer", {"minutes": {"type": "integer"}}, ["minutes"]),
    _tool("send_message", "send a text", {"to": {"type": "string"}, "text": {"type": "string"}}, ["to", "text"]),
]
_SYSTEM = (
    "You may call these tools:\n{tools}\nTo call one, write <tool_call>\n"
    '{{"name": NAME, "arguments": {{...}}}}\n</tool_call>. Make exactly the calls that are asked for. '
    "If no tool is needed, answer in words."
)
_CITIES = ("Paris", "Lima", "Oslo", "Kyoto", "Graz", "Turin")
_PEOPLE = ("Ada", "Bruno", "Chen", "Dana")
_WORDS = ("I am late", "call me back", "lunch at noon", "the train left")


def problems() -> list[Problem]:
    draw = random.Random(17)
    found = []
    for place in range(30):
        city, days, minutes = draw.choice(_CITIES), draw.randint(1, 7), draw.randint(2, 50)
        to, text = draw.choice(_PEOPLE), draw.choice(_WORDS)
        asks = [
            (
                f"What will the weather be in {city} over the next {days} days?",
                [("get_weather", {"city": city, "days": days})],
            ),
            (f"Set a timer for {minutes} minutes.", [("set_timer", {"minutes": minutes})]),
            (f'Send {to} the text "{text}".', [("send_message", {"to": to, "text": text})]),
            (
                f"Set a timer for {minutes} minutes and get the weather in {city} for {days} days.",
                [("set_timer", {"minutes": minutes}), ("get_weather", {"city": city, "days": days})],
            ),
            (f"What is the plural of mouse? (question {place})", []),
        ]
        ask, calls = asks[place % 5]
        gold = [{"name": name, "arguments": arguments} for name, arguments in calls]
        row = {
            "id": f"f{place:02d}",
            "prompt": chat(ask, _SYSTEM.format(tools=json.dumps(TOOLS))),
            "answer": json.dumps(gold),
            "tools": json.dumps(TOOLS),
        }
        found.append(Problem(row, {"gold": gold}))
    return found


def _said(calls: list[dict[str, Any]], indent: int | None = None) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call, indent=indent)}\n</tool_call>" for call in calls)


def written(problem: Problem, draw: random.Random) -> list[Written]:
    gold = problem.facts["gold"]
    if not gold:
        rights = ["The plural of mouse is mice.", "Mice.", "It is mice."]
        wrongs = [
            _said([{"name": "get_weather", "arguments": {"city": "Mice", "days": 1}}]),
            _said([{"name": "set_timer", "arguments": {"minutes": 1}}]),
            "<tool_call>",
            _said([{"name": "send_message", "arguments": {"to": "you", "text": "mice"}}]),
        ]
        return [*(Written(text, "accept") for text in rights), *(Written(text, "reject") for text in wrongs)]
    rights = [
        _said(gold),
        "I will do that.\n" + _said(gold),
        _said(gold, 2),
        _said([{"arguments": dict(reversed(call["arguments"].items())), "name": call["name"]} for call in gold]),
        _said(gold).replace("\n", " "),
    ]
    first = gold[0]
    key, value = next(iter(first["arguments"].items()))
    changed = value + 1 if isinstance(value, int) else value.upper() + "X"
    off = [{**first, "arguments": {**first["arguments"], key: changed}}, *gold[1:]]
    empty = [{**first, "arguments": {}}, *gold[1:]]
    wrongs = [
        _said(off),
        _said(empty),
        _said([*gold, {"name": "set_timer", "arguments": {"minutes": 99}}]),
        _said([{**first, "name": first["name"] + "s"}, *gold[1:]]),
        _said([{**first, "arguments": {**first["arguments"], "extra": True}}, *gold[1:]]),
        f"I would call {first['name']} with {json.dumps(first['arguments'])}.",
        _said(gold).replace("{", "", 1),
        json.dumps(gold),
        _said([off[0], *gold]),
        _said([]) + "Sure, I have done that for you.",
    ]
    chosen = [Written(text, "reject") for text in draw.sample(wrongs, 4)]
    if draw.random() < 0.2:
        chosen[0] = Written(_said(gold)[:-15], "reject", cut=True)
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *chosen]


def truth(problem: Problem, text: str) -> str:
    gold = problem.facts["gold"]
    blocks = re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)
    if not gold:
        if "tool_call" in text or not text.strip():
            return "reject"
        return "accept" if re.search(r"\bmice\b", text, re.IGNORECASE) else "unsure"
    if text.count("<tool_call>") != len(blocks) or len(blocks) != len(gold):
        return "reject"
    try:
        calls = [json.loads(block) for block in blocks]
    except ValueError:
        return "reject"
    order = sorted(json.dumps(call, sort_keys=True) for call in calls)
    return "accept" if order == sorted(json.dumps(call, sort_keys=True) for call in gold) else "reject"


TASK = Task("tools", 64, problems, written, truth)
