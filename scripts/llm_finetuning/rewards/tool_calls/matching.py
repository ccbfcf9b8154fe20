"""When calls are the calls of the gold: names, arguments and number, in any order unless order counts.

The rules next to BFCL's (Patil et al., 2025, https://gorilla.cs.berkeley.edu/leaderboard.html): arguments keep to the
tool's whole schema, at any depth; strings are exact, unless BFCL's standard form is asked for; 1.0 is 1 everywhere;
true is never 1; calls are paired by a matching, so that an alternative taken early blocks none.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.rewards.json_text import read_json
from llm_finetuning.rewards.tool_calls.openai_messages import calls_of
from llm_finetuning.rewards.tool_calls.reading import MAX_CALLS, Call
from llm_finetuning.rewards.tool_calls.tools import Tool, admits_null

STRINGS = ("exact", "bfcl")

_BFCL_DROPS = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True, slots=True)
class Rules:
    """What the brief says of equality."""

    ordered: bool = False  # calls in the gold's order
    strings: str = "exact"  # one of STRINGS
    unordered: frozenset[str] = frozenset()  # `tool.argument` whose list has no order


@dataclass(frozen=True, slots=True, eq=False)
class GoldCall:
    """One call of the gold, ready to be compared."""

    tool: Tool
    allowed: Mapping[str, frozenset[Hashable]]  # argument -> canonical values that are right
    omissible: frozenset[str]  # arguments that may be left out
    defaults: Mapping[str, Hashable]  # argument -> canonical default of the schema


def read_gold(value: Any, tools: Mapping[str, Tool], rules: Rules) -> tuple[GoldCall, ...] | None:
    """Return the gold's calls; None if a call is none, names no tool, or has arguments its schema refuses.

    Nulls that table storage put in place of what a row does not have are taken out: those of arguments that the schema
    does not know, or does not let be null.
    """
    if isinstance(value, dict):
        value = value.get("tool_calls", [value])
    if not isinstance(value, list) or len(value) > MAX_CALLS:
        return None
    calls = [_gold_call(item, tools, rules) for item in value]
    return tuple(call for call in calls if call is not None) if None not in calls else None


def _gold_call(item: Any, tools: Mapping[str, Tool], rules: Rules) -> GoldCall | None:
    if isinstance(item, str):
        item = read_json(item, fence=False).value
    if not isinstance(item, dict):
        return None
    alternatives = item.get("any_of") or {}
    plain = _given(item)
    plain.pop("any_of", None)
    if isinstance(plain.get("function"), dict):
        plain["function"] = _given(plain["function"])
    (call,) = calls_of([plain]) or (None,)
    if call is None or call.name not in tools or not isinstance(alternatives, dict):
        return None
    tool = tools[call.name]
    arguments = _without_padding(call.arguments, tool, tool.parameters, closed=True)
    lists = {name: values for name, values in alternatives.items() if values is not None}
    if not tool.accepts(arguments) or not all(isinstance(values, list) and values for values in lists.values()):
        return None
    if not all(tool.accepts({**arguments, name: value}) for name, values in lists.items() for value in values):
        return None
    return _prepared(tool, arguments, lists, rules)


def _given(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in item.items() if member is not None}


def _prepared(
    tool: Tool, arguments: Mapping[str, Any], alternatives: Mapping[str, Sequence[Any]], rules: Rules
) -> GoldCall:
    allowed: dict[str, frozenset[Hashable]] = {}
    for name in dict.fromkeys([*arguments, *alternatives]):
        values = [*([arguments[name]] if name in arguments else []), *alternatives.get(name, ())]
        allowed[name] = frozenset(_canonical_argument(tool, name, value, rules) for value in values)
    properties = tool.below(tool.parameters.get("properties"))
    defaults = {
        name: _canonical_argument(tool, name, below["default"], rules)
        for name, below in properties.items()
        if isinstance(below, dict) and "default" in below
    }
    omissible = {name for name, values in allowed.items() if name not in arguments or defaults.get(name, _NO) in values}
    return GoldCall(tool, allowed, frozenset(omissible), defaults)


def _without_padding(value: Any, tool: Tool, schema: Mapping[str, Any], *, closed: bool = False) -> Any:
    """Return a value without the nulls that no row wrote; what no schema describes is left as it is."""
    if isinstance(value, list):
        items = tool.below(schema.get("items"))
        return [_without_padding(member, tool, items) for member in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    closed = closed or bool(properties)
    kept = {}
    for name, member in value.items():
        known = name in properties
        below = tool.below(properties.get(name))
        if member is None and (not admits_null(below) if known else closed and "patternProperties" not in schema):
            continue
        kept[name] = _without_padding(member, tool, below)
    return kept


_NO = object()  # no default


def verdict(gold: Sequence[GoldCall], calls: Sequence[Call], tools: Collection[str], rules: Rules) -> str:
    """Return `correct` or the first of these that holds.

    `no_call`, `missing_call`, `extra_call`: too few or too many. `wrong_order`: the right calls where
    order counts. `wrong_tool`: other names. `invalid_arguments`: against a schema. `wrong_arguments`.
    """
    if len(calls) != len(gold):
        return "extra_call" if len(calls) > len(gold) else "missing_call" if calls else "no_call"
    fits = functools.cache(lambda place, other: _fits(gold[place], calls[other], rules))
    if all(fits(place, place) for place in range(len(gold))):
        return "correct"
    matched = _all_matched(len(gold), fits)
    if matched:
        return "wrong_order" if rules.ordered else "correct"
    return _fault(gold, calls, tools, rules)


def _fault(gold: Sequence[GoldCall], calls: Sequence[Call], tools: Collection[str], rules: Rules) -> str:
    names = Counter(call.name for call in calls)
    if any(name not in tools for name in names) or names != Counter(wanted.tool.name for wanted in gold):
        return "wrong_tool"
    of_name = {wanted.tool.name: wanted for wanted in gold}
    typed = [(of_name[call.name], call) for call in calls]
    sound = all(wanted.tool.accepts(_typed(wanted, call, rules)) for wanted, call in typed)
    return "wrong_arguments" if sound else "invalid_arguments"


def _all_matched(count: int, fits: Callable[[int, int], bool]) -> bool:
    """Tell whether each gold call can have a call of its own: augmenting paths (Kuhn, 1955)."""
    taken_by: dict[int, int] = {}  # call -> gold call

    def place_found(place: int, tried: set[int]) -> bool:
        for other in range(count):
            if other not in tried and fits(place, other):
                tried.add(other)
                if other not in taken_by or place_found(taken_by[other], tried):
                    taken_by[other] = place
                    return True
        return False

    return all(place_found(place, set()) for place in range(count))


def _fits(wanted: GoldCall, call: Call, rules: Rules) -> bool:
    if call.name != wanted.tool.name:
        return False
    arguments = _typed(wanted, call, rules)
    if not wanted.omissible.issuperset(name for name in wanted.allowed if name not in arguments):
        return False
    right = all(_is_right(wanted, name, value, rules) for name, value in arguments.items())
    return right and wanted.tool.accepts(arguments)


def _is_right(wanted: GoldCall, name: str, value: Any, rules: Rules) -> bool:
    canonical = _canonical_argument(wanted.tool, name, value, rules)
    if name in wanted.allowed:
        return canonical in wanted.allowed[name]
    return name in wanted.defaults and canonical == wanted.defaults[name]


def _typed(wanted: GoldCall, call: Call, rules: Rules) -> Mapping[str, Any]:
    """Return arguments with their types: of the readings of a text the one that the schema lets through.

    Where it lets several through (`5` for a string or a number) the format cannot say which was meant; the gold's
    reading is taken if it is among them.
    """
    if not call.verbatim:
        return call.arguments
    arguments = {}
    for name, written in call.arguments.items():
        readings = [value for value in _readings(written) if wanted.tool.admits(name, value)] or [written]
        right = (value for value in readings if _is_right(wanted, name, value, rules))
        arguments[name] = next(right, readings[0])
    return arguments


def _readings(written: Any) -> list[Any]:
    """Return what a value written without its type can be: JSON, a constant as Python or JSON writes it, or itself."""
    if not isinstance(written, str):
        return [written]
    word = written.strip().lower()
    if word in _WORDS:
        return [_WORDS[word], written]
    document = read_json(written, fence=False)
    if document.problem is not None or isinstance(document.value, str):
        return [written]
    return [document.value, written]


_WORDS = {"true": True, "false": False, "null": None, "none": None}


def _canonical_argument(tool: Tool, name: str, value: Any, rules: Rules) -> Hashable:
    properties = tool.below(tool.parameters.get("properties"))
    below = tool.below(properties.get(name))
    if isinstance(value, list) and f"{tool.name}.{name}" in rules.unordered:
        items = tool.below(below.get("items"))
        return "set", frozenset(Counter(_canonical(item, tool, items, rules) for item in value).items())
    return _canonical(value, tool, below, rules)


def _canonical(value: Any, tool: Tool, schema: Mapping[str, Any], rules: Rules) -> Hashable:
    """Return what is equal, and hashes alike, for equal JSON values: 1 and 1.0 are, true and 1 are not.

    A member of a described object that is its default is taken out: given or not, it says the same.
    """
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return standardised(value) if rules.strings == "bfcl" else value
    if isinstance(value, list):
        items = tool.below(schema.get("items"))
        return "list", tuple([_canonical(item, tool, items, rules) for item in value])
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]  # None, an int, a float, a Decimal
    properties = schema.get("properties") or {}
    members = set()
    for name, member in value.items():
        described = properties.get(name)
        below = tool.below(described)
        canonical = _canonical(member, tool, below, rules)
        default = described.get("default", _NO) if isinstance(described, dict) else _NO
        if default is _NO or canonical != _canonical(default, tool, below, rules):
            members.add((name, canonical))
    return "object", frozenset(members)


def standardised(text: str) -> str:
    """Return a string as BFCL compares it: without case, spaces and `,./-_*^`, one kind of quotation mark."""
    return _BFCL_DROPS.sub("", text).lower().replace("'", '"')
