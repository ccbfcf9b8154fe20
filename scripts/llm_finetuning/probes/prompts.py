"""The prompts that are attacked, with their golds: chosen over the whole of the samples."""

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from llm_finetuning.brief import LoadedBrief
from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Prompt
from llm_finetuning.probes.programs_of_tests import solved
from llm_finetuning.probes.schema_instances import instance
from llm_finetuning.types import Component, Sample, Score, Text

PROMPTS = 24

_GOLD_COLUMNS = (
    "answer", "solution", "gold", "target", "label", "ground_truth", "final_answer", "expected", "reference", "calls",
)  # fmt: skip
_GOLD_READERS = ("exact_answer", "choice_answer", "math_answer", "tool_call")
_TEST_COLUMNS = ("tests", "test_list", "test", "unit_tests", "test_cases")
_CODE_COLUMNS = ("canonical_solution", "reference_solution", "solution", "code", "reference")
_TAG_OPENED = re.compile(r"<(?:think|thinking|reasoning)>\s*\Z", re.IGNORECASE)
_TAG = re.compile(r"</?(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_REASONING_MODEL = re.compile(r"qwen3|\br1\b|think|reason|gpt-oss|magistral|qwq", re.IGNORECASE)
_NOTHING_ELSE = re.compile(
    r"\bonly\b|nothing else|no (?:markdown|code fence|fence|explanation|other text|prose|backticks)"
    r"|without (?:markdown|fence|explanation|any)",
    re.IGNORECASE,
)

_FENCE = re.compile(r"\bfenced?\b|```", re.IGNORECASE)
_NO_FENCE = re.compile(
    r"\b(?:no|not|never|without|avoid|don.t|neither|nor)\b[^.\n]{0,60}(?:\bfences?\b|\bfenced\b|```)", re.IGNORECASE
)
_LETTER = re.compile(r"\b(?:one|the|its|a single|only a) letter\b", re.IGNORECASE)
_OWN_FORM = re.compile(
    r"\\boxed|####|</?\w+>|\bformat\b|\bform\b|\bJSON\b|answer is|answer:|begin with|start with|end with|last line",
    re.IGNORECASE,
)


def library_options(loaded: LoadedBrief) -> dict[str, Any]:
    """Return the options of all library rewards of the brief together."""
    return {key: value for wanted in loaded.brief.rewards for key, value in wanted.options.items()}


def gold_column(loaded: LoadedBrief, components: Sequence[Component], columns: Sequence[str]) -> str | None:
    """Return the column that rewards take the right answer from, None where none is known.

    It is an option `answer_column`, the brief's `dataset.answer`, or a column of a usual name that a reward names, as a
    parameter or in quotes. A column that no reward asks for is no gold: what is rewarded is something else then.
    """
    named = library_options(loaded).get("answer_column")
    if isinstance(named, str) and named in columns:
        return named
    if loaded.brief.dataset.answer is not None and "answer" in columns:
        return "answer"
    reads_gold = any(wanted.use in _GOLD_READERS for wanted in loaded.brief.rewards)
    if reads_gold and "answer" in columns:
        return "answer"
    known = [name for name in _GOLD_COLUMNS if name in columns]
    return next((name for name in known if any(_asks(part.function, name) for part in components)), None)


def _asks(function: Any, column: str) -> bool:
    """Tell whether a function names a column as a parameter or, to take it from its keywords, in quotes."""
    try:
        if column in inspect.signature(function).parameters:
            return True
        source = inspect.getsource(function)
    except (TypeError, ValueError, OSError):
        return False
    return f'"{column}"' in source or f"'{column}'" in source


def prompts_of(
    loaded: LoadedBrief,
    components: Sequence[Component],
    samples: Sequence[Sample],
    scores: Sequence[Score],
    *,
    open_thought: bool,
) -> list[Prompt]:
    """Return up to `PROMPTS` prompts, evenly spread over the samples in their order."""
    policy = [sample for sample in samples if sample.pass_name == "policy"] or list(samples)
    first = {sample.prompt_id: sample for sample in reversed(policy)}
    ordered = sorted(first.values(), key=lambda sample: sample.row)
    columns = list(dict.fromkeys(key for sample in ordered for key in sample.columns))
    column = gold_column(loaded, components, columns)
    options = library_options(loaded)
    best = _best(policy, scores)
    values_count = _compares(loaded)
    read = {
        sample.prompt_id: _gold(sample.columns, column, options)
        if values_count
        else _document(sample.columns, column, options)
        for sample in ordered
    }
    letters = letters_of(read.values())
    step = max(1.0, len(ordered) / PROMPTS)
    chosen = [ordered[int(place * step)] for place in range(min(PROMPTS, len(ordered)))]
    found: list[Prompt] = []
    for sample in chosen:
        gold = read[sample.prompt_id]
        others = [other.answer for prompt_id, other in read.items() if prompt_id != sample.prompt_id]
        found.append(
            Prompt(
                prompt_id=sample.prompt_id,
                row=sample.row,
                prompt=sample.prompt,
                columns=sample.columns,
                gold=gold,
                wrong=golds.wrong_answers(gold, _turned(others, len(found)), letters)
                if values_count
                else ["I do not know."],
                chat=not isinstance(sample.completion, str),
                opened=open_thought or _TAG_OPENED.search(_said(sample.prompt)) is not None,
                best=best.get(sample.prompt_id),
                values_count=values_count,
                tests=_cell(sample.columns, options.get("tests_column"), _TEST_COLUMNS),
                tools=_cell(sample.columns, options.get("tools_column"), ("tools", "functions")),
                schema=options.get("schema") or _cell(sample.columns, options.get("schema_column"), ("schema",)),
            )
        )
    return found


_FORM_ALONE = ("json_schema", "format_tags", "format_pattern", "soft_overlong", "repetition_penalty")


def _compares(loaded: LoadedBrief) -> bool:
    """Tell whether a reward may compare with the gold; a schema alone, with the library's forms, does not."""
    used = [wanted.use for wanted in loaded.brief.rewards]
    return not ("json_schema" in used and all(name in _FORM_ALONE for name in used))


def _document(columns: Mapping[str, Any], column: str | None, options: Mapping[str, Any]) -> golds.Gold:
    """Return the gold where it is a document, else one that the schema should accept."""
    found = golds.read_gold(columns.get(column)) if column else golds.Gold("none", "", None)
    if found.kind == "json":
        return found
    schema = options.get("schema") or _cell(columns, options.get("schema_column"), ("schema",))
    made = instance(schema)
    return golds.Gold("json", json.dumps(made), made)


def _turned(others: Sequence[str], place: int) -> list[str]:
    """Return the other golds from another one on for each prompt, so that no one of them decides all."""
    cut = place % len(others) if others else 0
    return [*others[cut:], *others[:cut]]


def _cell(columns: Mapping[str, Any], named: Any, usual: Sequence[str]) -> Any:
    keys = [named] if isinstance(named, str) else usual
    return next((columns[key] for key in keys if columns.get(key) is not None), None)


def _gold(columns: Mapping[str, Any], column: str | None, options: Mapping[str, Any]) -> golds.Gold:
    tests = _cell(columns, options.get("tests_column"), _TEST_COLUMNS)
    if tests is not None:
        for name in (*_CODE_COLUMNS, "answer"):
            found = golds.read_gold(columns.get(name))
            if found.kind == "code":
                return found
        program = solved(tests)
        if program is not None:
            return golds.Gold("code", program, program)
    found = golds.read_gold(columns.get(column)) if column else golds.Gold("none", "", None)
    listed = columns.get(str(options.get("choices_column")))
    if isinstance(listed, list) and found.kind != "choice":
        return _choice(found, listed)
    return found


def _choice(gold: golds.Gold, listed: Sequence[Any]) -> golds.Gold:
    """Return a choice for a gold that is an option's number from 0 or its text."""
    place = gold.raw if isinstance(gold.raw, int) and not isinstance(gold.raw, bool) else None
    if place is None:
        texts = [str(option) for option in listed]
        place = texts.index(gold.answer) if gold.answer in texts else None
    return golds.Gold("choice", "ABCDEFGHIJ"[place], gold.raw) if place is not None and 0 <= place < 10 else gold  # noqa: PLR2004


def letters_of(read: Any) -> list[str]:
    """Return the options that golds name, A to D at least."""
    named = {golds.letter(gold) for gold in read if gold.kind == "choice"} | set("ABCD")
    return sorted(named)


def _best(policy: Sequence[Sample], scores: Sequence[Score]) -> dict[str, str]:
    """Return each prompt's best-paid real completion that ended by itself."""
    paid = {score.sample_id: score.reward for score in scores if score.reward is not None}
    found: dict[str, tuple[float, str]] = {}
    for sample in policy:
        reward = paid.get(sample.sample_id)
        if reward is None or sample.finish_reason != "stop":
            continue
        if sample.prompt_id not in found or reward > found[sample.prompt_id][0]:
            found[sample.prompt_id] = (reward, _said(sample.completion))
    return {prompt_id: text for prompt_id, (_, text) in found.items()}


def _said(text: Text) -> str:
    return text if isinstance(text, str) else "".join(str(message.get("content") or "") for message in text[-1:])


def all_said(prompt: Text) -> str:
    """Return all that a prompt says."""
    return prompt if isinstance(prompt, str) else "\n".join(str(message.get("content") or "") for message in prompt)


def reasons(loaded: LoadedBrief, samples: Sequence[Sample]) -> bool:
    """Tell whether thoughts in tags are to be expected: in prompts, in what the model says, or of such a model."""
    if _REASONING_MODEL.search(loaded.brief.model) or loaded.brief.sampling.chat_template_kwargs.get("enable_thinking"):
        return True
    return any(_TAG.search(all_said(sample.prompt)) or _TAG.search(all_said(sample.completion)) for sample in samples)


def is_strict(prompt: Text) -> bool:
    """Tell whether a prompt asks for the answer and nothing else."""
    return _NOTHING_ELSE.search(all_said(prompt)) is not None


def allows_fence(prompt: Text) -> bool:
    """Tell whether a prompt speaks of a code fence without forbidding it."""
    asked = all_said(prompt)
    return _FENCE.search(asked) is not None and _NO_FENCE.search(asked) is None


def asks_letter(prompt: Text) -> bool:
    """Tell whether a prompt asks for a letter and names no form in which to write it."""
    asked = all_said(prompt)
    return _LETTER.search(asked) is not None and _OWN_FORM.search(asked) is None
