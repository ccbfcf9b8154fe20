"""The loss head: what lies between the last hidden states and the loss, by the path that computes it.

Coefficients are bytes for one token times one entry of the vocabulary; each has its evidence beside it.
"""

from dataclasses import dataclass

from llm_finetuning.planning.job import BYTES, Job, LossPath
from llm_finetuning.planning.shapes import Architecture

TILE_TOKENS, TILE_VOCABULARY = 4096, 32768  # of TRL's fused head (trl/kernels/chunked_logprob.py, 1.15 on)

FUSED_FROM = (1, 15)
"""The TRL version from which GRPO, SFT, DPO, KTO and RLOO never make the whole logits."""


@dataclass(frozen=True, slots=True)
class Head:
    """Bytes at the two moments that can be the peak, and what it leaves until the end."""

    forward: float  # at most, while the loss is computed
    backward: float  # at most, while its gradient is
    weight_gradient: bool  # whether the head's weight takes part in the backward pass
    formula: str


def loss_path(method: str, trl: tuple[int, ...], *, liger: bool = False) -> LossPath:
    """Return the path that a TRL version takes for a method.

    Before 1.15, GRPO kept the logits of the completions and SFT and DPO went through the causal model's own loss.
    """
    if liger:
        return "liger"
    if trl[:2] >= FUSED_FROM:
        return "fused"
    return "selected" if method in ("grpo", "dpo", "kto") else "causal_lm"


_PER_LOGIT: dict[LossPath, tuple[float, float, str]] = {
    # logits in 16 bits, their float32 copy, log-softmax; then its gradient
    "causal_lm": (10.0, 12.0, "12 B x tokens x vocabulary: 16-bit logits, fp32 copy, log-softmax, gradient"),
    # TRL before 1.15 in GRPO's training pass: 28,391 MiB for 14,336 tokens of 128,256 entries
    "selected": (10.0, 16.2, "16.2 B x completion tokens x vocabulary: logits and their log-probabilities, TRL < 1.15"),
    # an eager cross entropy over float32 logits, as in older models and loops
    "eager_ce": (12.0, 18.0, "18 B x tokens x vocabulary: fp32 logits and an eager cross entropy"),
    # logits that are already float32 when the log-softmax meets them
    "float_logits": (8.0, 8.0, "8 B x kept tokens x vocabulary: fp32 logits and log-softmax"),
    # an eighth of the tokens at a time, in 16 bits and through fp32 to a gradient: torchtune's LinearCrossEntropyLoss
    "eighths": (
        1.75,
        1.75,
        "14 B x an eighth of the tokens x vocabulary; the head's gradient twice where it is trained",
    ),
    # 16-bit logits whose gradient takes their place: Unsloth's Triton cross entropy
    "in_place": (4.0, 4.0, "4 B x tokens x vocabulary: 16-bit logits, one copy, the gradient in their place"),
    "liger": (0.25, 0.25, "0.25 B x tokens x vocabulary and 6 B x vocabulary x hidden: Liger's fused loss"),
}


def head(model: Architecture, job: Job) -> Head:
    """Return what the loss head takes on one device."""
    rows, vocabulary, hidden = job.logit_rows, model.vocabulary, model.hidden
    trains_head = job.trains_head
    if job.loss == "hidden":
        return Head(0.0, 0.0, weight_gradient=False, formula="no head")
    if job.loss == "fused":
        return _fused(model, job)
    if job.loss == "chunked":
        chunk = 256 * vocabulary * 12.0
        weights = 4.0 * model.head if trains_head else 0.0
        return Head(
            chunk,
            chunk + weights + 2 * rows * hidden,
            weight_gradient=trains_head,
            formula="12 B x 256 tokens x vocabulary, and an fp32 gradient of the head where it is trained",
        )
    forward, backward, formula = _PER_LOGIT[job.loss]
    if job.loss == "causal_lm" and job.compute_bytes == BYTES["float32"]:
        forward -= 2.0  # logits that are 32-bit already are not copied
    constant = 0.0
    if job.loss == "liger":
        constant = 6.0 * model.head if trains_head else 2.0 * rows * hidden
    elif job.loss == "eighths" and trains_head:
        constant = 2.0 * model.head * job.weight_bytes
    return Head(
        forward * rows * vocabulary,
        backward * rows * vocabulary + constant,
        weight_gradient=trains_head,
        formula=formula,
    )


def _fused(model: Architecture, job: Job) -> Head:
    rows = job.logit_rows
    tile = min(rows, TILE_TOKENS) * min(TILE_VOCABULARY, model.vocabulary)
    trains_head = job.trains_head
    if job.device == "cuda":
        forward = float(job.compute_bytes * tile)
        weights = (4 if job.wide else 6) * model.head if trains_head else 0
        during = 4 * model.head if trains_head else 0
        hidden = (4 + job.stream_bytes) * rows * model.hidden
        backward = max(weights, during + forward) + hidden
    else:
        # Without Triton a tile is worked on by single operations, each with an fp32 copy.
        forward = 14.0 * tile
        backward = 31.0 * tile + (4 * model.head if trains_head else 0) + 4 * rows * model.hidden
    return Head(
        forward,
        backward,
        weight_gradient=trains_head,
        formula="a tile of 4,096 tokens x 32,768 entries; fp32 gradients of the head's weight and of the hidden states",
    )
