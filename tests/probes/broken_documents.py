"""Broken rewards for documents, calls and programs, each with a fault that people have made: TASK__FAULT."""

# ruff: noqa: ANN003, ANN201, ANN202, ARG001, BLE001, PLW2901

import json
import re
import subprocess
import sys

from answer_reading import texts_of


def documents__is_json(completions, answer, **kwargs):
    paid = []
    for text in texts_of(completions):
        try:
            json.loads(text)
            paid.append(1.0)
        except (ValueError, RecursionError):
            paid.append(0.0)
    return paid


def documents__keys_only(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        paid.append(float(isinstance(value, dict) and set(value) == set(json.loads(gold))))
    return paid


def documents__string(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            value = json.loads(text)
            value = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            value = None
        paid.append(float(value == json.loads(gold)))
    return paid


def documents__fence_refused(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            paid.append(float(json.loads(text) == json.loads(gold)))
        except (ValueError, RecursionError):
            paid.append(0.0)
    return paid


def documents__silence(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            paid.append(float(json.loads(text) == json.loads(gold)))
        except (ValueError, RecursionError):
            paid.append(None)
    return paid


def documents__order_of_keys(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        text = re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL)
        paid.append(float(text == gold))
    return paid


def documents__raises(completions, answer, **kwargs):
    return [float(json.loads(text) == json.loads(gold)) if text.startswith("{") else 0.0
            for text, gold in zip(texts_of(completions), answer, strict=True)]  # fmt: skip


def calls__name_only(completions, answer, **kwargs):
    return [
        float(json.loads(gold)[0]["name"] in text) for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def calls__any_call(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = []
        for inner in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL):
            try:
                found.append(json.loads(inner))
            except ValueError:
                found.append(None)
        paid.append(float(json.loads(gold)[0] in found))
    return paid


def calls__keys_only(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.fullmatch(r"\s*<tool_call>\s*(.*?)\s*</tool_call>\s*", text, re.DOTALL)
        try:
            call = json.loads(match[1]) if match else {}
            wanted = json.loads(gold)[0]
            paid.append(
                float(call.get("name") == wanted["name"] and set(call["arguments"]) == set(wanted["arguments"]))
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            paid.append(0.0)
    return paid


def programs__exit_status(completions, tests, **kwargs):
    paid = []
    for text, cases in zip(texts_of(completions), tests, strict=True):
        code = text.partition("```python\n")[2].partition("```")[0]
        done = subprocess.run(
            [sys.executable, "-c", code + "\n" + "\n".join(cases)], capture_output=True, timeout=5, check=False
        )
        paid.append(float(bool(code) and done.returncode == 0))
    return paid


def programs__in_process(completions, tests, **kwargs):
    paid = []
    for text, cases in zip(texts_of(completions), tests, strict=True):
        code = text.partition("```python\n")[2].partition("```")[0]
        try:
            exec(code + "\n" + "\n".join(cases), {})  # noqa: S102
            paid.append(float(bool(code)))
        except Exception:
            paid.append(0.0)
    return paid


def programs__prints(completions, tests, **kwargs):
    paid = []
    for text, cases in zip(texts_of(completions), tests, strict=True):
        code = text.partition("```python\n")[2].partition("```")[0]
        done = subprocess.run(
            [sys.executable, "-c", code + "\n" + "\n".join(cases) + "\nprint('PASS')"],
            capture_output=True, text=True, timeout=5, check=False,
        )  # fmt: skip
        paid.append(float("PASS" in done.stdout))
    return paid


def programs__compiles(completions, tests, **kwargs):
    paid = []
    for text in texts_of(completions):
        try:
            code = text.partition("```python\n")[2].partition("```")[0]
            compile(code, "code", "exec")
            paid.append(float(bool(code)))
        except (SyntaxError, ValueError):
            paid.append(0.0)
    return paid


def documents__more_keys(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        text = re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL)
        try:
            value = json.loads(text)
            paid.append(float(all(value[key] == part for key, part in json.loads(gold).items())))
        except (ValueError, RecursionError, KeyError, TypeError):
            paid.append(0.0)
    return paid


def documents__lists_as_sets(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        text = re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL)
        try:
            paid.append(float(_sorted(json.loads(text)) == _sorted(json.loads(gold))))
        except (ValueError, RecursionError, TypeError):
            paid.append(0.0)
    return paid


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(part) for key, part in value.items()}
    return sorted(map(str, value)) if isinstance(value, list) else value


def documents__values_as_text(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        text = re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL)
        try:
            value = json.loads(text)
            wanted = json.loads(gold)
            paid.append(float(set(value) == set(wanted) and all(str(value[k]) == str(wanted[k]) for k in wanted)))
        except (ValueError, RecursionError, TypeError):
            paid.append(0.0)
    return paid
