"""Run one step of TRL's real `GRPOTrainer` on the CPU with a tiny random model and print what it computed.

A program for the training interpreter: `python trl_step.py MODEL_FOLDER text|chat`.
"""

import json
import os
import sys
import tempfile
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores


def text_of(completion: Any) -> str:
    """Return a completion's text in either form."""
    return completion if isinstance(completion, str) else completion[0]["content"]


def length(completions: list[Any], **_: Any) -> list[float | None]:
    """Pay by length; abstain on every third length."""
    sizes = [len(text_of(completion)) for completion in completions]
    return [None if size % 3 == 0 else size / 10 for size in sizes]


async def vowels(completions: list[Any], **_: Any) -> list[float | None]:
    """Pay by the share of vowels, awaited; abstain where `length` does in every second case."""
    values: list[float | None] = []
    for completion in completions:
        text = text_of(completion)
        values.append(None if len(text) % 6 == 0 else sum(letter in "aeiou" for letter in text) / 5)
    return values


WEIGHTS = [1.0, -0.5]

MODES = [
    ("group", "sum_then_normalize"),
    ("none", "sum_then_normalize"),
    ("batch", "sum_then_normalize"),
    ("group", "normalize_then_sum"),
]
"""`scale_rewards` and `multi_objective_aggregation` of each step."""


def main() -> None:
    """Train one step in each mode and print the answers as one JSON list."""
    tokenizer, form = sys.argv[1:]
    print("\n" + json.dumps([step(tokenizer, form == "chat", *mode) for mode in MODES]))  # noqa: T201  the answer


def step(folder: str, chat: bool, scale_rewards: str, aggregation: str) -> dict[str, Any]:
    """Return the arguments that a reward got, the advantages and the log of one step."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    texts = ["one", "two", "three", "four"]
    prompts = [[{"role": "user", "content": text}] for text in texts] if chat else texts
    seen: dict[str, Any] = {}

    def look(**kwargs: Any) -> list[float]:
        seen.update({key: value for key, value in kwargs.items() if not callable(value) and key != "trainer_state"})
        seen["keywords"] = sorted(kwargs)
        return [0.0] * len(kwargs["completions"])

    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=6,
            max_steps=1,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            reward_weights=[*WEIGHTS, 0.0],
            scale_rewards=scale_rewards,
            multi_objective_aggregation=aggregation,
        )
        data = Dataset.from_dict({"prompt": prompts, "answer": ["1", "2", "3", "4"], "level": [1, 2, 3, 4]})
        functions = [length, vowels, look]
        trainer = GRPOTrainer(model, functions, args=config, train_dataset=data, processing_class=tokenizer)
        trainer.train()
        advantages = list(trainer._logs["advantages"])  # TRL keeps them for its completions table
        return {"seen": seen, "advantages": advantages, "logged": trainer.state.log_history[0]}


if __name__ == "__main__":
    main()
