"""Run one step of TRL's real `GRPOTrainer` on the CPU with `rubric_judge` as its reward and print what was logged.

A program for the training interpreter: `python judge_step.py JOB`, a JSON object of `scripts` (the folder of our
package), `model` (a folder with a tokenizer), `chat`, and `options` of the reward.
"""

import json
import os
import sys
import tempfile
import threading
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores


def main() -> None:
    """Train one step and print the answer."""
    job = json.loads(sys.argv[1])
    sys.path.insert(0, job["scripts"])
    print("\n" + json.dumps(step(job)))  # noqa: T201  the answer


def step(job: dict[str, Any]) -> dict[str, Any]:
    """Return the completions of one step, its log, and the reward's reasons as TRL keeps them for its tables."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from llm_finetuning.rewards.rubric_judge import RubricJudge

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    texts = ["one", "two", "three", "four"]
    prompts = [[{"role": "user", "content": text}] for text in texts] if job["chat"] else texts
    seen: dict[str, Any] = {"threads": []}

    class Watched(RubricJudge):
        async def __call__(self, **kwargs: Any) -> list[float | None]:
            seen["threads"].append(threading.current_thread().name)
            seen["prompts"], seen["completions"] = kwargs["prompts"], kwargs["completions"]
            return await super().__call__(**kwargs)

    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=6,
            max_steps=2,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            log_completions=False,
        )
        data = Dataset.from_dict({"prompt": prompts, "answer": ["1", "2", "3", "4"]})
        reward = Watched(**job["options"])
        trainer = GRPOTrainer(model, [reward], args=config, train_dataset=data, processing_class=tokenizer)
        trainer.train()
        extra = {name: list(values) for name, values in trainer._logs["extra"].items()}
        return {"seen": seen, "logged": trainer.state.log_history, "extra": extra}


if __name__ == "__main__":
    main()
