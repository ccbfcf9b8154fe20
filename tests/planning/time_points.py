"""Public measurements of speed as questions to the planner, by what each record says and never by its id.

A record says less than a run's settings do. What it leaves out is what its framework does by default; where it names
two cards, the answer is the geometric mean of both.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from memory_cases import CASES
from speed_records import Model, cards_of, devices_of, memory_of, model_of, number, serving_of

from llm_finetuning.planning import decode, time
from llm_finetuning.planning.decode import Serving
from llm_finetuning.planning.job import GIB, Adapter, Job
from llm_finetuning.planning.time import Round
from llm_finetuning.planning.time_rates import Rates
from llm_finetuning.planning.training_time import optimizer_step, passes

POINTS = CASES / "speed_points.jsonl"

OFFLOAD_S = 10.0  # to move trainer and engine out of each other's way, where a cluster's framework colocates them
SERVED = 128  # requests in flight where a record of a server names none: half of vLLM's default of 256
CACHE_SHARE = 0.85  # of a serving card's memory that weights and cache have

_LENGTHS = (  # tokens of a row in the mean, prompt and all, of data that records name
    (r"alpaca", 110),
    (r"metamath", 260),
    (r"dolly", 260),
    (r"reasoning traces", 8192),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One record beside the planner's answer, in the record's own unit."""

    record: dict[str, Any]
    estimated: float
    measured: float
    bottleneck: str  # as the planner names it
    wanted: str | None  # as the record tells it

    @property
    def ratio(self) -> float:
        """Estimated over measured, of times as of rates."""
        return self.estimated / self.measured

    @property
    def seconds_ratio(self) -> float:
        """Estimated over measured seconds, of a rate too."""
        return self.ratio if is_time(self.record) else 1 / self.ratio

    @property
    def factor(self) -> float:
        """By how much it is off, from 1 on."""
        return max(self.ratio, 1 / self.ratio)


def is_time(record: dict[str, Any]) -> bool:
    """Tell whether a record's value is seconds, of a step or of all; otherwise it is a rate."""
    return re.match(r"s( |/|$)", record["unit"]) is not None


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in POINTS.read_text("utf-8").splitlines() if line.strip()]


def trusted() -> list[dict[str, Any]]:
    """Return the records that measured a time or a rate; those that are impossible are marked so."""
    return [record for record in rows() if record["trust"] != "REJECT"]


def points() -> Iterator[Compared]:
    """Yield every record that names what a time follows from."""
    for record in trusted():
        found = compared(record)
        if found is not None:
            yield found


def compared(record: dict[str, Any]) -> Compared | None:
    """Return a record beside the planner's answer; None where it does not say model, card or work."""
    model, cards = model_of(record), cards_of(record)
    rule = _RULES.get(record["kind"])
    if rule is None or not cards or (model is None and record["kind"] != "weight_load"):
        return None
    answers = [rule(record, model, rates) for rates in cards]
    if any(answer is None for answer in answers):
        return None
    values = [value for value, _ in answers]
    return Compared(
        record=record,
        estimated=math.exp(sum(math.log(value) for value in values) / len(values)),
        measured=float(record["value"]),
        bottleneck=answers[0][1],
        wanted=_wanted(record),
    )


def _wanted(record: dict[str, Any]) -> str | None:
    """Return what the record says of its bottleneck: a word that the planner's answer has to hold."""
    note = record.get("note") or ""
    generated = re.search(r"\bgen (\d+(?:\.\d+)?)", note)
    if "bandwidth bound" in note:
        return "bandwidth"
    if "launch overhead" in note:
        return "launches"
    if re.search(r"sleep\+wake [\d.]+ s = [5-9]\d", note):
        return "weight sync"
    if generated and float(generated[1]) > record["value"] / 2:
        return "rollout"
    if "update is ~2 % of the step" in note and record["kind"] == "grpo_step":
        return "rollout"
    return None


Answer = tuple[float, str] | None


def _decode(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    served = serving_of(record, devices_of(record))
    if record.get("batch") is None:
        return _throughput(record, model, rates)
    batch = int(record["batch"])
    context = (record.get("prompt_len") or 256) + (record.get("completion_len") or 512) / 2
    found = decode.step(model.shape, rates, served, batch, context)
    return batch / (found.seconds * model.scale), found.bound


def _throughput(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    """Answer for a server under load: as many requests in flight as fit, arriving one after the other."""
    if record.get("batch") is not None:
        return _decode({**record, "kind": "decode"}, model, rates)
    served = serving_of(record, devices_of(record))
    said = re.search(r"in(\d+)/out(\d+)", record["model"])
    reads, writes = (int(said[1]), int(said[2])) if said else (220, 200)  # ShareGPT's means
    asked = re.search(r"x(\d+) prompts", record["model"])
    flying = int(asked[1]) if asked else SERVED
    weights = decode.weights_read(model.shape, served, 1e6)
    left = CACHE_SHARE * memory_of(rates) - weights
    held = int(left // max(model.shape.cache(reads + writes) * served.cache, 1))
    flying = max(1, min(flying, held))
    found = decode.step(model.shape, rates, served, flying, reads + writes / 2)
    prompts = decode.prefill(model.shape, rates, served, flying * reads, reads)
    rate = flying * writes / (found.seconds * writes + prompts) / model.scale
    return rate * ((reads + writes) / writes if "total" in record["unit"] else 1.0), found.bound


def _prefill(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    served = serving_of(record, devices_of(record))
    said = re.search(r"(?:ISL\D*|pp|in)(\d{3,5})", record["source"] + (record.get("note") or ""))
    tokens = float(record.get("prompt_len") or (said[1] if said else 2048))
    return tokens / (decode.prefill(model.shape, rates, served, tokens, tokens) * model.scale), "arithmetic"


def _weight_load(record: dict[str, Any], _: Any, rates: Rates) -> Answer:
    size = re.search(r"(\d+(?:\.\d+)?) GiB", record["model"])
    return (time.load_seconds(float(size[1]), rates), "disk") if size else None


def _restart(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    if "restart" not in record["model"]:
        return None
    load = 2.0 * model.shape.total * model.scale / GIB
    return time.START_S + time.ENGINE_START_S + time.load_seconds(load, rates), "weight sync"


def _train(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    """Answer for supervised steps: tokens a second, or seconds a step of a micro-batch."""
    text = f"{record['model']} {record.get('note') or ''} {record['source']}"
    words = text.lower()
    length = number(r"(?:seq ?|pack|\bs)(\d{3,5})\b", record["model"])
    named = next((mean for pattern, mean in _LENGTHS if re.search(pattern, words)), None)
    if "not packed" in words or "litgpt" in words:
        named = named or 110  # Alpaca, on which torchtune and LitGPT measure
        length = None
    mean = length or named
    if mean is None:
        return None
    said = int(record.get("batch") or number(r"\bb(\d+)\b", record["model"]) or 1)
    batch = said if said <= 16 else 4
    accumulation = max(said // batch, 1) * (number(r"\bga(\d+)\b", record["model"]) or 1)
    padded = decode.longest_of(mean, batch, None) if length is None else mean
    job = replace(
        _training_job(record, words), batch=batch, prompt=0, completion=round(padded), accumulation=accumulation
    )
    each = passes(model.shape, job, rates)
    updates = 0.0 if "litgpt" in words else optimizer_step(model.shape, job, rates)  # its iterations are micro-batches
    seconds = (each.training * accumulation + updates) * model.scale
    devices = devices_of(record)
    bound = "launches" if each.host >= each.training else "training"
    if is_time(record):
        return seconds, bound
    if record["unit"] == "samples/s":
        return devices * batch * accumulation / seconds, bound
    if record["unit"] == "it/s":
        return 1 / seconds, bound
    return devices * batch * mean * accumulation / seconds, bound


def _training_job(record: dict[str, Any], words: str) -> Job:
    name = record["model"].lower()
    quantized = "qlora" in name or "nf4" in name or "4bit" in name
    tuned = quantized or "lora" in name or "dora" in name
    torchtune = "torchtune" in words
    order = ("packed", "compile", "chunked", "activation ckpt", "optimizer-in-bwd", "act offload", "8bit")
    at = next((place for place in reversed(range(len(order))) if order[place] in name), -1)
    small = torchtune and "s4096" not in name  # every flag of the table's end
    checkpointing = (
        "gc" in name.split()
        or small
        or at >= order.index("activation ckpt")
        or not (torchtune or "peft" in words or "litgpt" in words)
    )
    targets = ("q_proj", "v_proj") if "q,v" in name else None
    rank = number(r"\br(\d+)\b", name) or 16
    return Job(
        method="sft",
        tuning="qlora" if quantized else "lora" if tuned else "full",
        weights="bfloat16",
        autocast=False,
        padded=not ("packed" in name and "not packed" not in name),
        attention="sdpa",
        checkpointing=checkpointing,
        adapter=Adapter(rank=rank, targets=targets, dtype="bfloat16") if tuned else None,
        fused_kernels=(torchtune and (small or at >= order.index("compile"))) or "unsloth" in words,
        loss="causal_lm",
        optimizer="adamw_torch" if "peft" in words else "adamw_torch_fused",
    )


def _grpo(record: dict[str, Any], model: Model, rates: Rates) -> Answer:
    """Answer for a whole step of GRPO, with what its framework does where the record is silent."""
    if not is_time(record):
        return None
    text = f"{record['model']} {record['source']} {record.get('note') or ''}".lower()
    work = _work(record, text)
    if work is None:
        return None
    completions, prompt, mean, cap = work
    devices = devices_of(record)
    name = record["model"].lower()
    quantized = "4bit" in name or "qlora" in name
    unsloth = "unsloth" in text
    tuned = quantized or "lora" in name or unsloth  # its notebooks train adapters
    cluster = any(mark in text for mark in ("nemo", "verl", "slime", "vime"))
    longest = decode.longest_of(mean, completions, cap)
    own = math.ceil(completions / devices)
    length = prompt + (mean if cluster else longest)
    batch = max(1, min(own, int(16384 // length) if cluster else 4))
    job = Job(
        tuning="qlora" if quantized else "lora" if tuned else "full",
        weights="float16" if rates.name == "t4" else "bfloat16",
        batch=batch,
        prompt=round(prompt),
        completion=round(length - prompt),
        padded=not cluster,
        checkpointing=True,
        accumulation=math.ceil(own / batch),
        adapter=Adapter(rank=number(r"\br(\d+)\b", name) or 16) if tuned else None,
        double_quantization=quantized,
        fused_kernels=unsloth or cluster,
        sharding="layers" if devices > 1 else "none",
        shards=devices,
    )
    serving = _grpo_serving(model, rates, devices, quantized=quantized, tuned=tuned, plain="hf generate" in name)
    turn = Round(
        serving=serving,
        completions=completions,
        prompts=max(completions // 8, 1),
        engines=max(devices // serving.tensor_parallel, 1),
        prompt=prompt,
        mean=mean,
        longest=longest,
        processes=devices,
        scorings=2 if cluster else 1,
        reward_s=0.0,
        sync="colocate" if serving.engine == "vllm" else "none",
        sleeps=not unsloth,
        offload_s=OFFLOAD_S if cluster else 0.0,
    )
    found = time.estimate(model.shape, job, rates, turn)
    seconds = found.step[0] + (found.start if "incl. start" in record["unit"] else 0.0)
    return seconds * model.scale, found.bottleneck


def _work(record: dict[str, Any], text: str) -> tuple[int, float, float, float | None] | None:
    """Return completions, prompt tokens, completion tokens in the mean and their cap; None where all of it is open."""
    cap = number(r"max(?:_completion)? (\d+)", text)
    mean = record.get("mean_completion_len")
    if mean is None and "250-300 tok" in text:
        mean = 275
    if mean is None and cap:
        mean = 0.7 * cap
    if mean is None and "gsm8k" in text:
        mean, cap = 250, 1024  # words of a worked solution
    if mean is None and "dapo" in text:
        mean, cap = 700, None
    completions = record.get("completions_per_step") or record.get("batch")
    if completions is None:
        said = re.search(r"\bb(\d+) n(\d+)\b", text)
        completions = int(said[1]) * int(said[2]) if said else None
    if completions is None and "verl" in text and "gsm8k" in text:
        completions = 1024 * 5  # the recipe that its examples share
    if completions is None and "slime" in text:
        completions = 160
    if completions is None and "trl" in text:
        completions = 8  # its default group
    return None if mean is None or completions is None else (int(completions), 150.0, float(mean), cap)


def _grpo_serving(model: Model, rates: Rates, devices: int, *, quantized: bool, tuned: bool, plain: bool) -> Serving:
    parallel = 1
    while parallel < devices and 2.0 * model.shape.total * model.scale / parallel > 0.8 * memory_of(rates):
        parallel *= 2
    # Of these frameworks the one that trains adapters leaves them beside vLLM's weights, and launches what they add.
    launches = (2.0 if tuned else 1.0) * (1.5 if quantized and plain else 1.0)
    return Serving(
        engine="transformers" if plain else "vllm",
        maps=0.5625 if quantized else 2.0,
        moved=4.0 if quantized else 0.0,
        launches=launches,
        graphs=not tuned,
        tensor_parallel=parallel,
        shares_prompts=not plain,
    )


_RULES = {
    "decode": _decode,
    "throughput": _throughput,
    "prefill": _prefill,
    "train": _train,
    "grpo_step": _grpo,
    "weight_load": _weight_load,
    "sleep": _restart,
}
