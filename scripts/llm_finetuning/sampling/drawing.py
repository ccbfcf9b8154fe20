"""Draw completions with the brief's engine into a file that a kill does not lose; what is there is not drawn again."""

import hashlib
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, console, dataset, environment
from llm_finetuning.brief import LoadedBrief, SamplingBrief
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.program import run_program
from llm_finetuning.types import Row, Sample

# One generate call of the transformers engine takes this many completions; fixed, because a batch is drawn as a whole
# and its composition decides what is drawn.
COMPLETIONS_PER_BATCH = 64

IDENTITY = ("engine", "model", "chat_template_sha256", "end_ids")
"""Facts of an engine that may not change within one file of samples."""

DATASET_NEEDS = ("datasets",)

NEEDS: Mapping[str, tuple[str, ...]] = {"transformers": ("torch", "transformers"), "vllm": ("vllm",), "endpoint": ()}
"""Modules that the training interpreter must have for an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model to sample from."""

    model: str  # an absolute folder or a hub id; with an adapter its base model; at an endpoint the name it serves
    adapter: str | None = None  # absolute folder of a LoRA adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Where samples go, and what must be the same for a file that was begun to be gone on with."""

    path: Path
    parents: dict[str, str]
    settings: dict[str, Any]
    anew: str  # the mending half of a refusal: how samples that cannot be gone on with are left behind
    again: str | None = None  # the line that goes on with what is there; None: that which was typed


def rows_of(loaded: LoadedBrief, python: str | None) -> list[Row]:
    """Return the rows of the brief's data set, by a program of the training interpreter where that is needed."""
    dataset.check_there(loaded)  # before an interpreter is asked for
    reader = _interpreter(loaded, python, DATASET_NEEDS) if dataset.needs_program(loaded) else None
    return dataset.read_rows(loaded, python=reader)


def draw(
    loaded: LoadedBrief,
    drawing: Drawing,
    batches: list[list[dict[str, Any]]],
    source: Source,
    *,
    python: str | None,
    fresh: bool = False,
) -> Sequence[Sample]:
    """Draw what is missing in a file of samples with the brief's engine and settings, and return all of it."""
    path, parents, engine = drawing.path, drawing.parents, loaded.brief.sampling.engine
    expected = sum(request["n"] for batch in batches for request in batch)
    with ExitStack() as stack:
        appender = None
        if path.exists() and not fresh:
            appender = stack.enter_context(artifact.appending(path, artifact.header_for(path, parents), Sample))
            _check_same(drawing, appender.header)
        have = {sample.sample_id for sample in appender.records} if appender else set()
        todo = [batch for batch in batches if any(not _ids(request) <= have for request in batch)]
        if todo:
            interpreter = _interpreter(loaded, python, (*NEEDS[engine], *(("peft",) if source.adapter else ())))
            records = stack.enter_context(closing(_engine_records(loaded, todo, source, interpreter)))
            facts = _ready(path, records)
            if fresh:
                _set_aside(path)  # not before the engine stands: what was there is good as long as nothing replaces it
            if appender is None:
                path.parent.mkdir(exist_ok=True)
                settings = {**drawing.settings, "expected": expected, "engine": facts}
                header = artifact.header_for(path, parents, settings)
                appender = stack.enter_context(artifact.appending(path, header, Sample))
                # Another process may have begun it, or ended it, while this one's engine loaded.
                _check_same(drawing, appender.header)
                have = {sample.sample_id for sample in appender.records}
            _check_engine(drawing, appender.header.settings, facts)
            progress = console.progress("sampling", expected, len(have))
            with console.goes_on_with(drawing.again if fresh else None), progress as advance:
                for group in _groups(records):
                    added = _samples(group, batches, have)
                    appender.append(added)
                    advance(len(added))
        if appender is None or len(appender.records) != expected:
            again = f"run `{drawing.again}`" if drawing.again else "run it again"
            raise MachineryFailure(f"{path}: the engine ended before all samples were drawn; {again} to continue")
        return appender.records


def _interpreter(loaded: LoadedBrief, python: str | None, needs: Sequence[str]) -> str:
    if not needs:
        return sys.executable  # the endpoint engine runs in the CLI's own environment
    return environment.training_python(python or loaded.brief.environment, needs)


def batches_of(rows: Sequence[Row], seed: int, passes: Sequence[tuple[str, int, float]]) -> list[list[dict[str, Any]]]:
    """Return the requests in fixed batches, pass after pass; a pass is (name, completions a prompt, temperature)."""
    batches: list[list[dict[str, Any]]] = []
    for pass_name, n, temperature in passes:
        size = max(1, COMPLETIONS_PER_BATCH // n)
        requests = [
            {
                "prompt_id": row.prompt_id,
                "row": row.row,
                "prompt": row.prompt,
                "columns": row.columns,
                "pass_name": pass_name,
                "n": n,
                "temperature": temperature,
                "seed": _seed(seed, pass_name, row.prompt_id),
            }
            for row in rows
        ]
        batches.extend(requests[begin : begin + size] for begin in range(0, len(requests), size))
    return batches


def _seed(seed: int, pass_name: str, prompt_id: str) -> int:
    digest = hashlib.sha256(f"{seed}/{pass_name}/{prompt_id}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1  # every engine takes 31 bits


def sample_id(prompt_id: str, pass_name: str, index: int) -> str:
    """Return the name of a sample, as labels and findings use it."""
    return f"{prompt_id}/{index}" if pass_name == "policy" else f"{prompt_id}/low"


def _ids(request: dict[str, Any]) -> set[str]:
    return {sample_id(request["prompt_id"], request["pass_name"], index) for index in range(request["n"])}


def drawn_with(sampling: SamplingBrief) -> dict[str, Any]:
    """Return the options that decide, beside the temperature, what an engine draws."""
    names = ("max_completion_length", "top_p", "top_k", "min_p", "repetition_penalty")
    return {name: getattr(sampling, name) for name in names}


def _engine_records(
    loaded: LoadedBrief, batches: list[list[dict[str, Any]]], source: Source, python: str
) -> Generator[dict[str, Any], None, None]:
    sampling = loaded.brief.sampling
    endpoint = sampling.endpoint.model_dump(mode="json") if sampling.endpoint else None
    if endpoint is not None and (endpoint["model"] is None or source.model != loaded.brief.model):
        endpoint["model"] = source.model
    job = {
        "model": source.model,
        "adapter": source.adapter,
        "endpoint": endpoint,
        "sampling": drawn_with(sampling),
        "chat_template_kwargs": sampling.chat_template_kwargs,
        "batches": [
            [{key: request[key] for key in request if key != "columns"} for request in batch] for batch in batches
        ],
    }
    console.note(
        f"starting the {sampling.engine} engine for {endpoint['url'] if endpoint else source.adapter or source.model}"
    )
    return run_program(f"{sampling.engine}_sampler", job, python=python)


def _ready(path: Path, records: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Return what the engine says of itself once its model is loaded."""
    for record in records:
        if record["kind"] == "ready":
            facts: dict[str, Any] = record["facts"]
            return facts
        console.note(str(record.get("text", "")))
    raise MachineryFailure(f"{path}: the engine ended before its model was loaded; run it again")


def _groups(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the completions of one request after another; what else an engine says is shown."""
    for record in records:
        if record["kind"] == "group":
            yield record
        else:
            console.note(str(record.get("text", "")))


def _samples(group: dict[str, Any], batches: list[list[dict[str, Any]]], have: set[str]) -> list[Sample]:
    """Return an engine's group as samples, less those that are already there."""
    request = next(
        request
        for batch in batches
        for request in batch
        if (request["prompt_id"], request["pass_name"]) == (group["prompt_id"], group["pass_name"])
    )
    samples = []
    for index, completion in enumerate(group["completions"]):
        name = sample_id(request["prompt_id"], request["pass_name"], index)
        if name in have:
            continue
        text = completion["text"]
        is_chat = isinstance(request["prompt"], list)
        samples.append(
            Sample(
                sample_id=name,
                prompt_id=request["prompt_id"],
                row=request["row"],
                pass_name=request["pass_name"],
                index=index,
                prompt=request["prompt"],
                columns=request["columns"],
                completion=[{"role": "assistant", "content": text}] if is_chat else text,
                completion_ids=completion["ids"],
                tokens=completion["tokens"],
                finish_reason=completion["finish_reason"],
                temperature=request["temperature"],
                seconds=group.get("seconds"),
            )
        )
    return samples


def _check_same(drawing: Drawing, header: artifact.Header) -> None:
    changed = artifact.changed_parents(header.parents, drawing.parents)
    if changed:
        raise Refusal(f"{drawing.path}: was drawn from another {changed}; {drawing.anew}")


def _check_engine(drawing: Drawing, settings: dict[str, Any], facts: dict[str, Any]) -> None:
    """Refuse to mix samples of another model or template into a file."""
    known = settings.get("engine", {})
    changed = [key for key in IDENTITY if known.get(key) != facts.get(key)]
    if changed:
        raise Refusal(f"{drawing.path}: was drawn with another {', '.join(changed)} than is there now; {drawing.anew}")


def _set_aside(path: Path) -> None:
    if not path.exists():
        return
    number = 1
    while (aside := path.with_name(f"samples.{number}.jsonl")).exists():
        number += 1
    path.rename(aside)
    console.note(f"the old samples are in {aside}")
