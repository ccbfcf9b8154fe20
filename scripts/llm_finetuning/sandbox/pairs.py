"""Pairs of input and output, as APPS, TACO, LiveCodeBench and CodeContests write them, made into tests.

Texts are what a program reads from standard input and prints. With a function's name (`fn_name`) inputs are lists of
arguments, outputs its results; LiveCodeBench writes each argument as a line of JSON. JSON has no tuples, so a
function that returns one does not equal a list.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llm_finetuning.sandbox.jobs import Call, Calls, Exchange, Exchanges, Suite
from llm_finetuning.sandbox.suites import Unreadable

_INPUTS = ("inputs", "input")
_OUTPUTS = ("outputs", "output")
_MAX_TEXT = 300


def is_pairs(cell: Any) -> bool:
    """Tell whether a cell is a mapping, or a list of mappings, with inputs and outputs."""
    if isinstance(cell, Mapping):
        return _key(cell, _INPUTS) is not None and _key(cell, _OUTPUTS) is not None
    return isinstance(cell, Sequence) and not isinstance(cell, str) and bool(cell) and all(map(is_pairs, cell))


def tests_of(cell: Any, entry_point: str | None) -> Calls | Exchanges | Suite:
    """Return the tests of a cell that `is_pairs`; raises Unreadable for inputs and outputs that do not match.

    A function's name in the cell (`fn_name`) or an `entry_point` beside inputs that are no text makes them calls.
    """
    function, pairs = _pairs(cell)
    if not pairs:
        raise Unreadable("no pair of input and output")
    texts = all(isinstance(given, str) and isinstance(wanted, str) for given, wanted in pairs)
    if function is None and texts and not _functional(cell):
        return Exchanges([Exchange(given, wanted) for given, wanted in pairs])
    name = function or entry_point
    if name is None:
        if all(_is_lines(given) and _is_lines(wanted) for given, wanted in pairs):
            return Exchanges([Exchange(_joined(given), _joined(wanted)) for given, wanted in pairs])
        raise Unreadable("inputs that are no text need the name of a function: `fn_name`, or `entry_point_column`")
    # APPS wraps the one result of each call in a list.
    wrapped = function is not None and all(_is_one(wanted) and not isinstance(given, str) for given, wanted in pairs)
    calls = [
        _call(name, given, wanted[0] if wrapped else wanted, place) for place, (given, wanted) in enumerate(pairs, 1)
    ]
    return _of_method(name, calls) if "." in name else Calls(calls)


def _pairs(cell: Any) -> tuple[str | None, list[tuple[Any, Any]]]:
    if isinstance(cell, Mapping):
        function = cell.get("fn_name") or None
        inputs, outputs = cell[_known(cell, _INPUTS)], cell[_known(cell, _OUTPUTS)]
        if isinstance(inputs, str) or isinstance(outputs, str) or _one_call(cell):
            return function, [(inputs, outputs)]
        if not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence):
            raise Unreadable("inputs and outputs are neither texts nor lists")
        if len(inputs) != len(outputs):
            raise Unreadable(f"{len(inputs)} inputs and {len(outputs)} outputs")
        return function, list(zip(inputs, outputs, strict=True))
    function, pairs = None, []
    for part in cell:
        named, more = _pairs(part)
        function = function or named
        pairs += more
    return function, pairs


def _functional(cell: Any) -> bool:
    """Tell whether LiveCodeBench says of a pair that it is a call of a function."""
    parts = [cell] if isinstance(cell, Mapping) else cell
    return any(part.get("testtype") == "functional" for part in parts)


def _one_call(cell: Mapping[str, Any]) -> bool:
    """Tell `{"input": [1, 2], "output": 3}`, one call, from `{"input": [...], "output": [...]}`, a column of each."""
    return "input" in cell and not isinstance(cell[_known(cell, _OUTPUTS)], Sequence)


def _key(cell: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if key in cell), None)


def _known(cell: Mapping[str, Any], keys: Sequence[str]) -> str:
    key = _key(cell, keys)
    assert key is not None, "`is_pairs` saw to it"
    return key


def _is_lines(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Sequence) and all(isinstance(line, str) for line in value))


def _joined(value: Any) -> str:
    return value if isinstance(value, str) else "\n".join(value) + "\n"


def _call(name: str, given: Any, wanted: Any, place: int) -> Call:
    arguments = _json_lines(given, place) if isinstance(given, str) else given
    if not isinstance(arguments, Sequence):
        raise Unreadable(f"input {place} is no list of arguments")
    if isinstance(given, str) and isinstance(wanted, str):
        wanted = _json_lines(wanted, place)[0]
    text = f"{name}({', '.join(map(repr, arguments))}) == {wanted!r}"
    return Call(text=text[:_MAX_TEXT], function=name, arguments=list(arguments), expected=wanted)


def _is_one(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _json_lines(text: str, place: int) -> list[Any]:
    try:
        return [json.loads(line, parse_constant=_no_constant) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        raise Unreadable(f"pair {place}: not a line of JSON for each argument") from None


def _of_method(name: str, calls: Sequence[Call]) -> Suite:
    """Call a method of a fresh object each time: `Solution.two_sum` stands for `Solution().two_sum`."""
    owner, _, method = name.rpartition(".")
    if not (owner.isidentifier() and method.isidentifier()):
        raise Unreadable(f"`{name}` is not CLASS.METHOD")
    lines = [
        f"assert {owner}().{method}({', '.join(map(repr, call.arguments))}) == {call.expected!r}" for call in calls
    ]
    return Suite(source="\n".join(lines) + "\n", entry_points=(owner,))
