"""How fast a card reads, multiplies and is fed: its datasheet's figures times the shares that runs were seen to reach.

Few constants, each one for all models and cards. "Fitted" means on public measurements of decoding and training speed,
read on 30 November 2026; none is for one measurement alone. A calibration on the machine replaces them.
"""

from dataclasses import dataclass

from llm_finetuning.planning.hardware import Card

BANDWIDTH_SHARE = 0.6
"""Of a card's own memory. 0.34 (H20) to 0.70 (H100, a 72B on two) of it was seen while one sequence is decoded."""

UNIFIED_SHARE = 0.8
"""Of memory that host and GPU share: DGX Spark decodes an 8B at 0.79 and a 32B at 0.89 of its 273 GB/s in bfloat16, an
8B in FP8 at 0.60. Slow memory is easier to keep busy."""

ARITHMETIC_SHARE = 0.65
"""Of the dense 16-bit rate, in products of thousands of rows alone; what lies between products is counted apart. A100:
0.44 of the peak over a whole eager step, 0.59 compiled; DGX Spark 0.44 with LoRA. Fitted."""

OLD_ARITHMETIC_SHARE = 0.35
"""Likewise before Ampere (capability below 8.0), which lacks asynchronous copies and FlashAttention 2. Fitted on T4."""

EXPERTS_SHARE = 0.35
"""How much of that a mixture of experts reaches, whose products are small and scattered. Fitted."""

LAUNCH_S = 0.6e-3
"""What the host takes to launch one layer's forward pass operation by operation: transformers 4.51 decodes Qwen3 of
0.6B to 32B in 0.60 to 0.61 ms a layer and token on an H20, whatever the size (Qwen3's speed table)."""

OLD_HOST = 2.0
"""How much longer that takes on the hosts that cards before Ampere stand in: two virtual cores of 2 GHz beside a T4 of
a notebook service. Fitted."""

MIXTURE_LAUNCHES = 1.5
"""Launches of a layer with experts, which routes, sorts and gathers, in those of a plain one: gpt-oss-120b in vLLM with
and without CUDA graphs. Fitted."""

GRAPH_S = 50e-6
"""What one layer of one decoding step takes at least where CUDA graphs replay it. Fitted on models below 2B."""

SEQUENCE_S = 30e-6
"""What the engine's host side takes a sequence and step: scheduling, sampling, turning ids into text. Fitted."""

WITH_NVLINK = ("v100", "v100-32", "a100", "a100-40", "h100", "h20", "h200", "b200")
"""Cards whose usual machines join them by NVLink; the others talk over PCIe."""

NVLINK_S, PCIE_S = 15e-6, 30e-6
"""What an all-reduce of a decoding step's few kilobytes takes. Fitted on models split over two devices."""

NVLINK_BYTES_S, PCIE_BYTES_S = 150e9, 15e9
"""What one device receives a second from the others in large pieces: about half of NVLink's 300 GB/s one way (A100),
and of PCIe 4.0's 31.5 GB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one device reaches."""

    name: str
    bandwidth: float  # bytes a second
    arithmetic: float  # 16-bit operations a second in large dense products
    launch_s: float = LAUNCH_S
    graph_s: float = GRAPH_S
    sequence_s: float = SEQUENCE_S
    link_s: float = PCIE_S  # of one all-reduce between two devices
    link_bytes_s: float = PCIE_BYTES_S
    capability: tuple[int, int] | None = None
    unified: bool = False
    calibrated: bool = False
    source: str = ""

    @property
    def error(self) -> float:
        """The factor by which a time that follows from these may be off either way, nine times of ten."""
        return 1.4 if self.calibrated else 2.0


def rates_of(card: Card) -> Rates | None:
    """Return what a card reaches; None where its bandwidth or its 16-bit rate is not known."""
    peak = card.bf16_tflops or card.fp16_tflops
    if card.bandwidth_gb_s is None or peak is None:
        return None
    share = UNIFIED_SHARE if card.unified else BANDWIDTH_SHARE
    old = card.capability is not None and card.capability < (8, 0)
    reached = OLD_ARITHMETIC_SHARE if old else ARITHMETIC_SHARE
    nvlink = card.name in WITH_NVLINK
    return Rates(
        name=card.name,
        bandwidth=card.bandwidth_gb_s * 1e9 * share,
        arithmetic=peak * 1e12 * reached,
        launch_s=LAUNCH_S * (OLD_HOST if old else 1.0),
        link_s=NVLINK_S if nvlink else PCIE_S,
        link_bytes_s=NVLINK_BYTES_S if nvlink else PCIE_BYTES_S,
        capability=card.capability,
        unified=card.unified,
        source=f"{share:.0%} of {card.bandwidth_gb_s:g} GB/s, {reached:.0%} of {peak:g} TFLOP/s ({card.source})",
    )


def unknown_words(name: str) -> str:
    """Return that the speed of a card is not known; what measures it is the caller's to say."""
    return f"bandwidth and 16-bit rate of a {name} are not both known here"
