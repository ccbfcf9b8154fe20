"""Sample completions with transformers' `generate`, on the CPU or one GPU.

Job and records are those of every sampling engine: `batches` of requests in, one `ready` record, then one `group`
record a request; its `seconds` are the wall time of its batch divided by the completions in it. What a batch gives
depends on the batch alone, not on what ran before it.
"""

import os
import platform
import time
from typing import Any

from llm_finetuning.engines import adapter, checkpoint, hub, prompts, protocol
from llm_finetuning.engines.completions import completion, seed_of_batch

# OpenMP's threads spin while they wait. When another process wants a core, a spinning thread keeps the one it waits
# for from running: 16 steps of 128 completions took 136 s with spinning and 12 s without, beside one busy process.
PATIENT_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


def sample(job: protocol.Job, send: protocol.Send) -> None:
    """Send the groups of every batch; fails in one line for a model, a prompt or a memory that does not do."""
    for name, value in PATIENT_THREADS.items():
        os.environ.setdefault(name, value)
    checkpoint.check_folder(job["model"])
    adapter.check_folder(job.get("adapter"))
    hub.go_offline_when_silent(job["model"])
    engine = Engine(job)
    batches, prompt_facts = prompts.prepare(job, engine.tokenizer, engine.context_length)
    engine.load_weights()
    facts = engine.facts()
    if note := checkpoint.rounding_note(engine.config, facts["dtype"]):
        send({"kind": "progress", "text": note})
    send({"kind": "ready", "facts": {**facts, **prompt_facts}})
    for batch in batches:
        begun = time.perf_counter()
        groups = engine.groups(batch)
        seconds = (time.perf_counter() - begun) / sum(request.n for request in batch)
        for group in groups:
            send({**group, "seconds": seconds})


class Engine:
    """One loaded model with the sampling options of a job."""

    def __init__(self, job: protocol.Job) -> None:
        """Read config and tokenizer, so that bad prompts are told before the weights are read."""
        import torch

        self._torch = torch
        self._model_name = job["model"]
        self._adapter = job.get("adapter")
        self._sampling = job["sampling"]
        self.config = checkpoint.load_config(self._model_name)
        self.tokenizer = checkpoint.load_tokenizer(adapter.tokenizer_source(self._adapter) or self._model_name)
        self._generation_config = checkpoint.load_generation_config(self._model_name)
        self._end_ids = checkpoint.end_token_ids(self.tokenizer, self._generation_config)
        self.context_length = checkpoint.context_length(self.config)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        named = job.get("dtype")  # the job's own word, where the sensible one is not wanted
        self._dtype = getattr(torch, named) if named else self._sensible_dtype()

    def _sensible_dtype(self) -> Any:
        """Return bfloat16 where the hardware multiplies it, else float32; a CPU without it is many times slower."""
        torch = self._torch
        if self._device == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        fast = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
        return torch.bfloat16 if fast and self.config.dtype == torch.bfloat16 else torch.float32

    def load_weights(self) -> None:
        """Load the weights; fails when some are missing, which transformers alone would fill at random."""
        from transformers import AutoModelForCausalLM

        try:
            model, loading = AutoModelForCausalLM.from_pretrained(
                self._model_name, dtype=self._dtype, output_loading_info=True
            )
            self._model = model.to(self._device).eval()
        except Exception as fault:  # safetensors, torch and transformers each raise their own kind
            raise self._out_of_memory(fault) or checkpoint.unloadable(self._model_name, "model", fault) from fault
        missing = sorted(loading["missing_keys"])
        if missing:
            raise protocol.bad_input(
                f"{self._model_name}: the weights lack {len(missing)} tensors, the first is {missing[0]}; "
                "save the whole model again"
            )
        if self._adapter:
            self._model = adapter.loaded(self._model, self._adapter)

    def facts(self) -> dict[str, Any]:
        """Return what a later stage compares or shows about this engine."""
        import transformers

        return {
            "engine": "transformers",
            "versions": {
                "python": platform.python_version(),
                "torch": self._torch.__version__,
                "transformers": transformers.__version__,
            },
            "device": self._torch.cuda.get_device_name() if self._device == "cuda" else "cpu",
            "dtype": str(self._dtype).removeprefix("torch."),
            **adapter.facts(
                checkpoint.facts(self._model_name, self.config, self.tokenizer, self._generation_config), self._adapter
            ),
        }

    def groups(self, batch: list[prompts.Request]) -> list[dict[str, Any]]:
        """Return one group record a request; all requests of a batch share their temperature."""
        greedy = batch[0].temperature == 0
        copies = [1 if greedy else request.n for request in batch]  # greedy completions of a prompt are all the same
        self._torch.manual_seed(seed_of_batch(request.seed for request in batch))
        try:
            with self._torch.inference_mode():
                rows = self._generate([request.ids for request in batch], copies, batch[0].temperature)
        except RuntimeError as fault:
            raise self._out_of_memory(fault) or fault from fault
        groups = []
        for request, made in zip(batch, copies, strict=True):
            ids, rows = rows[:made], rows[made:]
            completions = [completion(own, self.tokenizer, self._end_ids) for own in ids]
            groups.append(
                {
                    "kind": "group",
                    "prompt_id": request.prompt_id,
                    "pass_name": request.pass_name,
                    "prompt_tokens": len(request.ids),
                    "completions": completions * request.n if greedy else completions,
                }
            )
        return groups

    def _generate(self, prompt_ids: list[list[int]], copies: list[int], temperature: float) -> list[list[int]]:
        """Return the completions' ids, `copies[i]` in a row for prompt i, end tokens and padding behind them kept."""
        torch = self._torch
        width = max(len(ids) for ids in prompt_ids)
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.tensor([[pad] * (width - len(own)) + own for own in prompt_ids], device=self._device)
        mask = torch.tensor([[0] * (width - len(own)) + [1] * len(own) for own in prompt_ids], device=self._device)
        spread = torch.repeat_interleave(torch.arange(len(copies)), torch.tensor(copies)).to(self._device)
        made = self._model.generate(
            input_ids=ids[spread],
            attention_mask=mask[spread],
            generation_config=self._options(temperature),
            **self._prefill(ids, mask, spread),
        )
        return [list(row) for row in made[:, width:].tolist()]

    def _prefill(self, ids: Any, mask: Any, spread: Any) -> dict[str, Any]:
        """Return a cache that holds each prompt's keys and values once computed and then copied to its completions.

        `generate` alone would compute them once a completion, which is a third of the work of a short group. Models
        with another kind of cache, or that count positions themselves, go without.
        """
        import inspect

        from transformers import DynamicCache
        from transformers.cache_utils import DynamicLayer

        cache = DynamicCache(config=self._model.config)
        takes_positions = "position_ids" in inspect.signature(self._model.forward).parameters
        if ids.shape[1] == 1 or not takes_positions or {type(layer) for layer in cache.layers} != {DynamicLayer}:
            return {}
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self._model(
            input_ids=ids[:, :-1],
            attention_mask=mask[:, :-1],
            position_ids=positions[:, :-1],
            past_key_values=cache,
            use_cache=True,
        )
        cache.batch_select_indices(spread)
        return {"past_key_values": cache}

    def _options(self, temperature: float) -> Any:
        """Return TRL's generation config; every option is said, so the model's own config adds none."""
        from transformers import GenerationConfig

        sampling = self._sampling
        shared = {
            "max_new_tokens": sampling["max_completion_length"],
            "pad_token_id": self.tokenizer.pad_token_id,
            "bos_token_id": self.tokenizer.bos_token_id,
            "eos_token_id": self._end_ids,
            "repetition_penalty": sampling["repetition_penalty"],
            "disable_compile": True,
        }
        if temperature == 0:
            return GenerationConfig(**shared, do_sample=False)
        return GenerationConfig(
            **shared,
            do_sample=True,
            temperature=temperature,
            top_p=sampling["top_p"],
            top_k=sampling["top_k"],
            min_p=sampling["min_p"],
        )

    def _out_of_memory(self, fault: Exception) -> protocol.Failure | None:
        """Return the failure for memory that ran out; None for any other fault."""
        said = str(fault)
        if not isinstance(fault, self._torch.OutOfMemoryError) and "allocate memory" not in said:
            return None
        return protocol.machinery(
            f"{self._model_name}: out of memory on {self._device} ({said.splitlines()[0]}); lower "
            "sampling.num_generations or max_completion_length, or use a machine with more memory"
        )


if __name__ == "__main__":
    protocol.serve(sample)
