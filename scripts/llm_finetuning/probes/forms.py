r"""How right answers are written: a table of forms, tried in order until it is known which ones a reward pays.

Sources of the forms: plain prose; `\boxed{}` (MATH); `####` (GSM8K); `<think>` and `<answer>` (DeepSeek-R1-Zero,
arXiv:2501.12948) with and without line breaks; a call in the wire formats of Hermes, Llama and OpenAI; fenced code.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Prompt, Write

THOUGHT = "First, look at what is asked. Then work it out step by step and check the result once more."
"""Plain reasoning without a digit, so that no reader of answers finds one in it."""

_HEAD = {False: "<think>", True: ""}
_HEAD_LINES = {False: "<think>\n", True: ""}

_WRITTEN: dict[str, str] = {
    "sentence": "The answer is {}.",
    "box": "\\boxed{{{}}}",
    "tag": "<answer>{}</answer>",
    "hash": "#### {}",
    "bare": "{}",
    "colon": "Answer: {}",
    "final_colon": "Final answer: {}",
    "reasoned_sentence": THOUGHT + "\nThe answer is {}.",
    "reasoned_box": THOUGHT + "\n\\boxed{{{}}}",
    "reasoned_hash": THOUGHT + "\n#### {}",
    "reasoned_tag": THOUGHT + "\n<answer>{}</answer>",
    "tag_box": "<answer>\\boxed{{{}}}</answer>",
    "reasoning_tag_lines": "<reasoning>\n" + THOUGHT + "\n</reasoning>\n<answer>\n{}\n</answer>\n",
    "json_answer": '{{"answer": "{}"}}',
    "json_number": '{{"answer": {}}}',
}

_AFTER_THOUGHT: dict[str, str] = {
    "tag": "<answer>{}</answer>",
    "box": "\\boxed{{{}}}",
    "sentence": "The answer is {}.",
    "bare": "{}",
    "tag_box": "<answer>\\boxed{{{}}}</answer>",
}


def forms(prompt: Prompt) -> Iterator[tuple[str, Write]]:
    """Yield the name and the writer of every form that fits the prompt's gold, likeliest first."""
    kind = prompt.gold.kind
    if kind in golds.WRITTEN or kind == "prose":
        found = list(_written(prompt))
    elif kind == "json":
        found = list(_documents(prompt))
    elif kind == "calls":
        found = list(_calls(prompt))
    elif kind == "code":
        found = list(_programs(prompt))
    else:
        found = []
    asked = str(prompt.prompt)
    yield from sorted(found, key=lambda item: not _asked_for(item[0], asked))
    substituted = _substituted(prompt)
    if substituted is not None:
        yield "sample", substituted


def _asked_for(name: str, asked: str) -> bool:
    marks = {"box": "boxed", "tag": "<answer>", "hash": "####"}
    return any(mark in asked and key in name.split("_") for key, mark in marks.items())


def _filled(pattern: str) -> Write:
    return pattern.format


def _written(prompt: Prompt) -> Iterator[tuple[str, Write]]:
    for name, pattern in _WRITTEN.items():
        yield name, _filled(pattern)
    for name, write in _thoughtful(prompt, {key: _filled(pattern) for key, pattern in _AFTER_THOUGHT.items()}):
        yield name, write
    worked, answer = prompt.gold.worked, prompt.gold.answer
    if worked is not None and answer:
        before, _, after = worked.rpartition(answer)
        yield "worked", lambda text: before + text + after


def _thoughtful(prompt: Prompt, inner: dict[str, Write]) -> Iterator[tuple[str, Write]]:
    """Yield forms with a thought before the answer; without the opening tag where the prompt ends with it."""
    head, head_lines = _HEAD[prompt.opened], _HEAD_LINES[prompt.opened]
    for name, write in inner.items():
        yield f"think_{name}", _joined(f"{head}{THOUGHT}</think>", write)
        yield f"think_lines_{name}", _joined(f"{head_lines}{THOUGHT}\n</think>\n", write)
    if "tag" in inner:
        tag = f"{head_lines}{THOUGHT}\n</think>\n<answer>\n"
        yield "think_lines_tag_lines", lambda answer: f"{tag}{answer}\n</answer>"


def _joined(before: str, write: Write) -> Write:
    return lambda answer: before + write(answer)


def _documents(prompt: Prompt) -> Iterator[tuple[str, Write]]:
    inner: dict[str, Write] = {
        "bare": lambda answer: answer,
        "fence": lambda answer: f"```json\n{answer}\n```",
        "tag": lambda answer: f"<answer>{answer}</answer>",
    }
    yield from inner.items()
    yield "reasoned_fence", lambda answer: f"{THOUGHT}\n\n```json\n{answer}\n```"
    yield "reasoned_bare", lambda answer: f"{THOUGHT}\n{answer}"
    yield from _thoughtful(prompt, inner)


def calls_of(answer: str) -> list[dict[str, Any]]:
    """Return calls as name and arguments, whatever the gold's shape."""
    value = json.loads(answer)
    found = []
    for call in value if isinstance(value, list) else [value]:
        inner = call.get("function") if isinstance(call.get("function"), dict) else call
        arguments = inner.get("arguments", inner.get("parameters")) or {}
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        found.append({"name": inner.get("name"), "arguments": arguments})
    return found


def _each(pattern: str, key: str) -> Write:
    def write(answer: str) -> str:
        calls = [{"name": call["name"], key: call["arguments"]} for call in calls_of(answer)]
        return "\n".join(pattern.replace("CALL", json.dumps(call, ensure_ascii=False)) for call in calls)

    return write


def _all(shape: Callable[[list[dict[str, Any]]], Any]) -> Write:
    return lambda answer: json.dumps(shape(calls_of(answer)), ensure_ascii=False)


def _openai(calls: list[dict[str, Any]]) -> Any:
    return {
        "tool_calls": [
            {"type": "function", "function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls
        ]
    }


def _pythonic(answer: str) -> str:
    written = [
        f"{call['name']}({', '.join(f'{key}={value!r}' for key, value in call['arguments'].items())})"
        for call in calls_of(answer)
    ]
    return f"[{', '.join(written)}]"


def _xml(answer: str) -> str:
    parts = []
    for call in calls_of(answer):
        given = "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
            for key, value in call["arguments"].items()
        )
        parts.append(f"<tool_call>\n<function={call['name']}>\n{given}</function>\n</tool_call>")
    return "\n".join(parts)


def _calls(prompt: Prompt) -> Iterator[tuple[str, Write]]:
    inner: dict[str, Write] = {
        "hermes": _each("<tool_call>\nCALL\n</tool_call>", "arguments"),
        "list": _all(lambda calls: calls),
        "objects": _each("CALL", "arguments"),
        "llama": _each("CALL", "parameters"),
        "openai": _all(_openai),
        "pythonic": _pythonic,
        "mistral": lambda answer: "[TOOL_CALLS] " + json.dumps(calls_of(answer), ensure_ascii=False),
        "xml": _xml,
        "fence": lambda answer: f"```json\n{json.dumps(calls_of(answer), ensure_ascii=False)}\n```",
        "gold": str,
        "tag": lambda answer: f"<answer>{answer}</answer>",
    }
    yield from inner.items()
    yield from _thoughtful(prompt, {name: inner[name] for name in ("hermes", "list")})


def _programs(prompt: Prompt) -> Iterator[tuple[str, Write]]:
    inner: dict[str, Write] = {
        "fence": lambda code: f"```python\n{code}\n```",
        "bare": lambda code: code,
        "tag": lambda code: f"<answer>\n{code}\n</answer>",
        "tag_fence": lambda code: f"<answer>\n```python\n{code}\n```\n</answer>",
    }
    yield from inner.items()
    yield "reasoned_fence", lambda code: f"{THOUGHT}\n\n```python\n{code}\n```"
    yield from _thoughtful(prompt, {name: inner[name] for name in ("fence", "tag", "tag_fence")})


def _substituted(prompt: Prompt) -> Write | None:
    """Return the best-paid real completion as a form: answers go wherever the gold stands in it.

    A number is found in every notation. Were one place of several changed, the text would still say the gold.
    """
    answer, best = prompt.gold.answer, prompt.best
    if not answer or not best:
        return None
    if prompt.gold.kind == "number":
        value = golds.number(answer)
        places = [place for place in golds.IN_TEXT.finditer(best) if golds.number(place[0]) == value]
    else:
        if prompt.gold.kind == "choice":
            answer = golds.letter(prompt.gold)
        places = list(re.finditer(rf"(?<![\w.,]){re.escape(answer)}(?!\w|[.,]\d)", best))
    if not places:
        return None
    cuts = [0, *(end for place in places for end in place.span()), len(best)]
    kept = [best[begin:end] for begin, end in zip(cuts[::2], cuts[1::2], strict=True)]
    return lambda text: text.join(kept)
