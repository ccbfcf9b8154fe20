"""Measure `json_schema` beside its peers: accuracy on the cases, CPU time on batches of documents of about 500 bytes.

python tests/bench_schema.py CASES.jsonl     prints a Markdown table; peers that are not installed are left out.
Run it with an interpreter that has fastjsonschema and orjson beside this package's dependencies. Each case runs in a
process of its own per grader, which is ended where it hangs: a case that hangs, raises or crashes counts as wrong.
"""

import json
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from llm_finetuning.rewards.json_schema import JsonSchema

HANG_S = 10.0

Grader = Callable[[Sequence[str], Sequence[Any]], list[float | None]]

ITEM = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "minLength": 1, "pattern": "^[a-z]+ [0-9]+$"},
        "price": {"type": "number", "exclusiveMinimum": 0},
        "tag": {"enum": ["new", "used"]},
    },
    "required": ["id", "name", "price"],
    "additionalProperties": False,
}
LIST = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": ITEM, "minItems": 1}},
    "required": ["items"],
}


def json_schema(texts: Sequence[str], schemas: Sequence[Any]) -> list[float | None]:
    """Pay as the product does."""
    return JsonSchema()(completions=texts, schema=schemas)


def each(decide: Callable[[str, Any], bool]) -> Grader:
    """Return a grader that asks text by text."""
    return lambda texts, schemas: [float(decide(text, schema)) for text, schema in zip(texts, schemas, strict=True)]


def peers() -> dict[str, Grader]:
    """Return the graders that can be imported here."""
    import jsonschema

    def loads_and_validate(text: str, schema: Any) -> bool:
        try:
            jsonschema.validate(json.loads(text), schema)
        except (ValueError, jsonschema.ValidationError):
            return False
        return True

    def first_brace(text: str, schema: Any) -> bool:
        found = re.search(r"\{.*\}", text, re.DOTALL)
        return loads_and_validate(found.group() if found else text, schema)

    validators: dict[str, jsonschema.protocols.Validator] = {}

    def loads_and_kept(text: str, schema: Any) -> bool:
        key = json.dumps(schema)
        if key not in validators:
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            kind.check_schema(schema)
            validators[key] = kind(schema)
        try:
            return bool(validators[key].is_valid(json.loads(text)))
        except ValueError:
            return False

    found = {
        "json_schema (ours)": json_schema,
        "json.loads + jsonschema.validate": each(loads_and_validate),
        "first brace + jsonschema.validate": each(first_brace),
        "json.loads + jsonschema, validator kept": each(loads_and_kept),
    }
    for name, make in (("fastjsonschema, validator kept", fast), ("orjson + jsonschema-rs, kept", orjson_and_rs)):
        try:
            found[name] = make()
        except ImportError as missing:
            print(f"{missing.name} is not installed here", file=sys.stderr)
    return found


def fast() -> Grader:
    import fastjsonschema

    kept: dict[str, Callable[[Any], Any]] = {}

    def decide(text: str, schema: Any) -> bool:
        key = json.dumps(schema)
        if key not in kept:
            kept[key] = fastjsonschema.compile(schema)
        try:
            kept[key](json.loads(text))
        except (ValueError, fastjsonschema.JsonSchemaValueException):
            return False
        return True

    return each(decide)


def orjson_and_rs() -> Grader:
    import jsonschema_rs
    import orjson

    kept: dict[bytes, jsonschema_rs.Validator] = {}

    def decide(text: str, schema: Any) -> bool:
        key = orjson.dumps(schema)
        if key not in kept:
            kept[key] = jsonschema_rs.validator_for(schema)
        try:
            return kept[key].is_valid(orjson.loads(text))
        except ValueError:
            return False

    return each(decide)


def batch(documents: int = 512) -> tuple[list[str], list[Any]]:
    """Return documents of ten items and about 500 bytes, all different, a third of them invalid, under one schema."""
    texts = []
    for n in range(documents):
        items: list[dict[str, Any]] = [
            {"id": n * 10 + place + 1, "name": f"item {n + place}", "price": round(0.5 + n * 0.37 + place, 2)}
            for place in range(10)
        ]
        if n % 3 == 0:
            items[n % 10]["price"] = -1
        texts.append(json.dumps({"items": items}, separators=(",", ":")))
    return texts, [LIST] * documents


def serve(name: str, pipe: Connection) -> None:
    """Answer case by case in a process that may be ended."""
    grade = peers()[name]
    while True:
        text, schema = pipe.recv()
        try:
            pipe.send(grade([text], [schema])[0])
        except Exception as error:  # noqa: BLE001  a peer that raises is counted, not mended
            pipe.send(type(error).__name__)


class Guarded:
    """One grader in its own process, started anew after a hang or a crash."""

    def __init__(self, name: str) -> None:
        """Take the grader's name in `peers`."""
        self._name = name
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(self._name, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.send(("1", True))
        self._pipe.recv()

    def ask(self, text: str, schema: Any) -> float | str | None:
        """Return what the grader pays, or the name of what it raised, `hang` or `crash`."""
        self._pipe.send((text, schema))
        try:
            if self._pipe.poll(HANG_S):
                paid: float | str | None = self._pipe.recv()
                return paid
            failure = "hang"
        except EOFError:
            failure = "crash"
        self.end()
        self._start()
        return failure

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def cases(path: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    for row in rows:
        if "repeat" in row:
            opening, times, closing, again = row["repeat"]
            row["text"] = opening * times + closing * again
    return [row for row in rows if row.get("type", "schema") == "schema" and row["expected"] is not None]


def documents_a_second(grade: Grader, texts: Sequence[str], schemas: Sequence[Any]) -> float:
    """Return documents per CPU second, the best of three turns of at least a tenth of a second each."""
    grade(texts[:2], schemas[:2])
    fastest = 0.0
    for _ in range(3):
        begun, done = time.process_time(), 0
        while (spent := time.process_time() - begun) < 0.1:
            grade(texts, schemas)
            done += len(texts)
        fastest = max(fastest, done / spent)
    return fastest


def main(path: str) -> None:
    """Print the table."""
    judged = cases(path)
    texts, schemas = batch()
    size = sum(map(len, texts)) // len(texts)
    print(f"{len(judged)} cases with an expected value; documents of {size} bytes\n")
    print("| grader | accuracy | false passes | false refusals | raised or hung | documents/s (CPU) | ours is faster |")
    print("|---|---|---|---|---|---|---|")
    ours = 0.0
    for name, grade in peers().items():
        guarded = Guarded(name)
        answers = [guarded.ask(row["text"], row["schema"]) for row in judged]
        guarded.end()
        pairs = [(answer, row["expected"]) for answer, row in zip(answers, judged, strict=True)]
        passes = sum(answer == 1.0 and not expected for answer, expected in pairs)
        refusals = sum(answer in (0.0, None) and expected for answer, expected in pairs)
        failed = sum(isinstance(answer, str) for answer, _ in pairs)
        wanted = texts if "validate" not in name else texts[:16]
        speed = documents_a_second(grade, wanted, schemas[: len(wanted)])
        ours = ours or speed
        accuracy = 1 - (passes + refusals + failed) / len(judged)
        row = (f"{accuracy:.1%}", passes, refusals, failed, f"{speed:,.0f}", f"{ours / speed:,.1f}x")
        print(f"| {name} | " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent / "rewards" / "schema_cases.jsonl"))
