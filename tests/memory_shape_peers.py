"""Estimators that know a model's shape: its widths, heads, layers and vocabulary. One adapter each."""

import dataclasses
import json

from memory_asked import GIB, PROJECTIONS, SHARDED, SHORT, Asked, Estimate, Unknown, empty, everywhere


def llm_analysis(asked: Asked) -> Estimate:
    """Its training analysis; a gated feed-forward part goes in as 1.5 times its width, as in its own Llama configs."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import (
        DtypeConfig,
        ModelConfig,
        ParallelismConfig,
        get_gpu_config_by_name,
    )

    asked.demand("full", sharding=SHARDED, optimizers=("adamw", "adam8bit", "sgd", "adafactor"))
    bits = 32 if asked.weights == "float32" else 16
    wide = asked.inner * 3 / 2 / asked.hidden
    model = ModelConfig(
        name="model",
        num_layers=asked.layers,
        n_head=asked.heads,
        hidden_dim=asked.hidden,
        vocab_size=asked.vocabulary,
        max_seq_len=max(asked.context, asked.length),
        num_key_value_heads=asked.kv_heads,
        ffn_embed_dim=int(asked.hidden * wide),
        expansion_ratio=wide,
        moe_num_experts=asked.experts,
        moe_top_k=asked.active,
    )
    analysis = LLMAnalysis(
        model,
        get_gpu_config_by_name("a100-sxm-80gb"),
        DtypeConfig(
            "run", weight_bits=bits, activation_bits=16 if asked.job["autocast"] else bits, embedding_bits=bits
        ),
        ParallelismConfig(dp_size=asked.shards),
        flops_efficiency=0.5,
    )
    each = bits // 8  # gradients; its optimizer bytes are these and `other_op_bytes` together
    moments = {"adamw": 2 * each, "adam8bit": 2, "sgd": 0, "adafactor": 0}[asked.optimizer]
    found = analysis.training(
        batch_size_per_gpu=asked.batch,
        gradient_accumulation_steps=int(asked.job["accumulation"]),
        seq_len=asked.length,
        total_num_tokens=asked.length,
        activation_recomputation=ActivationRecomputation.FULL if asked.checkpointing else ActivationRecomputation.NONE,
        ds_zero=DSZeRO.STAGE_3 if asked.shards > 1 else DSZeRO.NONE,
        master_weights_dtype_bytes=each,
        other_op_bytes=moments - each,
        flash_attn=asked.job["attention"] != "eager",
    )
    return everywhere(found["(weight+op_state+grad+act)_memory_per_gpu"] / GIB)


def fitcheck(asked: Asked) -> Estimate:
    """Its training report: the overhead counts where the allocator's reserve or the whole device was measured."""
    import fitcheck as peer
    from fitcheck import config_parser as parser

    asked.demand("full", "lora", "qlora", optimizers=("adamw", "adam8bit", "sgd"))
    parser._reject_unsupported(asked.config, "model")
    fields = parser._parse_fields(asked.config)
    count = parser._reconcile_param_count("model", asked.parameters, parser._count_params(fields))
    model = parser.ModelConfig(name="model", num_params=count, **dataclasses.asdict(fields))
    quantized = asked.tuning == "qlora"
    training = peer.TrainingConfig(
        precision=asked.narrow if quantized else SHORT[asked.weights],
        quantization="nf4" if quantized else "none",
        double_quant=quantized and bool(asked.job["double_quantization"]),
        optimizer=asked.optimizer,
        optimizer_dtype="bf16" if asked.tuning == "full" and asked.weights != "float32" else "fp32",
        batch_size=asked.batch,
        seq_len=asked.length,
        lora_rank=asked.rank or None,
        lora_targets=list(asked.targets),
        grad_checkpoint=asked.checkpointing,
        flash_attn=asked.job["attention"] != "eager",
        grad_accum_steps=int(asked.job["accumulation"]),
    )
    known = "T4" in asked.card
    card = peer.get_gpu("t4") if known else peer.get_gpu(vram_mib=int((asked.card_gib or 80) * 1024))
    report = peer.estimate(model, training, card)
    whole = report.total_mib / 1024
    return {"allocated": whole - report.overhead_mib / 1024, "reserved": whole, "device": whole}


def vramcalc(asked: Asked) -> Estimate:
    """Its training estimate; what it calls overhead is the CUDA context, so it counts for the whole device alone."""
    import vramcalc as peer

    asked.demand("full", "lora")
    mixed = asked.weights == "float32" and asked.job["autocast"]
    found = peer.estimate(
        dict(asked.config),
        mode="train",
        dtype="bf16" if mixed else SHORT[asked.weights],
        batch=asked.batch,
        seq_len=asked.length,
        lora_rank=asked.rank or None,
        grad_checkpoint=asked.checkpointing,
        precision="amp" if mixed else "pure",
        attn_impl=asked.job["attention"],
    )
    tensors = found.total / GIB
    return {"allocated": tensors, "reserved": tensors, "device": tensors + found.overhead / GIB}


def ftuneai(asked: Asked) -> Estimate:
    """Its estimate of memory on one device."""
    from ftuneai.core import models
    from ftuneai.core.memory import MemoryEstimator

    known = ("adamw", "adam8bit", "adafactor")
    asked.demand("full", "lora", "qlora", sharding=SHARDED, optimizers=known)
    attention = set(asked.targets) <= set(PROJECTIONS[:4])
    target = "all_linear" if not attention else "attention" if len(asked.targets) < 4 else "attention_all"
    model = models.ModelSpec(
        name="model",
        parameters=asked.parameters,
        hidden_size=asked.hidden,
        num_layers=asked.layers,
        num_attention_heads=asked.heads,
        num_kv_heads=asked.kv_heads,
        intermediate_size=asked.inner,
        vocab_size=asked.vocabulary,
        max_seq_length=max(asked.context, asked.length),
        default_dtype=asked.weights,
        is_moe=asked.experts > 1,
        num_experts=asked.experts,
        num_active_experts=asked.active,
    )
    training = models.TrainingConfig(
        method=models.FineTuneMethod(asked.tuning),
        quantization=models.Quantization("4bit" if asked.tuning == "qlora" else "none"),
        batch_size=asked.batch,
        seq_length=asked.length,
        gradient_checkpointing=asked.checkpointing,
        optimizer=models.OptimizerType(asked.optimizer.replace("adam8bit", "adam_8bit")),
        lora_rank=asked.rank,
        lora_target=models.LoRATarget(target),
        flash_attention=asked.job["attention"] != "eager",
        sharding=models.ShardingStrategy({"zero3": "zero_3", "fsdp2": "fsdp"}.get(asked.job["sharding"], "none")),
        num_gpus=asked.shards,
    )
    return everywhere(MemoryEstimator(model, training).estimate().total_gb)


def ml_memguard(asked: Asked) -> Estimate:
    """Its estimate of training memory."""
    from memory_guard import estimator as peer

    asked.demand("full", "lora", "qlora", optimizers=("adamw", "adafactor"))
    quantized = asked.tuning == "qlora"
    model = peer.ModelSpec(
        params=asked.parameters,
        hidden_dim=asked.hidden,
        num_heads=asked.heads,
        num_kv_heads=asked.kv_heads,
        num_layers=asked.layers,
        intermediate_dim=asked.inner,
        bits=4 if quantized else 32 if asked.weights == "float32" else 16,
        arch=peer.ModelArch.MOE if asked.experts > 1 else peer.ModelArch.DENSE,
        num_experts=asked.experts,
        num_active_experts=asked.active,
    )
    training = peer.TrainSpec(
        method=peer.FinetuneMethod(asked.tuning),
        batch_size=asked.batch,
        seq_length=asked.length,
        lora_rank=max(asked.rank, 1),
        lora_layers=asked.layers,
        lora_targets=len(asked.targets),
        optimizer=asked.optimizer.replace("adam8bit", "adamw"),
        grad_checkpoint=asked.checkpointing,
        grad_accumulation=int(asked.job["accumulation"]),
        mixed_precision=bool(asked.job["autocast"]) or asked.weights != "float32",
        qlora_double_quant=quantized and bool(asked.job["double_quantization"]),
        flash_attention=asked.job["attention"] != "eager",
    )
    return everywhere(peer.estimate_training_memory(model, training).total_mb / 1024)


def torch_kitsune(asked: Asked) -> Estimate:
    """Its prediction for the model itself, made without memory; it cannot be told of checkpointing."""
    from kitsune.predict.estimator import predict_memory
    from kitsune.predict.lora_estimator import LoRAConfig, estimate_lora_memory

    asked.demand("full", "lora", "qlora", optimizers=("adamw", "sgd"))
    quantized = asked.tuning == "qlora"
    model = empty(json.dumps(asked.config), "float32" if quantized else asked.weights, "AutoModelForCausalLM")
    narrow = asked.weights if asked.weights != "float32" else "bfloat16"
    dtype = narrow if asked.job["autocast"] else asked.weights
    if asked.tuning == "full":
        return everywhere(predict_memory(model, (asked.length,), asked.batch, dtype, asked.optimizer).total_gb)
    adapter = LoRAConfig(rank=asked.rank, target_modules=asked.targets, use_qlora=quantized)
    return everywhere(estimate_lora_memory(model, (asked.length,), asked.batch, dtype, adapter).total_gb)


def canifinetune(asked: Asked) -> Estimate:
    """Its static estimate without the safety margin; the CUDA overhead counts where reserve or device was measured."""
    from canifinetune.estimator.memory import EstimateRequest, estimate

    known = ("adamw", "adam8bit", "sgd")
    asked.demand("full", "lora", "qlora", optimizers=known)
    quantized = asked.tuning == "qlora"
    scopes = {PROJECTIONS: "all_linear", PROJECTIONS[:4]: "attention", ("q_proj", "v_proj"): "conservative"}
    every = asked.tuning == "full" or asked.job["adapter"]["targets"] is None
    if not every and asked.targets not in scopes:
        raise Unknown("no such targets")
    fused = "adamw_torch_fused" if "fused" in asked.job["optimizer"] else "adamw_torch"
    found = estimate(
        EstimateRequest(
            model_id="model",
            method=asked.tuning,
            seq_len=asked.length,
            micro_batch_size=asked.batch,
            gradient_accumulation_steps=int(asked.job["accumulation"]),
            base_dtype=asked.narrow if quantized else SHORT[asked.weights],
            quantization="nf4_double_quant" if asked.job["double_quantization"] else "nf4",
            lora_rank=max(asked.rank, 1),
            lora_target_scope="all_linear" if every else scopes[asked.targets],
            optimizer={"adam8bit": "adamw_8bit", "sgd": "sgd"}.get(asked.optimizer, fused),
            gradient_checkpointing=asked.checkpointing,
            attention_implementation="eager" if asked.job["attention"] == "eager" else "sdpa",
            gpu_vram_gb=asked.card_gib or 80,
            use_network=False,
            override={
                "family": asked.text["model_type"],
                "hidden_size": asked.hidden,
                "num_hidden_layers": asked.layers,
                "num_attention_heads": asked.heads,
                "num_key_value_heads": asked.kv_heads,
                "intermediate_size": asked.inner,
                "vocab_size": asked.vocabulary,
                "total_params": asked.parameters,
                "tie_word_embeddings": asked.tied,
                "num_local_experts": asked.experts,
                "num_experts_per_tok": asked.active,
            },
        )
    ).memory
    whole = found.total_estimated_gb - found.safety_margin_gb
    return {"allocated": whole - found.cuda_overhead_gb, "reserved": whole, "device": whole}


def fitscout(asked: Asked) -> Estimate:
    """The estimate that its advisor works with; what it calls overhead is the CUDA context."""
    from fitscout.memory.estimator import estimate_memory
    from fitscout.model.profile import ModelProfile

    asked.demand("full", "lora", "qlora", optimizers=("adamw", "adam8bit"))
    width = 4 if asked.weights == "float32" else 2
    profile = ModelProfile(
        params=asked.parameters,
        num_layers=asked.layers,
        hidden_size=asked.hidden,
        num_attention_heads=asked.heads,
        num_kv_heads=asked.kv_heads,
        intermediate_size=asked.inner,
        vocab_size=asked.vocabulary,
        tie_word_embeddings=asked.tied,
        num_experts=asked.experts,
        dtype_bytes=width,
    )
    found = estimate_memory(
        profile,
        method=asked.tuning,
        micro_batch=asked.batch,
        seq_len=asked.length,
        grad_ckpt=asked.checkpointing,
        opt_8bit=asked.optimizer == "adam8bit",
        lora_rank=asked.rank,
        grad_dtype_bytes=width if asked.tuning == "full" else 4,
    )
    tensors = found.total_gb - found.overhead_gb
    return {"allocated": tensors, "reserved": tensors, "device": found.total_gb}
