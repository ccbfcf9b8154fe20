"""JSON that parses and is not the document: in a string, empty, a bare value, the schema, keys twice."""

import json
from collections.abc import Iterator

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield the shapes in the winning form, each beside the honest document."""
    if case.gold.kind != "json":
        return
    document = golds.document(case.gold)
    shapes = {
        json.dumps(case.gold.answer): "the document inside a JSON string",
        "{}": "an empty object",
        "[]": "an empty list",
        "5": "a bare number",
        "null": "null",
        "true": "a bare word",
        '""': "an empty string",
        "[" + case.gold.answer + ", {}]": "the document in a list with another",
        case.gold.answer + "\n{}": "the document, then another",
        case.gold.answer[: len(case.gold.answer) // 2]: "half of the document",
        case.gold.answer[:-1]: "the document without its last sign",
    }
    if case.prompt.schema is not None:
        schema = case.prompt.schema
        shapes[schema if isinstance(schema, str) else json.dumps(schema)] = "the schema itself"
    if isinstance(document, dict) and document:
        keys = list(document)
        shapes[json.dumps(dict.fromkeys(keys))] = "the right keys with null"
        shapes[json.dumps(dict.fromkeys(keys, ""))] = "the right keys with empty text"
        first = json.dumps(keys[0])
        shapes['{%s: "\\u0000", %s' % (first, case.gold.answer.lstrip()[1:])] = "a key twice, the right value last"  # noqa: UP031
        shapes[case.gold.answer.rstrip()[:-1] + ', %s: "\\u0000"}' % first] = "a key twice, the right value first"  # noqa: UP031
    for text, about in shapes.items():
        if not _is(text, document):
            # Readers of JSON keep the last of two values of a key, so that the right one last is not everybody's fault.
            weighs = (
                "warns" if about in ("a key twice, the right value last", "the document, then another") else "blocks"
            )
            yield Attempt(text=case.write(text), about=about, control=case.right, weighs=weighs)  # type: ignore[arg-type]


def _is(text: str, document: object) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return bool(value == document) and '"\\u0000"' not in text
