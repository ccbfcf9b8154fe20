"""How layers are laid out, what each keeps for the backward pass, and what the loss head takes."""

from typing import Any

import pytest

from llm_finetuning.planning import architecture
from llm_finetuning.planning.activations import layer_needs
from llm_finetuning.planning.head import head
from llm_finetuning.planning.job import Adapter, Job
from llm_finetuning.planning.shapes import Architecture
from public_configs import CONFIGS


def model(name: str, **keys: Any) -> Architecture:
    config = {key: value for key, value in {**CONFIGS[name], **keys}.items() if value is not ...}
    return architecture.read(config)


def attending(described: Architecture) -> list[int]:
    return [index for index, layer in enumerate(described.layers) if layer.mixer.kind in ("attention", "latent")]


def sparse(described: Architecture) -> list[int]:
    return [index for index, layer in enumerate(described.layers) if layer.mlp.experts]


@pytest.mark.parametrize(
    ("described", "attend"),
    [
        (model("Qwen3-Next-80B-A3B"), [3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47]),
        (model("Qwen3-Next-80B-A3B", full_attention_interval=24), [23, 47]),
        (model("Jamba-v0.1"), [4, 12, 20, 28]),
        (model("Jamba-v0.1", attn_layer_offset=..., attn_layer_period=...), [4, 12, 20, 28]),
        (model("Bamba-9B"), [9, 18, 27]),
        (model("Granite-4.0-H-Tiny"), [5, 15, 25, 35]),
        (model("LFM2-1.2B"), [2, 5, 8, 10, 12, 14]),
        (model("Nemotron-3-Nano-30B-A3B"), [5, 12, 19, 26, 33, 42]),
    ],
    ids=lambda value: value.model_type if isinstance(value, Architecture) else "",
)
def test_hybrids_attend_where_their_config_says(described: Architecture, attend: list[int]) -> None:
    """The cache grows in the attending layers alone."""
    assert attending(described) == attend


@pytest.mark.parametrize(
    ("described", "with_experts"),
    [
        (model("Mixtral-8x7B"), list(range(32))),
        (model("Jamba-v0.1"), list(range(1, 32, 2))),
        (model("Jamba-v0.1", expert_layer_offset=..., expert_layer_period=...), list(range(1, 32, 2))),
        (model("Jamba-v0.1", num_experts=2), list(range(1, 32, 2))),
        (model("Jamba-v0.1", num_experts=1), []),
        (model("DeepSeek-V3"), list(range(3, 61))),
        (model("GLM-4.7-Flash"), list(range(1, 47))),
        (model("GLM-4.7-Flash", mlp_layer_types=["sparse"] * 2 + ["dense"] * 45), [0, 1]),
        (model("ERNIE-4.5-21B-A3B"), list(range(1, 28))),
        (model("ERNIE-4.5-21B-A3B", moe_layer_interval=2), list(range(1, 28, 2))),
        (model("ERNIE-4.5-21B-A3B", moe_layer_start_index=5, moe_layer_end_index=-1), list(range(5, 28))),
        (model("Qwen3-30B-A3B", decoder_sparse_step=2), list(range(1, 48, 2))),
        (model("Qwen3-30B-A3B", mlp_only_layers=[0, 47]), list(range(1, 47))),
    ],
    ids=lambda value: value.model_type if isinstance(value, Architecture) else "",
)
def test_experts_are_where_the_config_says(described: Architecture, with_experts: list[int]) -> None:
    """A mixture of experts may have dense layers at its start, between or at its end."""
    assert sparse(described) == with_experts


@pytest.mark.parametrize(
    "keys",
    [{}, {"tuning": "full", "padded": True}],
)
@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        # counted by running the operations on stand-in tensors: 60,417, 237,458, 212,893 and 75,898 bytes
        ("Qwen2.5-0.5B", 60_472),
        ("Qwen2.5-7B", 237_680),
        ("Llama-3.1-8B", 213_120),
        ("Qwen3-0.6B", 75_936),
        # two native norms, a plain MLP of 4h, four tensors of attention
        ("GPT-2", 2 * 4 * 768 + 2 * 2 * 3072 + 2 * 4 * 768 + 4 * 12),
        # two experts with their own inputs and outputs, and the router's scores
        ("Mixtral-8x7B", 16 * 4096 + 2 * 4 * 4096 + 4 * 32 + 2 * (8 * 14336 + 4 * 4096) + 8 * 8),
        # two more norms, behind attention and MLP, norms of queries and keys; its one key head is repeated as a view
        ("Gemma-3-270M", 16 * 640 + 12 * 640 + 8 * 2048 + 2 * (2 * 1024 + 2 * 256) + 4 * 4 + (6 * 256 + 4) * 5),
    ],
)
def test_what_a_layer_keeps_of_a_token(name: str, bytes_: int, keys: dict[str, Any]) -> None:
    """In 16 bits under a mask, the bias of the mask left out."""
    described = model(name)
    job = Job(weights="bfloat16", autocast=False, batch=1, prompt=0, completion=128, **keys)
    kept = layer_needs(described, described.layers[0], job).kept - 2 * 128**2
    assert kept == 128 * bytes_


@pytest.mark.parametrize(
    ("keys", "less"),
    [
        ({"padded": False}, 2 * 2 * (14 - 2) * 64 * 128 + 2 * 128**2),  # no repeated key heads, no bias
        ({"attention": "flash"}, 2 * 2 * (14 - 2) * 64 * 128 + 2 * 128**2),
        ({"fused_kernels": True}, (8 * 896 + 2 * 4864) * 128),
        ({"tuning": "lora"}, (8 * 896 + 2 * 4864) * 128),
        ({"tuning": "norms"}, (4 * 896 + 2 * 4864) * 128),
        ({"saves_4bit_inputs": True}, -2 * (2 * 896 + 896 + 4864) * 128),
    ],
    ids=str,
)
def test_what_a_setting_saves(keys: dict[str, Any], less: int) -> None:
    """Each setting of a layer of Qwen2.5-0.5B, against full tuning under a mask."""
    described = model("Qwen2.5-0.5B")
    base = {"weights": "bfloat16", "autocast": False, "batch": 1, "prompt": 0, "completion": 128}
    plain, changed = (layer_needs(described, described.layers[0], Job(**{**base, **more})) for more in ({}, keys))
    assert plain.kept - changed.kept == less


def test_a_frozen_native_norm_keeps_its_input_alone() -> None:
    """Where the maps behind a LayerNorm are frozen, its output is not kept."""
    described = model("GPT-2")
    job = Job(weights="bfloat16", autocast=False, batch=1, prompt=0, completion=128)
    full, lora = (
        layer_needs(described, described.layers[0], Job(**{**_fields(job), "tuning": tuning})).kept
        for tuning in ("full", "lora")
    )
    assert full - lora == 128 * (2 * 2 * 768 + 2 * 3072)


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Job.__slots__}


def test_scans_keep_what_they_work_on() -> None:
    """A scan keeps its projections, a convolution no state in fp32."""
    job = Job(weights="bfloat16", autocast=False, batch=1, prompt=0, completion=128)
    jamba = model("Jamba-v0.1")
    mamba = layer_needs(jamba, jamba.layers[0], job).kept
    assert mamba == 128 * (16 * 4096 + 8 * 14336 + 2 * 3 * 2 * 8192 + 8 * 8192)
    lfm = model("LFM2-1.2B")
    assert layer_needs(lfm, lfm.layers[0], job).kept == 128 * (16 * 2048 + 8 * 8192 + 2 * 3 * 3 * 2048)


VOCABULARY, HIDDEN, TILE = 152064, 3584, 4096 * 32768


@pytest.mark.parametrize(
    ("keys", "bytes_"),
    [
        ({"loss": "fused"}, 6 * VOCABULARY * HIDDEN + 6 * 4096 * HIDDEN),
        (
            {"loss": "fused", "weights": "float32", "autocast": True},
            4 * VOCABULARY * HIDDEN + 2 * TILE + 8 * 4096 * HIDDEN,
        ),
        ({"loss": "fused", "tuning": "lora", "adapter": Adapter(rank=8)}, 2 * TILE + 6 * 4096 * HIDDEN),
        ({"loss": "chunked"}, 12 * 256 * VOCABULARY + 4 * VOCABULARY * HIDDEN + 2 * 4096 * HIDDEN),
        ({"loss": "liger"}, 0.25 * 4096 * VOCABULARY + 6 * VOCABULARY * HIDDEN),
        ({"loss": "causal_lm"}, 12 * 4096 * VOCABULARY),
        ({"loss": "selected"}, 16.2 * 4096 * VOCABULARY),
        ({"loss": "causal_lm", "kept": 1}, 12 * 8 * VOCABULARY),
        ({"loss": "causal_lm", "method": "dpo", "sequences": 2}, 12 * 2 * 8 * 1024 * VOCABULARY),
        ({"loss": "hidden"}, 0),
    ],
    ids=str,
)
def test_the_head_of_a_7b(keys: dict[str, Any], bytes_: float) -> None:
    """Eight sequences with 512 tokens of completion each: GRPO meets the completions alone, DPO all of both."""
    job = Job(**{"weights": "bfloat16", "autocast": False, "batch": 8, "prompt": 512, "completion": 512, **keys})
    assert head(model("Qwen2.5-7B"), job).backward == pytest.approx(bytes_)


@pytest.mark.parametrize(
    ("loss", "a_logit"),
    [("causal_lm", 10), ("selected", 10), ("eager_ce", 12), ("float_logits", 8), ("in_place", 4), ("eighths", 1.75)],
)
def test_the_head_on_the_way_forward(loss: Any, a_logit: float) -> None:
    """Before its gradient is computed, the loss holds fewer copies of the logits."""
    job = Job(weights="bfloat16", autocast=False, batch=8, prompt=512, completion=512, loss=loss)
    assert head(model("Qwen2.5-7B"), job).forward == pytest.approx(a_logit * 4096 * VOCABULARY)


def test_a_parallel_residual_has_one_norm() -> None:
    """StableLM 2 12B feeds attention and MLP from one norm, and norms every head of queries and keys."""
    large, small = model("StableLM-2-12B"), model("StableLM-2-1.6B")
    assert (large.layers[0].norms, small.layers[0].norms) == (1, 2)
    assert (large.layers[0].mixer.qk_norm, small.layers[0].mixer.qk_norm) == ((32 + 8) * 160, 0)
    assert (model("GLM-4.5").layers[0].mixer.qk_norm, model("GLM-4.5-Air").layers[0].mixer.qk_norm) == (2 * 128, 0)
