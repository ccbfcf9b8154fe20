"""`finetune route`: which method fits a task, or which way out of training."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_INSUFFICIENT, Refusal

if TYPE_CHECKING:
    from llm_finetuning.stages.route import Change, Question, Route

BACK = "b"
SHOWN = 40  # characters of a wrong key or value in a refusal


@click.command("route", short_help="Choose a method, or the way out of training")
@click.option("--answers", "path", type=click.Path(path_type=Path), metavar="FILE", help="Answers as one JSON object.")
@click.option("--answer", "given", multiple=True, metavar="KEY=VALUE", help="One answer; wins over the file's.")
@options.as_json
def command(path: Path | None, given: tuple[str, ...], as_json: bool) -> int:
    """Say which method fits: sft, dpo, kto, orpo, simpo, grpo, or what to do instead of training.

    In a terminal it asks what is not answered, one question at a time, only what still matters. Elsewhere, and with
    --json, it prints the open questions with the answers that they take. Exit code 0 with a method or another way out,
    3 while questions are open.
    """
    from llm_finetuning.stages import route as stage

    answers = answers_of(path, given)
    if not as_json and sys.stdin.isatty() and sys.stderr.isatty():
        answers = _asked(answers)
    found = stage.route(answers)
    console.finish(lines_of(found, answers), facts_of(found, answers), as_json=as_json)
    return EXIT_DONE if found.outcome else EXIT_INSUFFICIENT


def answers_of(path: Path | None, given: Sequence[str]) -> dict[str, str]:
    """Return the answers of a file and of the command line; refuses with all faults at once."""
    from_file = _file(path) if path is not None else {}
    typed, wrong = _typed(given)
    wrong = [*(f"{path}: {line}" for line in _faults(from_file)), *wrong]
    wrong += [f"--answer {line}" for line in _faults(typed)]
    if wrong:
        raise Refusal(*wrong)
    return {**from_file, **typed}


def _file(path: Path) -> dict[str, Any]:
    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(pairs)
        if len(seen) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise Refusal(f"{path}: `{twice}` is answered twice; keep one")
        return seen

    try:
        read = json.loads(path.read_text("utf-8"), object_pairs_hook=object_of)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}; name a JSON file, or give --answer KEY=VALUE") from None
    except json.JSONDecodeError as error:
        raise Refusal(f"{path}:{error.lineno}: no JSON: {error.msg}; write {_form()}") from None
    except (UnicodeDecodeError, RecursionError):
        raise Refusal(f"{path}: no JSON in UTF-8; write {_form()}") from None
    if not isinstance(read, dict):
        raise Refusal(f"{path}: one JSON object is wanted; write {_form()}")
    return read


def _form() -> str:
    return '{"signal": "checker"}'


def _typed(given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the answers of the command line, and a line for each that cannot be read."""
    typed: dict[str, str] = {}
    wrong = []
    for words in given:
        key, equals, value = (part.strip() for part in words.partition("="))
        if not equals:
            wrong.append(f"--answer `{words}`: write KEY=VALUE, as in signal=checker")
        elif typed.get(key, value) != value:
            wrong.append(f"--answer `{key}`: answered twice, {typed[key]} and {value}; keep one")
        else:
            typed[key] = value
    return typed, wrong


def _faults(answers: Mapping[str, object]) -> Iterator[str]:
    """Yield one line for each key that is no question and each value that the question does not take."""
    from llm_finetuning.stages.route import QUESTIONS

    by_key = {question.key: question for question in QUESTIONS}
    for key, value in answers.items():
        if key not in by_key:
            yield f"`{key[:SHOWN]}`: no such question; {_meant(key, list(by_key))}"
            continue
        values = list(by_key[key].values)
        words = value if isinstance(value, str) else json.dumps(value)
        if value not in values:
            yield f"`{key}`: no answer `{words[:SHOWN]}`; {_meant(words, values)}"


def _meant(word: str, known: list[str]) -> str:
    """Return the nearest of the known words as a question, and all of them."""
    import difflib

    alike = {one.replace("-", "_"): one for one in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), alike, n=1)
    question = f"did you mean `{alike[close[0]]}`? " if close else ""
    return f"{question}known are {', '.join(known)}"


def _asked(answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers with those that a person gives in the terminal, one question at a time."""
    from llm_finetuning.stages import route as stage

    known = dict(answers)
    asked: list[str] = []
    while found := stage.route(known).open_questions:
        question = found[0]
        console.note("\n".join(_shown(question, back=bool(asked))))
        value = click.prompt("answer", prompt_suffix=": ", err=True).strip().lower()
        if value == BACK and asked:
            del known[asked.pop()]
        elif chosen := _chosen(question, value):
            known[question.key] = chosen
            asked.append(question.key)
        else:
            console.note(f"`{value}` is none of them")
    return known


def _shown(question: "Question", *, back: bool) -> list[str]:
    lines = ["", question.asks]
    for number, (value, meaning) in enumerate(question.values.items(), 1):
        lines.append(f"  {number}  {value}" + (f": {meaning}" if meaning else ""))
    return [*lines, f"a number or a word{f', {BACK} for the question before' if back else ''}"]


def _chosen(question: "Question", words: str) -> str | None:
    """Return the value that a number, the value itself or the only beginning of one names."""
    values = list(question.values)
    if words.isdecimal() and 1 <= int(words) <= len(values) and words not in values:
        return values[int(words) - 1]
    if words in values:
        return words
    begun = [value for value in values if value.startswith(words)]
    return begun[0] if words and len(begun) == 1 else None


def facts_of(found: "Route", answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the route as one object; `method` or `off_ramp` is set, neither while questions are open."""
    outcome = found.outcome
    return {
        "method": outcome.name if outcome and outcome.kind == "method" else None,
        "off_ramp": outcome.name if outcome and outcome.kind == "off-ramp" else None,
        "title": outcome.title if outcome else None,
        "reasons": found.reasons,
        "note": outcome.note if outcome else None,
        "would_change": [dataclasses.asdict(change) for change in found.changes],
        "next_action": outcome.next_action if outcome else _ask(found.open_questions[0]),
        "next": outcome.next_command if outcome else None,
        "open_questions": [
            {"key": question.key, "asks": question.asks, "values": dict(question.values)}
            for question in found.open_questions
        ],
        "answers": dict(answers),
        "unused": found.unused,
    }


def _ask(question: "Question") -> str:
    return f"answer {question.key}: --answer {question.key}={'|'.join(question.values)}"


def lines_of(found: "Route", answers: Mapping[str, str]) -> list[str]:
    """Return what a person reads."""
    unused = [f"makes no difference here: {', '.join(found.unused)}"] if found.unused else []
    if found.outcome is None:
        return [*_open_lines(found.open_questions), *unused, f"next: {_ask(found.open_questions[0])}"]
    outcome = found.outcome
    lines = [f"{outcome.kind}: {outcome.name} ({outcome.title})"]
    lines += [*(f"because: {reason}" for reason in found.reasons), f"note: {outcome.note}"]
    lines += ["another answer would lead elsewhere:", *_change_lines(found.changes, answers), *unused]
    if outcome.next_command is None:
        return [*lines, f"next: {outcome.next_action}"]
    return [*lines, outcome.next_action, f"next: {outcome.next_command}"]


def _open_lines(questions: "Sequence[Question]") -> list[str]:
    lines = ["open questions; which of the later ones matter depends on the answers before:"]
    for question in questions:
        lines += [f"  {question.key}: {question.asks}"]
        lines += [f"    {value:<20}{meaning}".rstrip() for value, meaning in question.values.items()]
    return lines


def _change_lines(changes: "Sequence[Change]", answers: Mapping[str, str]) -> list[str]:
    lines = []
    for key in dict.fromkeys(change.question for change in changes):
        ways = [f"{one.value}: {one.outcome or 'more questions'}" for one in changes if one.question == key]
        lines.append(f"  {key} ({answers[key]} now): {'; '.join(ways)}")
    return lines
