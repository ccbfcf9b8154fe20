"""Measure `tool_call` beside its peers: accuracy on cases, CPU time on the cases and on a GRPO-like batch.

python tests/bench_tools.py CASES.jsonl     prints a Markdown table; BFCL's checker is left out where it is not there.
It needs `bfcl-eval` (no dependencies of it: pip install --no-deps bfcl-eval) beside this package's dependencies.
"""

import json
import random
import re
import sys
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from llm_finetuning.rewards.tool_call import ToolCall
from llm_finetuning.rewards.tool_calls.formats import FORMATS, without_turn_ends

OPTIONS = ("ordered", "unordered", "strings", "text_around")

Case = Mapping[str, Any]
Grader = Callable[[Case], bool]

_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_BFCL_TYPES = {"number": "float", "object": "dict"}


def load_cases(path: Path) -> list[dict[str, Any]]:
    """Return the tool-call cases of a file; where tools are named, the file's first line describes them."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    described = rows.pop(0)["definitions"] if "definitions" in rows[0] else {}
    rows = [row for row in rows if row.get("type", "tool") == "tool"]
    for row in rows:
        if isinstance(row["tools"], list):
            row["tools"] = {name: described[name] for name in row["tools"]}
    return rows


def exact_text(case: Case) -> bool:
    """Pay for the text that Hermes' template writes of the gold, to the letter."""
    written = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in case["calls"])
    return bool((case["text"] or "").strip() == written)


def json_equality(case: Case) -> bool:
    """Pay for equal JSON in Hermes' tags, in any order, as GRPO recipes do."""
    try:
        found = [json.loads(body) for body in _TAG.findall(case["text"])]
        made = [json.dumps([call["name"], call["arguments"]], sort_keys=True) for call in found]
    except (ValueError, KeyError, TypeError):
        return False
    wanted = [json.dumps([call["name"], call["arguments"]], sort_keys=True) for call in case["calls"]]
    return sorted(made) == sorted(wanted)


def bfcl() -> Grader:
    """Return BFCL's own checker, with our readers in front: it takes calls, not texts."""
    # Its table of models imports every provider's client; the checker asks it for one flag alone.
    table: Any = types.ModuleType("bfcl_eval.constants.model_config")
    table.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=False)}
    sys.modules[table.__name__] = table
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def grade(case: Case) -> bool:
        text = without_turn_ends((case["text"] or "").rpartition("</think>")[2])
        found = FORMATS[case["format"]](text)
        made = [{call.name: dict(call.arguments)} for call in found.calls]
        if not case["calls"]:
            return bool(text.strip()) and not made
        if found.problem or not made:
            return False
        answers = [_bfcl_answer(call, case["tools"][call["name"]]) for call in case["calls"]]
        described = [_bfcl_function(name, schema) for name, schema in case["tools"].items()]
        try:
            result = ast_checker(described, made, answers, Language.PYTHON, "parallel", "any")
        except (KeyError, TypeError, AttributeError):  # a schema with a reference, a union, a free list
            return False
        return bool(result["valid"])

    return grade


def _bfcl_answer(call: Case, schema: Case) -> dict[str, Any]:
    """Return a gold call in BFCL's form: argument -> values that are right, "" among them if it may be left out."""
    values = {name: [value] for name, value in call["arguments"].items()}
    for name, further in call.get("any_of", {}).items():
        values[name] = [*values.get(name, [""]), *further]
    for name, below in schema["properties"].items():
        if "default" in below and below["default"] in values.get(name, [below["default"]]):
            values[name] = [*values.get(name, [below["default"]]), ""]
    return {call["name"]: {name: [_bfcl_value(value) for value in allowed] for name, allowed in values.items()}}


def _bfcl_value(value: Any) -> Any:
    return {key: [member] for key, member in value.items()} if isinstance(value, dict) else value


def _bfcl_function(name: str, schema: Case) -> dict[str, Any]:
    properties = {}
    for argument, below in schema["properties"].items():
        properties[argument] = {**below, "type": _BFCL_TYPES.get(str(below.get("type")), below.get("type"))}
        if "items" in below:
            kind = below["items"].get("type")
            properties[argument]["items"] = {"type": _BFCL_TYPES.get(kind, kind)}
    return {
        "name": name,
        "parameters": {"type": "dict", "properties": properties, "required": schema.get("required", [])},
    }


def ours(case: Case) -> bool:
    """Pay as the product does."""
    reward = ToolCall(format=case["format"], **{name: case[name] for name in OPTIONS if name in case})
    return reward(completions=[case["text"]], answer=[case["calls"]], tools=[case["tools"]]) == [1.0]


def peers() -> dict[str, Grader]:
    """Return the graders that can be imported here."""
    found = {"tool_call (ours)": ours, "exact text": exact_text, "Hermes regex + JSON equality": json_equality}
    try:
        found["BFCL's AST checker, our reader"] = bfcl()
    except ImportError:
        print("bfcl-eval is not installed here", file=sys.stderr)
    return found


def grpo_batch(prompts: int = 64, group: int = 16) -> list[dict[str, Any]]:
    """Return completions with reasoning of 1.5 kB and one or two calls, 60% of them right, in groups of one gold."""
    draw = random.Random(0)
    tools = {
        "get_weather": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    filler = "The user asks for the weather; the tool takes a city and, if wanted, a unit and a number of days. "
    batch = []
    for _ in range(prompts):
        cities = draw.sample(["Paris", "Rome", "Oslo", "Bern", "Lima"], draw.choice([1, 2]))
        gold = [{"name": "get_weather", "arguments": {"city": city, "days": draw.randint(1, 9)}} for city in cities]
        for turn in range(group):
            calls = json.loads(json.dumps(gold))
            if draw.random() > 0.6:
                calls[0]["arguments"]["days"] += 1
            written = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
            text = f"<think>\nTry {turn}. {filler * 15}\n</think>\n\n{written}"
            batch.append({"format": "hermes", "text": text, "calls": gold, "tools": tools})
    return batch


def cpu_s(grade: Callable[[], Any]) -> float:
    begun = time.process_time()
    grade()
    return time.process_time() - begun


def main(path: str) -> None:
    """Print the table."""
    cases, batch = load_cases(Path(path)), grpo_batch()
    print("| grader | accuracy | false passes | false fails | cases/s (CPU) | GRPO batch/s (CPU) |")
    print("|---|---|---|---|---|---|")
    for name, grade in peers().items():
        paid = [grade(case) for case in cases]
        passes = sum(got and not case["expected"] for got, case in zip(paid, cases, strict=True))
        fails = sum(case["expected"] and not got for got, case in zip(paid, cases, strict=True))
        one_by_one = len(cases) / cpu_s(lambda grade=grade: [grade(case) for case in cases])
        together = len(batch) / cpu_s(
            _batched if grade is ours else lambda grade=grade: [grade(case) for case in batch]
        )
        accuracy = 1 - (passes + fails) / len(cases)
        print(f"| {name} | {accuracy:.1%} | {passes} | {fails} | {one_by_one:,.0f} | {together:,.0f} |", flush=True)


def _batched() -> list[float | None]:
    """Grade the batch in one call, as a trainer does."""
    batch = grpo_batch()
    return ToolCall(format="hermes")(
        completions=[case["text"] for case in batch],
        answer=[case["calls"] for case in batch],
        tools=[case["tools"] for case in batch],
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent / "rewards" / "tool_cases.jsonl"))
