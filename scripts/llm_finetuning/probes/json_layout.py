"""Key order, indentation and a code fence: the same document to every reader of JSON."""

import json
from collections.abc import Iterator

from llm_finetuning.findings.families import FENCED
from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case
from llm_finetuning.probes.forms import calls_of


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield other layouts; a fence warns where it is not allowed and nothing else is asked for.

    Of the two families that know a fence this one keeps it, since here it weighs what the prompt asks for.
    """
    if case.gold.kind == "calls":
        yield from _calls(case)
    if case.gold.kind != "json":
        return
    document = golds.document(case.gold)
    yield Attempt(text=case.write(json.dumps(document, indent=2)), about="indented")
    yield Attempt(text=case.write(json.dumps(document, separators=(",", ":"))), about="without white space")
    if isinstance(document, dict):
        turned = dict(reversed(document.items()))
        yield Attempt(text=case.write(json.dumps(turned)), about="keys in another order")
    yield Attempt(text=case.write(json.dumps(document, ensure_ascii=True)), about="letters escaped")
    if case.form == "bare":
        asked_bare = not case.fenced and (case.strict or case.options.get("fence") is False)
        weighs = "warns" if asked_bare else "blocks"
        yield Attempt(text=f"```json\n{case.gold.answer}\n```", about=FENCED, weighs=weighs)  # type: ignore[arg-type]
        yield Attempt(text=f"Here it is:\n{case.gold.answer}", about="a sentence before it", weighs="warns")


def _calls(case: Case) -> Iterator[Attempt]:
    calls = calls_of(case.gold.answer)
    turned = [{**call, "arguments": dict(reversed(call["arguments"].items()))} for call in calls]
    if turned:
        yield Attempt(text=case.write(json.dumps(turned)), about="arguments in another order")
        yield Attempt(text=case.right + "\n", about="a line break after it")
