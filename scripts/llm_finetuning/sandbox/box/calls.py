"""Calls: the judge sends function and arguments, and compares the result itself."""

import reprlib
import time
from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box import comparison
from llm_finetuning.sandbox.box.hands import Hands
from llm_finetuning.sandbox.box.peer import DECODE_S
from llm_finetuning.sandbox.box.session import Session, Verdict
from llm_finetuning.sandbox.box.supervision import Stopped
from llm_finetuning.sandbox.box.values import Decoder, Malformed

_MAX_TEXT = 500
_TOLD = 2  # class and text, of what tells an exception
_SHOWN_BITS = 4000


def run(job: Mapping[str, Any], hands: Hands, verdict: Verdict) -> None:
    """Judge a program by its calls; one that fails does not stop the others, unless the process is gone."""
    session = Session(job, hands)
    try:
        session.load(job["code"])
        for index, call in enumerate(job["calls"]):
            reason = _fault_of(session, call, verdict)
            if reason is None:
                verdict.held.add(index)
            else:
                verdict.fail(f"{call['text']}: {reason}")
    except Stopped as stopped:
        verdict.stop(stopped.status, stopped.detail)
    finally:
        session.close(verdict)


def _fault_of(session: Session, call: Mapping[str, Any], verdict: Verdict) -> str | None:
    """Return why a call's result is not what it must be, None if it is."""
    # The arguments cross as they were written and are read anew for each call: no call sees what another did to them.
    kind, told = session.ask("run", ["t", [call["function"], call["arguments"], call["keywords"]]])
    if kind == "m":
        verdict.stop("error", f"the program defines no `{call['function']}`")
        return "no such function"
    if kind == "r":
        return f"the result cannot be handed over: {str(told)[:_MAX_TEXT]}"
    try:
        if kind == "x":
            return _raised(told, call["text"], verdict)
        result = Decoder(_foreign, deadline=time.monotonic() + DECODE_S).decode(told if kind == "v" else {})
    except Malformed as reason:
        raise Stopped("forgery", f"answered with {reason}") from None
    if type(result) is comparison.Foreign and call["relation"] in {"true", "false"}:
        result = _truth_of(session, result)
    expected = Decoder().decode(call["expected"])
    if comparison.holds(call["relation"], result, expected, call["relative_tolerance"], call["absolute_tolerance"]):
        return None
    return f"returned {short(result)}"


def _truth_of(session: Session, result: comparison.Foreign) -> bool:
    """Ask whether an object is true, which is the candidate's word anyway; one that does not say so is."""
    if result.reference is None:
        return True
    kind, told = session.ask("truth", ["t", [["H", result.reference]]])
    return told if kind == "v" and type(told) is bool else True


def _raised(told: Any, text: str, verdict: Verdict) -> str:
    """Return what an exception says; raises Malformed for what is no exception."""
    if type(told) is not list or len(told) < _TOLD or type(told[1]) is not str:
        raise Malformed("no exception")
    name = told[0][1] if type(told[0]) is list and len(told[0]) > 1 else told[0]
    said = f"{str(name).rpartition(':')[2][:100]}: {told[1][:_MAX_TEXT]}"
    if name == "MemoryError":
        verdict.stop("memory", f"{text}: {said}")
    return f"raised {said}"


def _foreign(told: list[Any]) -> Any:
    """Read a reference as an object that equals nothing, an instance of a subclass as its base value."""
    tag = told[0]
    if tag == "w":
        return told[2]
    if tag in {"h", "o"} and type(told[1]) is int and type(told[2]) is list:
        name = told[2][1] if len(told[2]) > 1 else "object"
        return comparison.Foreign(str(name)[:100], told[1])
    if tag in {"y", "e"}:
        return comparison.Foreign("type")
    if tag == "X":
        return comparison.Foreign("exception")
    raise Malformed("no reference")


class _Short(reprlib.Repr):
    """A text of bounded length and cost, whatever the value: sharing can make a small one endless to print."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 8
        self.maxstring = self.maxother = self.maxlong = 120

    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() > _SHOWN_BITS:
            return f"<an integer of {value.bit_length()} bits>"
        return super().repr_int(value, level)

    def repr_ndarray(self, value: Any, _: int) -> str:
        return f"<an array of {value.dtype} and shape {value.shape}>"


def short(value: Any) -> str:
    """Return a plain value for the report, cut short."""
    return _Short().repr(value)[:_MAX_TEXT]
