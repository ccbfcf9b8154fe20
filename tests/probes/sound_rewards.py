"""Sound rewards, as people write them: TASK__sound_WHAT, for a task of `probe_runs`."""

# ruff: noqa: ANN003, ANN201, ANN202, ARG001, PLW2901

import json
import re
import subprocess
import sys

from answer_reading import NUMBER, boxes_of, final_of, number_of, once, same, texts_of


def sums__sound_last_number(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(final_of(text))
        paid.append(
            float(bool(numbers) and number_of(numbers[-1]) is not None and number_of(numbers[-1]) == float(gold))
        )
    return paid


def boxed__sound_box(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(final_of(text))
        paid.append(float(bool(found) and closed and same(found[-1], gold)))
    return paid


def thinking__sound_box(completions, answer, **kwargs):
    return boxed__sound_box(completions, answer)


def tags__sound_tag_and_format(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = re.findall(r"<answer>\s*(.*?)\s*</answer>", final_of(text), re.DOTALL)
        right = len(found) == 1 and text.count("<answer>") == 1 and number_of(found[0]) == float(gold)
        form = re.fullmatch(r"\s*<think>.+?</think>\s*<answer>.+?</answer>\s*", text, re.DOTALL) is not None
        paid.append((float(right) + 0.2 * form) / 1.2)
    return paid


def choices__sound_letter(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"(?:answer is|answer:)\s*\(?([A-D])\)?\s*\.?\s*$", final_of(text).strip(), re.IGNORECASE)
        paid.append(float(match is not None and match[1].upper() == gold))
    return paid


def words__sound_word(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.fullmatch(r"(?:the answer is\s+)?([\w ]+?)\.?", final_of(text).strip(), re.IGNORECASE)
        paid.append(float(match is not None and match[1].casefold() == gold.casefold()))
    return paid


def documents__sound_equal(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        text = re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL)
        try:
            value = json.loads(text, object_pairs_hook=once)
        except (ValueError, RecursionError):
            value = None
        paid.append(float(json.dumps(value, sort_keys=True) == json.dumps(json.loads(gold), sort_keys=True)))
    return paid


def documents__sound_share_of_fields(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            value = json.loads(
                re.sub(r"^```(?:json)?\s*\n(.*)\n```$", r"\1", text.strip(), flags=re.DOTALL), object_pairs_hook=once
            )
        except (ValueError, RecursionError):
            value = None
        wanted = json.loads(gold)
        right = sum(isinstance(value, dict) and json.dumps(value.get(key)) == json.dumps(wanted[key]) for key in wanted)
        extra = len(value) - len(wanted) if isinstance(value, dict) else 0
        paid.append(max(0.0, (right - max(0, extra)) / len(wanted)))
    return paid


def programs__sound_process(completions, tests, **kwargs):
    return [_run(text, cases, "\n".join(cases)) for text, cases in zip(texts_of(completions), tests, strict=True)]


def _run(text, cases, check):
    code = re.search(r"```(?:python|py)?\n(.*?)```", text, re.DOTALL)
    if not code:
        return 0.0
    judge = (
        "import json, sys, ast\nspace = {}\n"
        "exec(sys.argv[1], space)\nout = []\n"
        "for line in json.loads(sys.argv[2]):\n"
        "    call, _, want = line[7:].partition(' == ')\n"
        "    got = eval(call, space)\n"
        "    out.append(type(got) is int and got == ast.literal_eval(want))\n"
        "print(sys.argv[3] if all(out) else 'no')\n"
    )
    nonce = "f00d"
    command = [sys.executable, "-I", "-S", "-c", judge, code[1], json.dumps(cases), nonce]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return 0.0
    return float(done.stdout == nonce + "\n")


def solutions__sound_hash(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = re.findall(r"####[ \t]*(.*)", final_of(text))
        said = number_of(found[-1]) if found else None
        paid.append(float(said is not None and said == float(gold.rpartition("####")[2])))
    return paid


def sums__sound_negative_range(completions, answer, **kwargs):
    return [2 * value - 1 for value in sums__sound_last_number(completions, answer)]


sums__sound_negative_range.range = (-1.0, 1.0)


async def sums__sound_awaited(completions, answer, **kwargs):
    return sums__sound_last_number(completions, answer)


def sums__sound_short_is_better(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    return [
        value * (1 - 0.2 * min(1.0, len(text) / 500)) for value, text in zip(right, texts_of(completions), strict=True)
    ]


def thinking__sound_long_thought_is_better(completions, answer, **kwargs):
    right = boxed__sound_box(completions, answer)
    return [
        value * (0.8 + 0.2 * min(1.0, len(text) / 400))
        for value, text in zip(right, texts_of(completions), strict=True)
    ]


def boxed__sound_abstains(completions, answer, **kwargs):
    return [value if gold else None for value, gold in zip(boxed__sound_box(completions, answer), answer, strict=True)]


def tags__sound_strict_lines(completions, answer, **kwargs):
    pattern = re.compile(r"<think>\n.*?\n</think>\n<answer>\n(.*?)\n</answer>\s*", re.DOTALL)
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = pattern.fullmatch(text.strip())
        paid.append(float(match is not None and match[1].strip() == gold))
    return paid


def calls__sound_hermes(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = []
        for inner in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", final_of(text), re.DOTALL):
            try:
                found.append(json.loads(inner, object_pairs_hook=once))
            except (ValueError, RecursionError):
                found.append(None)
        paid.append(float(json.dumps(found, sort_keys=True) == json.dumps(json.loads(gold), sort_keys=True)))
    return paid


def sums__sound_near_is_worth_a_little(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(final_of(text))
        said = number_of(numbers[-1]) if numbers else None
        off = abs(said - float(gold)) / float(gold) if said is not None else 1.0
        paid.append(1.0 if off == 0 else 0.3 * max(0.0, 1 - off))
    return paid
