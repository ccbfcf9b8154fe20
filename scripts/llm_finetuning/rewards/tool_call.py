"""`tool_call`: the calls that a completion makes are the calls of the gold, in a wire format that a server can parse.

Formats are in `tool_calls/formats.py`, equality in `tool_calls/matching.py`. Precedent: the AST checker of BFCL (Patil
et al., 2025); tests/bench_tools.py measures both.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, after_reasoning, report, text_of
from llm_finetuning.rewards.tool_calls.formats import FORMATS, without_turn_ends
from llm_finetuning.rewards.tool_calls.matching import STRINGS, GoldCall, Rules, read_gold, verdict
from llm_finetuning.rewards.tool_calls.mentions import mentions_call
from llm_finetuning.rewards.tool_calls.openai_messages import read_items
from llm_finetuning.rewards.tool_calls.reading import Call, Reading, strict_value
from llm_finetuning.rewards.tool_calls.tools import Tool, read_tools
from llm_finetuning.types import Text

_THINKING = re.compile(r"<(/?)(?:think(?:ing)?|thought|reasoning)>", re.IGNORECASE)
_UNTYPED = "qwen3coder"  # the format whose values have no types of their own


class ToolCall:
    """Pays 1.0 for the gold's calls, all of them and no other; 0.0 otherwise; abstains where gold or tools are bad.

    Options: `format`, one of `FORMATS`; `answer_column`, the gold: a list of calls (`name` and `arguments`, or
    OpenAI's shape, or JSON text of either), empty where no call is right; `tools`, or `tools_column` where each row has
    its own: OpenAI's list, a flat one, or name -> JSON Schema; `ordered`, whether the calls must stand in the gold's
    order; `unordered`, a list of `tool.argument` whose value is a list without order; `strings`, `exact` or `bfcl`
    (BFCL's standard form: no case, spaces or `,./-_*^`); `text_around`, whether prose may stand beside the calls.

    A gold call may have `any_of`: argument -> further values that are right; one that is named there alone may be left
    out.
    """

    range = (0.0, 1.0)

    def __init__(
        self,
        *,
        format: str = "auto",  # noqa: A002  the word that users of wire formats know
        answer_column: str = "answer",
        tools_column: str = "tools",
        tools: Any = None,
        ordered: bool = False,
        unordered: Sequence[str] = (),
        strings: str = "exact",
        text_around: bool = True,
    ) -> None:
        """Take the options of the brief; raises ValueError for one that is unknown, or tools that cannot be read."""
        if format not in FORMATS:
            raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}")
        if strings not in STRINGS:
            raise ValueError(f"strings: {strings!r} is not one of {', '.join(STRINGS)}")
        if isinstance(unordered, str) or not all(isinstance(name, str) and "." in name for name in unordered):
            raise ValueError(f"unordered: {unordered!r} is not a list of `tool.argument`")
        self.__name__ = "tool_call"
        self._format = format
        self._read: Callable[[str], Reading] = FORMATS[format]
        self._columns = answer_column, tools_column
        self._tools = None if tools is None else _key(tools)
        self._rules = Rules(bool(ordered), strings, frozenset(unordered))
        self._text_around = bool(text_around)
        if self._tools is not None and read_tools(self._tools) is None:
            raise ValueError("tools: not OpenAI's list of tools, a list of `name` and `parameters`, or name -> schema")

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if a column is not there at all."""
        answer_column, tools_column = self._columns
        golds = columns[answer_column]
        tools = [None] * len(completions) if self._tools is not None else columns[tools_column]
        known: dict[tuple[str, str, str], Judgement] = {}
        judgements = []
        for completion, gold, own_tools in zip(completions, golds, tools, strict=True):
            tools_key = _key(own_tools) if self._tools is None else self._tools
            key = (_key(gold), tools_key, _completion_key(completion))
            if key not in known:
                known[key] = self._judge(completion, key[0], tools_key)
            judgements.append(known[key])
        return report(log_extra, self.__name__, judgements)

    def _judge(self, completion: Text, gold_text: str, tools_text: str) -> Judgement:
        tools = read_tools(tools_text)
        if tools is None:
            return Judgement(None, "tools_unreadable")
        gold = _gold_of(gold_text, tools_text, self._rules)
        if gold is None:
            return Judgement(None, "gold_unreadable")
        reason = self._reason(_turns(completion), gold, tools)
        return Judgement(float(reason == "correct"), reason)

    def _reason(self, turns: Sequence[dict[str, Any]], gold: Sequence[GoldCall], tools: Mapping[str, Tool]) -> str:
        calls: list[Call] = []
        around, declined = "", False
        for turn in turns:
            text = text_of([turn])
            found = self._turn(turn, text)
            if found.problem is not None:
                return found.problem
            if mentions_call(_said_between(text), tools):
                return "misplaced_call"
            if mentions_call(found.around, tools):
                return "mixed_formats" if found.calls else "malformed"
            calls += found.calls
            around += found.around
            declined = declined or found.declined
        said = bool(around) and not around.isspace()
        if not gold and not calls:
            return "correct" if said or declined else "empty"
        if calls and said and not self._text_around:
            return "text_around"
        return verdict(gold, calls, tools, self._rules)

    def _turn(self, turn: dict[str, Any], text: str) -> Reading:
        """Return the calls of one message of the model: those the trainer parsed, or else those in its text."""
        final = after_reasoning(text)
        if final is None:
            return Reading(problem="reasoning_unclosed")
        final = without_turn_ends(final)
        items = turn.get("tool_calls")
        return read_items(items, final, verbatim=self._format == _UNTYPED) if items else self._read(final)


def _turns(completion: Text | None) -> list[dict[str, Any]]:
    """Return the messages of the model in a completion; a text is one."""
    if isinstance(completion, str):
        return [{"content": completion}]
    messages = [message for message in completion or [] if isinstance(message, dict)]
    return [message for message in messages if message.get("role", "assistant") == "assistant"]


def _said_between(text: str) -> str:
    """Return what stands outside the reasoning but before its last end: a server may see a call there.

    A text whose first tag closes began inside the reasoning, as templates open it in the prompt.
    """
    tags = list(_THINKING.finditer(text))
    while tags and not tags[-1].group(1):
        tags.pop()
    said, begins, inside = [], 0, bool(tags) and bool(tags[0].group(1))
    for tag in tags:
        if not inside:
            said.append(text[begins : tag.start()])
        inside = not tag.group(1)
        begins = tag.end()
    return "\n".join(said)


def _key(cell: Any) -> str:
    """Return a cell as JSON text; one that is no JSON gives a text that is not either."""
    if isinstance(cell, str):
        return cell
    try:
        return json.dumps(cell, default=_listed)
    except (TypeError, ValueError, RecursionError):
        return ""


def _listed(thing: Any) -> Any:
    """Return the list of an array that a table reader hands out."""
    if hasattr(thing, "tolist"):
        return thing.tolist()
    raise TypeError


def _completion_key(completion: Text | None) -> str:
    """Return a text under which equal completions, and no others, are one."""
    if isinstance(completion, str):
        return f"text {completion}"
    try:
        return f"chat {completion!r}"
    except RecursionError:
        return f"only {id(completion)}"


@functools.lru_cache(maxsize=1024)
def _gold_of(gold_text: str, tools_text: str, rules: Rules) -> tuple[GoldCall, ...] | None:
    tools = read_tools(tools_text)
    document = strict_value(gold_text)
    return None if tools is None or document.problem is not None else read_gold(document.value, tools, rules)
