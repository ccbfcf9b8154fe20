"""What cards have: memory as CUDA reports it, bandwidth, the rate of bf16 arithmetic; each with where it was read.

What no source at hand says is None, not a guess. Read on 30 November 2026.

| mark | source |
|---|---|
| oom | the total capacity in PyTorch's out-of-memory messages, as public issues and logs quote them |
| nvidia | developer.nvidia.com/cuda-gpus, for the compute capability of every card but T4 and V100 |
| specs | github.com/winston-zhang-orz/gpu-specs, after NVIDIA's datasheets; also T4's and V100's capability |
| lightning | Lightning Fabric's utilities/throughput.py, which names the datasheet of each figure |
| book | llmbook.apartsin.com, appendix G.1, a table of datasheet figures |
| hmc | hmc-tech.com, tables with accumulation in 32 bits told apart |
| ao | pytorch/ao pull request 4002: bus width and clock asked of the driver |
| hub | huggingface.co/hardware |
| prof | github.com/citsjtu2020/LLM-Prof, hardware_spec.md |
| llmperf | llmperf.net, its page on the RTX A6000 after Microway and PNY |
| spark | public reports of DGX Spark owners, beside NVIDIA's 273 GB/s: vllm issue 56830, unsloth pull request 10704 |
"""

from collections.abc import Mapping
from dataclasses import dataclass

SAME_CARD = 0.1
"""How far a driver's memory may lie from the table's for the card to be the same one."""

HOST_FLOOR_GIB, HOST_FLOOR_SHARE = 12.0, 0.1
"""What is left to the host where it shares one memory with the GPU: an allocation too many there hangs the machine
instead of failing (pytorch issue 174358), and weights being loaded dip the free memory by up to 19 GiB for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU."""

    name: str  # as in a brief's `hardware`
    memory_gib: float  # as CUDA reports it, which is less than the name on the box
    bandwidth_gb_s: float | None = None
    bf16_tflops: float | None = None  # dense, accumulated in 32 bits; None where there is none, or no source
    fp16_tflops: float | None = None  # likewise, of cards without bfloat16
    capability: tuple[int, int] | None = None
    source: str = ""
    unified: bool = False  # the host's memory and the GPU's are one
    idle_available_gib: float | None = None  # of unified memory: what a machine at rest has free

    @property
    def has_bf16(self) -> bool | None:
        """Whether matrices are multiplied in bfloat16, from capability 8.0 on; None where that is not known."""
        return self.capability >= (8, 0) if self.capability else None


_TABLE = (
    Card(
        name="t4",
        memory_gib=14.56,
        bandwidth_gb_s=300,
        fp16_tflops=65,
        capability=(7, 5),
        source="oom, specs, lightning",
    ),
    Card(
        name="v100",
        memory_gib=15.75,
        bandwidth_gb_s=900,
        fp16_tflops=125,
        capability=(7, 0),
        source="oom, specs, lightning; the rate is the SXM card's",
    ),
    Card(
        name="v100-32",
        memory_gib=31.73,
        bandwidth_gb_s=900,
        fp16_tflops=125,
        capability=(7, 0),
        source="oom, specs, lightning; the rate is the SXM card's",
    ),
    Card(
        name="a10",
        memory_gib=22.05,
        bandwidth_gb_s=600,
        bf16_tflops=125,
        capability=(8, 6),
        source="oom, specs, lightning, nvidia",
    ),
    Card(
        name="l4", memory_gib=22.03, bandwidth_gb_s=300, bf16_tflops=121, capability=(8, 9), source="oom, specs, nvidia"
    ),
    Card(
        name="rtx3090",
        memory_gib=23.56,
        bandwidth_gb_s=936,
        bf16_tflops=71,
        capability=(8, 6),
        source="oom; bandwidth: github.com/xiaozheyao/triteia; rate: half of 142 with 16-bit accumulation; nvidia",
    ),
    Card(
        name="rtx4090",
        memory_gib=23.52,
        bandwidth_gb_s=1008,
        bf16_tflops=165.2,
        capability=(8, 9),
        source="oom, specs, hmc, nvidia",
    ),
    Card(
        name="rtx5090",
        memory_gib=31.36,
        bandwidth_gb_s=1792,
        bf16_tflops=209.5,
        capability=(12, 0),
        source="oom; spheron.network's datasheet, whose 838 is sparse with 16-bit accumulation: a quarter; nvidia",
    ),
    Card(
        name="a6000",
        memory_gib=47.4,
        bandwidth_gb_s=768,
        bf16_tflops=154.8,
        capability=(8, 6),
        source="oom, nvidia, llmperf",
    ),
    Card(
        name="l40",
        memory_gib=44.4,
        bandwidth_gb_s=864,
        bf16_tflops=181,
        capability=(8, 9),
        source="oom, hmc, nvidia",
    ),
    Card(
        name="l40s",
        memory_gib=44.39,
        bandwidth_gb_s=864,
        bf16_tflops=362,
        capability=(8, 9),
        source="oom, specs, book, nvidia",
    ),
    Card(
        name="rtxpro6000",
        memory_gib=94.97,
        bandwidth_gb_s=1792,
        bf16_tflops=503.8,
        capability=(12, 0),
        source="oom, nvidia, hmc; bandwidth: github.com/lijun99/GPU-Resources",
    ),
    Card(
        name="a100-40",
        memory_gib=39.38,
        bandwidth_gb_s=1555,
        bf16_tflops=312,
        capability=(8, 0),
        source="oom, specs, lightning, nvidia",
    ),
    Card(
        name="a100",
        memory_gib=79.15,
        bandwidth_gb_s=2039,
        bf16_tflops=312,
        capability=(8, 0),
        source="oom, specs, lightning, nvidia; the 80 GB card",
    ),
    Card(
        name="h100",
        memory_gib=79.18,
        bandwidth_gb_s=3350,
        bf16_tflops=989.5,
        capability=(9, 0),
        source="oom, lightning, book, nvidia; SXM",
    ),
    Card(
        name="h20",
        memory_gib=95.1,
        bandwidth_gb_s=4000,
        bf16_tflops=148,
        capability=(9, 0),
        source="public training logs, hub; bandwidth: prof",
    ),
    Card(
        name="h200",
        memory_gib=139.8,
        bandwidth_gb_s=4800,
        bf16_tflops=989.5,
        capability=(9, 0),
        source="oom, book, nvidia",
    ),
    Card(
        name="b200",
        memory_gib=178.35,
        bandwidth_gb_s=7672,
        bf16_tflops=2250,
        capability=(10, 0),
        source="oom, ao, book, nvidia",
    ),
    Card(
        name="dgx-spark",
        memory_gib=119.6,
        bandwidth_gb_s=273,
        bf16_tflops=104,
        capability=(12, 1),
        source="spark, nvidia; newer drivers report 121.7 GiB; rate: natolambert/dgx-spark-setup",
        unified=True,
        idle_available_gib=115.8,
    ),
)

CARDS: Mapping[str, Card] = {card.name: card for card in _TABLE}

_ALIASES: Mapping[str, str] = {
    "a100-80": "a100",
    "a10g": "a10",
    "gb10": "dgx-spark",
    "h100-80": "h100",
    "rtxa6000": "a6000",
    "tesla-t4": "t4",
    "v100-16": "v100",
}


def card_named(name: str, memory_gib: float | None = None) -> Card | None:
    """Return the card of a name, or None where the table has none.

    Args:
        name: As in a brief's `hardware`, without the number of GPUs.
        memory_gib: What the driver says it has; of two cards with one name it tells which, and a card that the table
            does not have, or has with another memory, is then known by its memory alone.
    """
    short = name.strip().lower()
    known = CARDS.get(_ALIASES.get(short, short))
    if memory_gib is None:
        return known
    alike = [card for key, card in CARDS.items() if key == short or key.startswith(f"{short}-")]
    if known is not None:
        alike.append(known)
    nearest = min(alike, key=lambda card: abs(card.memory_gib - memory_gib), default=None)
    if nearest is not None and abs(nearest.memory_gib - memory_gib) <= SAME_CARD * nearest.memory_gib:
        return nearest
    capability = nearest.capability if nearest is not None else None
    return Card(name=short, memory_gib=memory_gib, capability=capability, source="this machine's driver")


def unknown_words(name: str) -> str:
    """Return the line that says of a card that its memory is not known, and what to do."""
    return (
        f"hardware: the memory of a {name} is not known here; name one of {', '.join(sorted(CARDS))}, or plan on "
        "the machine itself with `hardware: auto`"
    )


def host_floor_gib(total_gib: float) -> float:
    """Return what is left to the host of unified memory."""
    return max(HOST_FLOOR_GIB, HOST_FLOOR_SHARE * total_gib)


def meminfo_gib(text: str) -> dict[str, float]:
    """Return the sizes in a /proc/meminfo, GiB; the values there are in KiB, whatever unit they carry."""
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[key.strip()] = int(words[0]) / 1024**2
    return found
