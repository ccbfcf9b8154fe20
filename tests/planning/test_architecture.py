"""What is read out of a config.json: counts, caches, windows, and one line where something is not known."""

from typing import Any

import pytest

from llm_finetuning.planning import architecture
from llm_finetuning.planning.job import Adapter, Job
from llm_finetuning.planning.rollout import cache_bytes
from llm_finetuning.planning.shapes import UnknownShape
from llm_finetuning.planning.states import adapter_parameters, trained
from public_configs import CONFIGS

PUBLISHED = {
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.2-3B": 3_212_749_824,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Mixtral-8x7B": 46_702_792_704,
    "DeepSeek-V3": 671_026_404_352,
    "GPT-2": 124_439_808,
}
"""Parameters of the published weights, as their index files add up (DeepSeek-V3 without its prediction module)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_that_of_the_published_weights(name: str) -> None:
    """Tied heads once, all experts, every norm and bias."""
    assert architecture.read(CONFIGS[name]).total == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        ("Llama-3.2-1B", 32_768),  # vLLM's log: 563,744 tokens in 17.20 GiB
        ("Qwen3-8B", 147_456),  # vLLM's log: 65,376 tokens in 8.98 GiB
        ("DeepSeek-V3", 61 * (512 + 64) * 2),  # one compressed vector a layer
        ("Falcon-7B", 32 * 2 * 64 * 2),  # one key head
    ],
)
def test_the_cache_of_a_token(name: str, bytes_: int) -> None:
    """Key heads, not query heads, and the head width of the config make the cache."""
    model = architecture.read(CONFIGS[name])
    assert cache_bytes(model, 1000) - cache_bytes(model, 999) == bytes_


def test_sliding_windows_bound_the_cache() -> None:
    """Gemma 3 keeps the whole sequence in one layer of six; Nemotron's scans keep a state that does not grow."""
    gemma = architecture.read(CONFIGS["Gemma-3-27B"])
    whole = sum(layer.mixer.window is None for layer in gemma.layers)
    assert whole == 10
    per_layer = 2 * 16 * 128 * 2
    assert cache_bytes(gemma, 9000) - cache_bytes(gemma, 8000) == 1000 * whole * per_layer
    nemotron = architecture.read(CONFIGS["Nemotron-3-Nano-30B-A3B"])
    assert cache_bytes(nemotron, 2) - cache_bytes(nemotron, 1) == 6 * 2 * 2 * 128 * 2
    assert cache_bytes(nemotron, 1) > 20 * 2**20


def test_a_switched_off_window_is_none() -> None:
    """Qwen2 publishes a window that it does not use."""
    config = {**CONFIGS["Qwen2.5-7B"], "sliding_window": 131072, "use_sliding_window": False}
    assert all(layer.mixer.window is None for layer in architecture.read(config).layers)
    config |= {"use_sliding_window": True, "max_window_layers": 20}
    assert [layer.mixer.window for layer in architecture.read(config).layers] == [None] * 20 + [131072] * 8


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("Qwen3-30B-A3B", 2.9e9, 3.4e9), ("Mixtral-8x7B", 12e9, 13e9), ("DeepSeek-V3", 36e9, 38e9)],
)
def test_active_parameters_leave_idle_experts_out(name: str, low: float, high: float) -> None:
    """All experts are resident; a token is multiplied with the active ones alone."""
    assert low < architecture.read(CONFIGS[name]).active < high


def test_parts_add_up() -> None:
    """No parameter is counted in two parts, and every part that is there is named."""
    for config in CONFIGS.values():
        model = architecture.read(config)
        assert sum(model.parameters().values()) == model.total
    parts = architecture.read(CONFIGS["gpt-oss-20b"]).parameters()
    assert parts.keys() == {"embedding", "head", "attention", "biases", "experts", "router", "norms", "other"}
    assert "head" not in architecture.read(CONFIGS["Llama-3.2-1B"]).parameters()


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_tied_head_is_found_where_vision_models_say_it(where: str) -> None:
    """`tie_word_embeddings` stands beside text_config or in it; the vision tower is an estimate, and named one."""
    config = dict(CONFIGS["Ministral-3-3B"])
    text = dict(config["text_config"])
    tied = text.pop("tie_word_embeddings")
    assert tied
    config["text_config"] = {**text, "tie_word_embeddings": True} if where == "inside" else text
    if where == "outside":
        config["tie_word_embeddings"] = True
    model = architecture.read(config)
    assert model.tied
    assert 3.8e8 < model.vision < 4.6e8
    assert "vision" in model.notes[-1]
    config["text_config"] = {**text, "tie_word_embeddings": False}
    config.pop("tie_word_embeddings", None)
    assert not architecture.read(config).tied


def changed(name: str, **keys: Any) -> dict[str, Any]:
    config = {**CONFIGS[name], **keys}
    return {key: value for key, value in config.items() if value is not ...}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "rwkv"}, "model_type 'rwkv'"),
        ({}, "no model_type"),
        ({"model_type": 7}, "model_type 7"),
        (changed("Llama-2-7B", hidden_size=..., vocab_size=...), "no hidden_size, vocab_size"),
        (changed("Llama-2-7B", num_hidden_layers="32"), "num_hidden_layers is '32', not a count"),
        (changed("Llama-2-7B", num_hidden_layers=0), "num_hidden_layers is 0, not a count"),
        (changed("Llama-2-7B", vocab_size=float("inf")), "vocab_size is inf, not a count"),
        (changed("Llama-2-7B", intermediate_size=-1), "intermediate_size is -1"),
        (changed("Jamba-v0.1", mamba_d_state=...), "no mamba_d_state"),
        (changed("Nemotron-3-Nano-30B-A3B", hybrid_override_pattern="MX"), "'X' is not known"),
        (changed("Nemotron-3-Nano-30B-A3B", hybrid_override_pattern=...), "no hybrid_override_pattern"),
        ({"model_type": "florence2", "text_config": {"model_type": "bart"}}, "text_config of a florence2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_is_told_in_one_line(config: dict[str, Any], said: str) -> None:
    """A config that cannot be counted is refused with what is missing, never guessed at."""
    with pytest.raises(UnknownShape) as refused:
        architecture.read(config)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("tuning", "adapter", "count"),
    [
        ("lora", Adapter(rank=32, targets=("q_proj", "v_proj")), 9_175_040),
        ("lora", Adapter(rank=64, targets=("q_proj", "v_proj")), 18_350_080),
        ("lora", Adapter(rank=10, targets=("gate_proj", "up_proj", "down_proj")), 9_461_760),
        ("norms", None, 175_104),
        ("bias", None, 28_672),
    ],
)
def test_trained_parameters_are_those_that_peft_reports(tuning: Any, adapter: Adapter | None, count: int) -> None:
    """PEFT's own counts for Llama-3.2-3B, from its published comparison."""
    model = architecture.read(CONFIGS["Llama-3.2-3B"])
    job = Job(tuning=tuning, adapter=adapter)
    assert sum(trained(model, job)) == count


def test_fused_maps_are_adapted_whole() -> None:
    """A target of one of the maps that Phi joins adapts the joined map; without targets every map is adapted."""
    phi = architecture.read(CONFIGS["Phi-4"])
    one = adapter_parameters(phi, Adapter(rank=8, targets=("q_proj",)))
    assert one == 40 * 8 * (5120 + (40 + 2 * 10) * 128)
    assert adapter_parameters(phi, Adapter(rank=8)) > adapter_parameters(
        phi, Adapter(rank=8, targets=("q_proj", "o_proj"))
    )


def test_listed_kinds_say_which_layers_slide() -> None:
    """`layer_types` decides where a config has it; a family's own rhythm elsewhere."""
    kinds = ["sliding_attention", "full_attention", "full_attention"] * 8
    listed = architecture.read(changed("gpt-oss-20b", layer_types=kinds))
    assert [layer.mixer.window for layer in listed.layers] == [128, None, None] * 8
    assert [layer.mixer.window for layer in architecture.read(CONFIGS["gpt-oss-20b"]).layers] == [128, None] * 12
