"""`json_schema`: the completion is one strict JSON document that its schema accepts.

What is read as JSON is in `json_text`, what decides in `schemas`. A completion is paid for the document it ends in,
never for one in its reasoning or beside others.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, after_reasoning, report, text_of
from llm_finetuning.rewards.extraction import extract as extract_answer
from llm_finetuning.rewards.json_text import Document, read_json
from llm_finetuning.rewards.schemas import Schema, schema_of
from llm_finetuning.types import Text

_VALID, _INVALID = Judgement(1.0, "valid"), Judgement(0.0, "invalid")
_FENCE_LINE = re.compile(r"^[ \t]*(`{3,})([^`\n]*)$", re.MULTILINE)


class JsonSchema:
    """Pays 1.0 for a document that the schema accepts, 0.0 otherwise; abstains only where the schema itself is bad.

    Options: `schema`, a mapping, true, false or JSON text; or `schema_file`, a JSON file; or, with neither,
    `schema_column`, the dataset column that holds each row's schema as a mapping or JSON text. `extract`, one of
    `POLICIES`, says where the document stands; `fence`, whether one code fence around it is allowed (not used by
    `last_fence`).
    """

    range = (0.0, 1.0)
    file_options = ("schema_file",)

    def __init__(
        self,
        *,
        schema: Any = None,
        schema_file: str | None = None,
        schema_column: str = "schema",
        extract: str = "whole",
        fence: bool = True,
    ) -> None:
        """Take the options of the brief; raises ValueError for a bad schema, a missing file or an unknown policy."""
        if extract not in POLICIES:
            raise ValueError(f"extract: {extract!r} is not one of {', '.join(POLICIES)}")
        if schema is not None and schema_file is not None:
            raise ValueError("schema and schema_file: both are given; leave one out")
        self.__name__ = "json_schema"
        self._read = POLICIES[extract]
        self._fence = bool(fence)
        self._schema_column = schema_column
        self._schema: Schema | None = None
        if schema is not None:
            self._schema = _sound("schema", schema)
        elif schema_file is not None:
            self._schema = _sound(f"schema_file {schema_file}", _text_of_file(schema_file))

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if the schemas are in a column that is not there at all."""
        cells = [None] * len(completions) if self._schema is not None else columns[self._schema_column]
        known: dict[tuple[int, str], Judgement] = {}  # compiled schemas outlive the call: `kept` holds them
        kept: list[Schema] = []
        judgements = []
        for completion, cell in zip(completions, cells, strict=True):
            schema = self._schema or schema_of(cell)
            text = text_of(completion)
            judgement = known.get((id(schema), text))
            if judgement is None:
                kept.append(schema)
                judgement = known[id(schema), text] = self._judge(schema, text)
            judgements.append(judgement)
        return report(log_extra, self.__name__, judgements)

    def explain(self, completion: Text, schema: Any = None) -> str:
        """Return in words why a completion is not paid: the first rule it breaks and where; `valid` if it is.

        `schema` is the cell of the schema column; it is not read where the options hold the schema.
        """
        rules = self._schema or schema_of(schema)
        if rules.problem is not None:
            return f"{rules.problem}: {rules.words}"
        document = self._read(text_of(completion), self._fence)
        if document.problem is not None:
            return f"{document.problem}: {WORDS[document.problem]}"
        violation = rules.violation(document.value)
        return f"invalid: {violation}" if violation else "valid"

    def _judge(self, schema: Schema, text: str) -> Judgement:
        if schema.problem is not None:
            return Judgement(None, schema.problem)
        document = self._read(text, self._fence)
        if document.problem is not None:
            return Judgement(0.0, document.problem)
        return _VALID if schema.accepts(document.value) else _INVALID


def _sound(where: str, cell: Any) -> Schema:
    schema = schema_of(cell)
    if schema.problem is not None:
        raise ValueError(f"{where}: {schema.words}")
    return schema


def _text_of_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"schema_file {path}: cannot be read ({reason}); name a JSON file of the run") from None


def _whole(text: str, fence: bool) -> Document:  # noqa: FBT001  every policy is called alike
    """Read all that follows the reasoning."""
    if "<" not in text:
        return read_json(text, fence=fence)
    final = after_reasoning(text)
    if final == text:
        return read_json(text, fence=fence)
    untouched = read_json(text, fence=fence)
    if untouched.problem is None:  # the thinking tags stand inside a string of the document
        return untouched
    return Document(None, "reasoning_unclosed") if final is None else read_json(final, fence=fence)


def _answer_tag(text: str, fence: bool) -> Document:  # noqa: FBT001  likewise
    """Read the one `<answer>` element after the reasoning."""
    found = extract_answer("answer_tag", text)
    return Document(None, found.reason) if found.answer is None else read_json(found.answer, fence=fence)


def _last_fence(text: str, _fence: bool) -> Document:  # noqa: FBT001  likewise
    """Read the last fenced block that is bare or tagged json; several that differ in value conflict."""
    final = after_reasoning(text)
    if final is None:
        return Document(None, "reasoning_unclosed")
    blocks, marks, tag, begin = [], 0, "", 0
    for line in _FENCE_LINE.finditer(final):
        said = line.group(2).strip().lower()
        if not marks:
            marks, tag, begin = len(line.group(1)), said, line.end()
        elif not said and len(line.group(1)) >= marks:
            marks = 0
            if tag in ("", "json"):
                blocks.append(final[begin : line.start()])
    if marks:
        return Document(None, "unclosed")
    if not blocks:
        return Document(None, "no_answer")
    documents = [read_json(block, fence=False) for block in dict.fromkeys(blocks)]
    if len({_canonical(document) for document in documents}) > 1:
        return Document(None, "conflicting")
    return documents[-1]


def _canonical(document: Document) -> str:
    return document.problem or json.dumps(document.value, sort_keys=True, default=str)


POLICIES: Mapping[str, Callable[[str, bool], Document]] = {
    "whole": _whole,  # the whole text after the reasoning
    "answer_tag": _answer_tag,  # <answer>...</answer>
    "last_fence": _last_fence,  # the last fenced block in prose
}

WORDS: Mapping[str, str] = {
    "reasoning_unclosed": "the reasoning was opened and never closed",
    "no_answer": "there is no document where the policy looks for it",
    "unclosed": "the answer tag or the fence was opened and never closed",
    "conflicting": "several documents that differ",
    "empty": "there is no text",
    "too_large": "the text is longer than one document may be",
    "bom": "it begins with a byte order mark",
    "too_deep": "arrays and objects nest too deep",
    "not_json": "it is not JSON",
    "trailing_text": "something follows the document",
    "duplicate_key": "an object has one key twice",
    "not_finite": "NaN, Infinity or a number beyond a double's range",
    "number_too_long": "a number has too many digits",
    "lone_surrogate": "a string or key holds half a surrogate pair",
    "fence_language": "the code fence is tagged with another language than json",
    "fence_unclosed": "the code fence is never closed",
}
