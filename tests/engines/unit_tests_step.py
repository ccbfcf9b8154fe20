"""Run steps of TRL's real `GRPOTrainer` with the reward `unit_tests` on the CPU and print what it paid and cost.

A program for the training interpreter: `python unit_tests_step.py SCRIPTS TOKENIZER_FOLDER text|chat`. The model is
tiny and random, so its completions give way to programs as a model would write them; all else that the reward is
handed is the trainer's.
"""

import json
import os
import sys
import tempfile
import time
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores

PROGRAMS = [
    "```python\ndef double(x):\n    return 2 * x\n```",
    "```python\ndef double(x):\n    return x + x\nplace = {turn}\n```",
    "```python\ndef double(x):\n    return x ** 2 + {turn}\n```",
    "```python\nimport os\nos._exit(0)\n```",
    "```python\nclass Any:\n    def __eq__(self, other):\n        return True\ndef double(x):\n    return Any()\n```",
    "```python\ndef double(x):\n    return 2 *",
    "I do not know.",
    "```python\ndef double(x):\n    return double(x)\n```",
]
PAID = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
STEPS = 3


def main() -> None:
    """Train a few steps and print what was paid, said and spent."""
    scripts, folder, form = sys.argv[1:]
    sys.path.insert(0, scripts)

    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from llm_finetuning.rewards.unit_tests import UnitTests

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    texts = ["Write double(x).", "Write a function double."]
    chat = form == "chat"
    prompts = [[{"role": "user", "content": text}] for text in texts] if chat else texts
    inner = UnitTests(workers=2)
    spent: list[float] = []
    paid: list[list[float | None]] = []
    said: list[str] = []

    def unit_tests(completions: list[Any], **columns: Any) -> list[float | None]:
        programs = [PROGRAMS[place % len(PROGRAMS)].format(turn=place) for place in range(len(completions))]
        replaced = [[{"role": "assistant", "content": text}] for text in programs] if chat else programs
        assert [type(part) for part in completions] == [type(part) for part in replaced]
        begun = time.perf_counter()
        values = inner(completions=replaced, **columns)
        spent.append(time.perf_counter() - begun)
        paid.append(values)
        return values

    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=16,
            num_generations=8,
            max_completion_length=64,
            max_steps=STEPS,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
        )
        tests = [["assert double(2) == 4", "assert double(5) == 10", "assert double('a') == 'aa'"]] * 2
        data = Dataset.from_dict({"prompt": prompts, "tests": tests})
        trainer = GRPOTrainer(model, [unit_tests], args=config, train_dataset=data, processing_class=tokenizer)
        begun = time.perf_counter()
        trainer.train()
        whole = time.perf_counter() - begun
        said = [str(reason) for reason in trainer._logs["extra"]["unit_tests_reason"]]
    logged = [entry["rewards/unit_tests/mean"] for entry in trainer.state.log_history if "reward" in entry]
    answer = {"paid": paid, "said": said, "logged": logged, "reward_s": spent, "whole_s": whole}
    print("\n" + json.dumps(answer))  # noqa: T201  the answer


if __name__ == "__main__":
    main()
