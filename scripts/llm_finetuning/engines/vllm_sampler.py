"""Sample completions with vLLM's offline engine, inside this one process.

Job and records are those of every sampling engine. Prompts go in as the token ids that TRL would make. All random
numbers are seeded before each batch, so that it gives the same completions whatever ran before it. Seeds of single
requests would do too, but vLLM draws them one by one, and 0.31 for the CPU dies of them when it splits a prompt.
"""

import os
import platform
import random
import time
from typing import Any

from llm_finetuning.engines import adapter, checkpoint, hub, prompts, protocol
from llm_finetuning.engines.completions import completion, seed_of_batch

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine core as a child process would outlive a killed parent
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; read by the CPU build alone, which else takes half the memory
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

SHORTEST_CONTEXT = 2048


def sample(job: protocol.Job, send: protocol.Send) -> None:
    """Send the groups of every batch; fails in one line for a model, a prompt or a memory that does not do."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    checkpoint.check_folder(job["model"])
    adapter.check_folder(job.get("adapter"))
    hub.go_offline_when_silent(job["model"])
    config = checkpoint.load_config(job["model"])
    tokenizer = checkpoint.load_tokenizer(adapter.tokenizer_source(job.get("adapter")) or job["model"])
    context = checkpoint.context_length(config)
    batches, prompt_facts = prompts.prepare(job, tokenizer, context)
    longest = max((len(request.ids) for batch in batches for request in batch), default=0)
    engine = Engine(job, config, tokenizer, context_needed(longest + _wanted(job), context))
    facts = engine.facts()
    if note := checkpoint.rounding_note(config, facts["dtype"]):
        send({"kind": "progress", "text": note})
    send({"kind": "ready", "facts": {**facts, **prompt_facts}})
    for batch in batches:
        begun = time.perf_counter()
        groups = engine.groups(batch)
        seconds = (time.perf_counter() - begun) / sum(request.n for request in batch)
        for group in groups:
            send({**group, "seconds": seconds})


def _wanted(job: protocol.Job) -> int:
    return int(job["sampling"]["max_completion_length"])


def context_needed(tokens: int, context: int | None) -> int:
    """Return the context to reserve memory for: a power of two, so that a continued job reserves the same."""
    room = SHORTEST_CONTEXT
    while room < tokens:
        room *= 2
    return room if context is None else min(room, context)


def cpu_dtype(config: Any) -> str:
    """Return what a CPU computes in: bfloat16, but never what would round weights that are saved in 32 bits."""
    return "float32" if checkpoint.kept_dtype(config) == "float32" else "bfloat16"


class Engine:
    """One vLLM engine with the sampling options of a job."""

    def __init__(self, job: protocol.Job, config: Any, tokenizer: Any, context: int) -> None:
        """Load the model; fails in one line when vLLM cannot serve it or memory is short."""
        import torch
        import vllm

        self._torch, self._vllm = torch, vllm
        self._model_name = job["model"]
        self._adapter = job.get("adapter")
        self._sampling = job["sampling"]
        self._config, self._tokenizer = config, tokenizer
        self._generation_config = checkpoint.load_generation_config(job["model"])
        self._end_ids = checkpoint.end_token_ids(tokenizer, self._generation_config)
        on_gpu = torch.cuda.is_available()
        try:
            self._llm = vllm.LLM(
                model=job["model"],
                dtype="auto" if on_gpu else cpu_dtype(config),
                max_model_len=context,
                generation_config="vllm",  # no sampling options from the model's own file
                enforce_eager=not on_gpu,  # compiling for the CPU takes longer than a sampling job
                disable_log_stats=True,
                seed=0,
                **(adapter.vllm_options(self._adapter) if self._adapter else {}),
            )
        except Exception as fault:  # vLLM reports every unfit model and memory in its own way
            raise self._memory_failure(fault) or checkpoint.unloadable(job["model"], "model", fault) from fault

    def facts(self) -> dict[str, Any]:
        """Return what a later stage compares or shows about this engine."""
        import transformers

        settings = self._llm.llm_engine.vllm_config
        return {
            "engine": "vllm",
            "versions": {
                "python": platform.python_version(),
                "torch": self._torch.__version__,
                "transformers": transformers.__version__,
                "vllm": self._vllm.__version__,
            },
            "device": self._torch.cuda.get_device_name() if self._torch.cuda.is_available() else "cpu",
            "dtype": str(settings.model_config.dtype).removeprefix("torch."),
            **adapter.facts(
                checkpoint.facts(self._model_name, self._config, self._tokenizer, self._generation_config),
                self._adapter,
            ),
        }

    def groups(self, batch: list[prompts.Request]) -> list[dict[str, Any]]:
        """Return one group record a request."""
        singles = [request for request in batch for _ in range(request.n)]
        self._seed(seed_of_batch(request.seed for request in batch))
        self._llm.reset_prefix_cache()  # a cached prefix is computed in another order and may round differently
        try:
            outputs = self._llm.generate(
                [{"prompt_token_ids": request.ids} for request in singles],
                [self._options(request) for request in singles],
                use_tqdm=False,
                lora_request=adapter.vllm_request(self._adapter) if self._adapter else None,
            )
        except RuntimeError as fault:
            raise self._memory_failure(fault) or fault from fault
        made = [list(output.outputs[0].token_ids) for output in outputs]
        groups = []
        for request in batch:
            ids, made = made[: request.n], made[request.n :]
            groups.append(
                {
                    "kind": "group",
                    "prompt_id": request.prompt_id,
                    "pass_name": request.pass_name,
                    "prompt_tokens": len(request.ids),
                    "completions": [completion(own, self._tokenizer, self._end_ids) for own in ids],
                }
            )
        return groups

    def _seed(self, seed: int) -> None:
        """Seed every source that a vLLM sampler of some version or device draws from."""
        import numpy as np

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global state is what vLLM reads
        self._torch.manual_seed(seed)

    def _options(self, request: prompts.Request) -> Any:
        """Return the options TRL hands to vLLM."""
        sampling = self._sampling
        return self._vllm.SamplingParams(
            n=1,
            temperature=request.temperature,
            top_p=sampling["top_p"],
            top_k=sampling["top_k"],
            min_p=sampling["min_p"] or 0.0,
            repetition_penalty=sampling["repetition_penalty"],
            max_tokens=sampling["max_completion_length"],
            stop_token_ids=self._end_ids,
            detokenize=False,  # the ids are decoded as TRL decodes them
        )

    def _memory_failure(self, fault: Exception) -> protocol.Failure | None:
        """Return the failure for memory that ran out or would not hold one context; None for any other fault."""
        said = next((line for line in str(fault).splitlines() if line.strip()), type(fault).__name__)
        words = ("out of memory", "allocate memory", "KV cache", "Free memory")
        if not isinstance(fault, self._torch.OutOfMemoryError) and not any(word in str(fault) for word in words):
            return None
        return protocol.machinery(
            f"{self._model_name}: not enough memory for vLLM ({said}); end other programs on the device or lower "
            "sampling.max_completion_length"
        )


if __name__ == "__main__":
    protocol.serve(sample)
