"""Public measurements and operation-exact runs as jobs of the planner, by what each record says and never by its id."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import point_jobs
from point_records import Reading, model_of

from llm_finetuning.planning import architecture
from llm_finetuning.planning.job import GIB, Adapter, Job, Quantity, Rollout
from llm_finetuning.planning.memory import Memory, estimate
from llm_finetuning.planning.rollout import cache_bytes, pool
from llm_finetuning.planning.shapes import Architecture
from public_configs import CONFIGS

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases"))
COMPUTED, POINTS = CASES / "memory_computed.jsonl", CASES / "memory_points.jsonl"

_COMPUTED_MODELS = {
    "qwen0.5b": "Qwen2.5-0.5B",
    "qwen1.5b": "Qwen2.5-1.5B",
    "qwen7b": "Qwen2.5-7B",
    "llama3b": "Llama-3.2-3B",
    "llama8b": "Llama-3.1-8B",
    "qwen3-0.6b": "Qwen3-0.6B",
    "qwen3-1.7b": "Qwen3-1.7B",
    "qwen3-4b": "Qwen3-4B",
}
_LOSSES = {"hf": "causal_lm", "trl": "fused", "logits32": "float_logits"}
_OPTIMIZERS = {"fused": "adamw_torch_fused", "foreach": "adamw_torch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One record beside the planner's answer."""

    name: str
    record: dict[str, Any]
    memory: Memory
    estimated: float
    low: float
    high: float
    measured: float | None
    device_gib: float | None = None
    start: float = 0.0  # GiB already taken off the estimate, where the record gives what came on top of it

    @property
    def error(self) -> float | None:
        """Share by which the estimate is above the measurement."""
        return None if self.measured is None else self.estimated / self.measured - 1

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies in the stated interval."""
        return None if self.measured is None else self.low <= self.measured <= self.high


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def model(name: str) -> Architecture:
    return architecture.read(CONFIGS[name])


def computed() -> Iterator[Compared]:
    """Yield every operation-exact run with the planner's answer."""
    for record in rows(COMPUTED):
        memory = estimate(model(_COMPUTED_MODELS[record["m"]]), computed_job(record))
        peak = memory.allocated
        name = f"{record['m']} {record['kw']}"
        yield Compared(
            name=name,
            record=record,
            memory=memory,
            estimated=peak.gib,
            low=peak.low,
            high=peak.high,
            measured=record["peak_gib"],
        )


def computed_job(record: dict[str, Any]) -> Job:
    """Return the settings that a record's `kw` spells as the keywords of a Python call."""
    kw: dict[str, str] = dict(re.findall(r"(\w+)=(\(.*?\)|'.*?'|[^,]+)", record["kw"]))
    text = {key: value.strip("'") for key, value in kw.items()}
    length = int(text["s"])
    adapter = None
    if "lora" in text:
        targets = tuple(re.findall(r"'(\w+)'", text.get("lt", ""))) or None
        narrow = "bfloat16" in text.get("ldt", "")
        adapter = Adapter(
            rank=int(text["lora"]),
            targets=targets,
            dropout=float(text.get("drop", 0)),
            dtype="bfloat16" if narrow else "float32",
        )
    trained_before = int(text.get("steps", 1)) > 1
    return Job(
        method="sft",
        tuning="lora" if adapter else "full",
        weights="float32" if "float32" in text.get("dtype", "") else "bfloat16",
        autocast=text.get("amp") == "1",
        batch=int(text.get("b", 1)),
        prompt=0,
        completion=length,
        # These runs called the fused head on every position, whatever they were to keep: both peaks are the same.
        kept=int(text["keep"]) if "keep" in text and text["loss"] != "trl" else None,
        attention="eager" if text.get("attn") == "eager" else "sdpa",
        checkpointing=text.get("gc") == "1",
        optimizer=_OPTIMIZERS[text["opt"]] if trained_before else "sgd",
        adapter=adapter,
        loss=_LOSSES.get(text.get("loss", ""), "hidden"),  # type: ignore[arg-type]
        device="cpu",
    )


def points(kinds: tuple[str, ...] = ("train",), trusts: tuple[str, ...] = ("A", "B")) -> Iterator[Compared]:
    """Yield every training measurement of the kinds with the planner's answer; what has no known shape is left out."""
    for record in rows(POINTS):
        reading = point_jobs.read(record) if record["kind"] in kinds and record["trust"] in trusts else None
        if reading is not None:
            yield compared(record, reading)


def compared(record: dict[str, Any], reading: Reading) -> Compared:
    shape = model(reading.model)
    likely, least, most = (estimate(shape, job, reading.card) for job in (reading.job, reading.low, reading.high))
    return Compared(
        name=f"{record['id']} {record['model'].split('/')[-1]} {record['method']} {record.get('tuning')}",
        record=record,
        memory=likely,
        estimated=getattr(likely, reading.metric).gib - reading.start,
        low=getattr(least, reading.metric).low - reading.start,
        high=getattr(most, reading.metric).high - reading.start,
        measured=record.get("measured_gib"),
        device_gib=reading.card,
        start=reading.start,
    )


def inference() -> Iterator[Compared]:
    """Yield measurements of weights and KV cache of one sequence."""
    for record in rows(POINTS):
        shape = model_of(record) if record["kind"] == "inference" else None
        if shape is None:
            continue
        described = model(shape)
        tokens = record["prompt_len"] + record["completion_len"]
        gib = (described.total * 2 + cache_bytes(described, tokens)) / GIB
        yield Compared(
            name=f"{record['id']} {record['model']} {tokens} tokens",
            record=record,
            memory=estimate(described, Job(weights="bfloat16")),
            estimated=gib,
            low=gib * 0.96,
            high=gib * 1.04,
            measured=record["measured_gib"],
        )


def engine_starts() -> Iterator[tuple[str, str, float, Quantity]]:
    """Yield what vLLM's own logs say of its weights and activations, with the planner's answer."""
    for record in rows(POINTS):
        shape = model_of(record) if record["kind"] == "vllm_profile" else None
        said = dict(re.findall(r"(weights|peak act) ([\d.]+)", record.get("metric") or ""))
        if shape is None or len(said) < 2 or "VL" in record["model"]:
            continue
        quantized = "bnb4" in record["model"]
        needs = pool(model(shape), Job(rollout=Rollout(engine="colocate", quantized=quantized)), None).needs
        for key, need in (("weights", needs[0]), ("peak act", needs[1])):
            yield record["id"], key, float(said[key]), need
