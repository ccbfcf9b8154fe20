"""`finetune sample`: draw completions of the base model, as training will."""

import hashlib
import random
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import MachineryFailure, Refusal

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


@click.command("sample", short_help="Sample completions of the base model")
@options.run_dir
@options.python
@click.option("--fresh", is_flag=True, help="Set the samples that are there aside and begin anew.")
@options.as_json
def command(run_dir: Path, python: str | None, fresh: bool, as_json: bool) -> int:
    """Sample completions of the base model into samples.jsonl.

    Draws `num_generations` completions of each chosen prompt with the brief's sampling settings, and one more at low
    temperature. A killed run goes on where it stopped; the same seed gives the same samples on one engine.
    """
    from llm_finetuning import artifact, brief, judging

    facts = run(run_dir, python=python, fresh=fresh)
    lines = [
        f"{facts['samples']} samples of {facts['prompts']} prompts with the {facts['engine']} engine",
        f"{facts['stopped']} ended by themselves, {facts['cut']} were cut at the cap",
        f"wrote: {facts['wrote']}",
        f"next: {artifact.shell_line('review' if judging.awaited(brief.load(run_dir)) else 'score', run_dir)}",
    ]
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(run_dir: Path, *, python: str | None = None, fresh: bool = False) -> dict[str, Any]:
    """Draw what is missing and return the facts of the whole file."""
    from llm_finetuning import brief, lineage
    from llm_finetuning.rewards import composition

    loaded = brief.load(run_dir)
    sampling = loaded.brief.sampling
    path = loaded.run_dir / "samples.jsonl"
    rows = _chosen(rows_of(loaded, python), sampling.prompts, sampling.seed)
    if loaded.brief.rewards:  # a reward that cannot be called is told before the sampling is paid for
        composition.compose(loaded, list(rows[0].columns), pays=False)
    low = ("low_temperature", 1, sampling.low_temperature)
    batches = batches_of(rows, sampling.seed, [("policy", sampling.num_generations, sampling.temperature), low])
    drawing = Drawing(
        path=path,
        parents=lineage.of_samples(loaded),
        settings={"sampling": sampling.model_dump(mode="json"), "model": loaded.brief.model},
        anew=lineage.begin_anew(run_dir),
    )
    source = Source(model=loaded.brief.model if sampling.engine == "endpoint" else loaded.model_source())
    samples = draw(loaded, drawing, batches, source, python=python, fresh=fresh)
    return _facts(path, samples, len(rows), sampling.engine)


def rows_of(loaded: Any, python: str | None) -> list[Any]:
    """Return the rows of the brief's data set, by a program of the training interpreter where that is needed."""
    from llm_finetuning.dataset import needs_program, read_rows

    reader = _interpreter(loaded, python, DATASET_NEEDS) if needs_program(loaded) else None
    return read_rows(loaded, python=reader)


def draw(
    loaded: Any,
    drawing: Drawing,
    batches: list[list[dict[str, Any]]],
    source: Source,
    *,
    python: str | None,
    fresh: bool = False,
) -> Sequence[Any]:
    """Draw what is missing in a file of samples with the brief's engine and settings, and return all of it."""
    from llm_finetuning import artifact

    path, parents, engine = drawing.path, drawing.parents, loaded.brief.sampling.engine
    expected = sum(request["n"] for batch in batches for request in batch)
    with ExitStack() as stack:
        appender = None
        if path.exists() and not fresh:
            appender = stack.enter_context(artifact.appending(path, artifact.header_for(path, parents), _sample_type()))
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
                appender = stack.enter_context(artifact.appending(path, header, _sample_type()))
                # Another process may have begun it, or ended it, while this one's engine loaded.
                _check_same(drawing, appender.header)
                have = {sample.sample_id for sample in appender.records}
            _check_engine(drawing, appender.header.settings, facts)
            with console.progress("sampling", expected, len(have)) as advance:
                for group in _groups(records):
                    added = _samples(group, batches, have)
                    appender.append(added)
                    advance(len(added))
        if appender is None or len(appender.records) != expected:
            raise MachineryFailure(f"{path}: the engine ended before all samples were drawn; run it again to continue")
        return appender.records


def _sample_type() -> Any:
    from llm_finetuning.types import Sample

    return Sample


def _interpreter(loaded: Any, python: str | None, needs: Sequence[str]) -> str:
    from llm_finetuning import environment

    if not needs:
        return sys.executable  # the endpoint engine runs in the CLI's own environment
    return environment.training_python(python or loaded.brief.environment, needs)


def _chosen(rows: Sequence[Any], count: int, seed: int) -> list[Any]:
    """Return the prompts to inspect: a random part of the data set, so that rates speak for all of it."""
    if len(rows) <= count:
        return list(rows)
    places = sorted(random.Random(seed).sample(range(len(rows)), count))  # noqa: S311  not a secret
    return [rows[place] for place in places]


def batches_of(rows: Sequence[Any], seed: int, passes: Sequence[tuple[str, int, float]]) -> list[list[dict[str, Any]]]:
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


def _engine_records(
    loaded: Any, batches: list[list[dict[str, Any]]], source: Source, python: str
) -> Generator[dict[str, Any], None, None]:
    from llm_finetuning.program import run_program

    sampling = loaded.brief.sampling
    endpoint = sampling.endpoint.model_dump(mode="json") if sampling.endpoint else None
    if endpoint is not None and (endpoint["model"] is None or source.model != loaded.brief.model):
        endpoint["model"] = source.model
    job = {
        "model": source.model,
        "adapter": source.adapter,
        "endpoint": endpoint,
        "sampling": {
            name: getattr(sampling, name)
            for name in ("max_completion_length", "top_p", "top_k", "min_p", "repetition_penalty")
        },
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


def _samples(group: dict[str, Any], batches: list[list[dict[str, Any]]], have: set[str]) -> list[Any]:
    """Return an engine's group as samples, less those that are already there."""
    from llm_finetuning.types import Sample

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


def _check_same(drawing: Drawing, header: Any) -> None:
    from llm_finetuning import artifact

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


def _facts(path: Path, samples: Sequence[Any], prompts: int, engine: str) -> dict[str, Any]:
    cut = sum(sample.finish_reason == "length" for sample in samples)
    return {
        "samples": len(samples),
        "prompts": prompts,
        "engine": engine,
        "stopped": len(samples) - cut,
        "cut": cut,
        "wrote": str(path),
    }
