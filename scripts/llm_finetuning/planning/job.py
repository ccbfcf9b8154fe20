"""The settings of a run that its memory depends on, and the numbers that come out."""

from dataclasses import dataclass
from typing import Literal

GIB = 1024**3

Dtype = Literal["float32", "bfloat16", "float16"]
Tuning = Literal["full", "lora", "qlora", "norms", "bias"]
"""`norms` and `bias` train those parameters alone, of the base model itself."""
Sharding = Literal["none", "zero3", "fsdp2", "layers"]
"""`layers` splits the layers themselves over devices, each whole on one."""
Engine = Literal["none", "transformers", "colocate", "server"]
Attention = Literal["sdpa", "eager", "flash"]
Tiles = Literal["none", "split", "recomputed"]
"""Whether the MLP takes a stretch of tokens at a time: split under a layer's checkpoint, or with a backward pass that
runs each stretch anew (Arctic long sequence training, arXiv 2506.13996; the tiled MLP of Unsloth and of verl)."""
LossPath = Literal[
    "fused", "selected", "causal_lm", "float_logits", "eager_ce", "liger", "chunked", "eighths", "in_place", "hidden"
]
"""How the loss leaves the hidden states; `head` says what each costs. `hidden`: no head at all."""

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """LoRA, as PEFT builds it."""

    rank: int
    targets: tuple[str, ...] | None = None  # names of `nn.Linear`s; None for all inside the layers
    dropout: float = 0.0
    dtype: Dtype = "float32"  # PEFT's autocast_adapter_dtype; TRL 1.16 casts those of a quantised model to bf16
    whole: tuple[str, ...] = ()  # PEFT's modules_to_save, `embed_tokens` and `lm_head`: float32 copies, trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What generates completions on the trainer's device."""

    engine: Engine = "none"
    batch: int = 0  # sequences generated at once; 0: the training batch
    utilization: float = 0.3  # vllm_gpu_memory_utilization, a share of the whole device
    sleep: bool = False
    weights: Dtype = "bfloat16"  # vLLM takes the checkpoint's, whatever the trainer loads
    quantized: bool = False  # 4-bit weights in vLLM too
    tensor_parallel: int = 1
    cache_bytes: int = 2  # of one element of the KV cache; 1 for fp8
    context: int = 0  # vllm_max_model_length; 0: prompt and completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training run on one device, or one device's share of it.

    Every length is in tokens and means the longest that the run can meet, since the peak follows the longest batch.
    """

    method: str = "grpo"
    tuning: Tuning = "full"
    weights: Dtype = "float32"  # what the model is loaded in; TRL loads a model named by a string in float32
    autocast: bool = True  # bf16=True or fp16=True: weights as they are, arithmetic in 16 bits
    batch: int = 8
    prompt: int = 512
    completion: int = 512
    kept: int | None = None  # tokens a sequence whose logits count; None: the completion in GRPO, all elsewhere
    padded: bool = True
    attention: Attention = "sdpa"
    checkpointing: bool = True
    offloaded: bool = False  # kept activations wait in host memory
    optimizer: str = "adamw_torch_fused"
    optimizer_in_backward: bool = False
    accumulation: int = 1
    adapter: Adapter | None = None
    double_quantization: bool = False
    quantized_experts: bool = False  # bitsandbytes replaces `nn.Linear`s; transformers 5 keeps experts as one tensor
    loss: LossPath = "fused"
    fused_kernels: bool = False  # Liger's, or a compiler's: norms and gates in one kernel each
    tiles: Tiles = "none"
    reference: bool = False  # a second model beside the policy
    others: float = 0.0  # GiB of models beside it: a reward model, a teacher
    sequences: int = 1  # a row of the batch holds so many: 2 where chosen and rejected pass together
    sharding: Sharding = "none"
    shards: int = 1
    hosted: bool = False  # FSDP2's CPU offload: shards of weights, gradients and optimizer wait in host memory
    sequence_shards: int = 1  # context parallelism
    device: Literal["cuda", "cpu"] = "cuda"
    varying: bool = True  # lengths differ from batch to batch, so that the allocator's blocks fit less well
    first_step: bool = False  # before the optimizer has states
    saves_4bit_inputs: bool = False  # bitsandbytes before 0.42 kept the input of every 4-bit map
    rollout: Rollout = Rollout()

    @property
    def length(self) -> int:
        """Tokens of one padded sequence."""
        return self.prompt + self.completion

    @property
    def rows(self) -> int:
        """Sequences of one micro-batch."""
        return self.batch * self.sequences

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch that one device holds."""
        return -(-self.rows * self.length // self.sequence_shards)

    @property
    def logit_rows(self) -> int:
        """Tokens of one micro-batch that meet the loss head."""
        kept = self.kept if self.kept is not None else self.completion if self.method == "grpo" else self.length
        return -(-self.rows * kept // self.sequence_shards)

    @property
    def weight_bytes(self) -> int:
        """Bytes of one parameter as loaded."""
        return BYTES[self.weights]

    @property
    def casts(self) -> bool:
        """Whether autocast makes 16-bit copies of 32-bit weights; shards are gathered in 16 bits already."""
        return self.autocast and self.weights == "float32" and self.sharding not in ("zero3", "fsdp2")

    @property
    def compute_bytes(self) -> int:
        """Bytes of one element where matrices are multiplied."""
        return 2 if self.autocast else self.weight_bytes

    @property
    def stream_bytes(self) -> int:
        """Bytes of one element of the residual stream."""
        return self.weight_bytes

    @property
    def wide(self) -> bool:
        """Whether the residual stream is in 32 bits."""
        return self.weights == "float32"

    @property
    def masked(self) -> bool:
        """Whether attention gets a mask, for which transformers repeats the key heads and keeps a bias a layer."""
        return self.padded and self.attention == "sdpa" and self.sequence_shards == 1

    @property
    def trains_head(self) -> bool:
        """Whether the loss head's weight is trained."""
        return self.tuning == "full" or (self.adapter is not None and "lm_head" in self.adapter.whole)

    @property
    def paged(self) -> bool:
        """Whether optimizer states lie in memory that the driver moves to the host when the device runs short."""
        return "paged" in self.optimizer.lower() and self.device == "cuda"

    @property
    def frozen(self) -> bool:
        """Whether the maps of the base model are not trained."""
        return self.tuning != "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number with where it comes from."""

    name: str
    gib: float
    low: float
    high: float
    formula: str


def quantity(name: str, size: float, formula: str, error: float = 0.0) -> Quantity:
    """Return a quantity of so many bytes, to within a share of itself."""
    gib = size / GIB
    return Quantity(name=name, gib=gib, low=gib * (1 - error), high=gib * (1 + error), formula=formula)
