"""Run one step of TRL's real `GRPOTrainer` with the composed rewards of a brief, over written completions.

A program for the training interpreter: `python composed_step.py MODEL_FOLDER RUN_DIR text|chat`. The completions stand
in `written.json` of the run, by the prompt's text, and reach the trainer as the tokens of its own tokenizer through
`rollout_func`; all that follows (decoding, rewards, sums, advantages, metrics) is TRL's own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


def main() -> None:
    """Train one step and print what the rewards were handed, the advantages and the log as JSON."""
    folder, run_dir, form = sys.argv[1:]
    print("\n" + json.dumps(step(folder, Path(run_dir), chat=form == "chat")))  # noqa: T201  the answer


def step(folder: str, run_dir: Path, *, chat: bool) -> dict[str, Any]:
    """Return what one step gave."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from llm_finetuning import brief
    from llm_finetuning.rewards import composition

    loaded = brief.load(run_dir)
    rows = [json.loads(line) for line in (run_dir / "data" / "train.jsonl").read_text("utf-8").splitlines()]
    written: dict[str, list[str]] = json.loads((run_dir / "written.json").read_text("utf-8"))
    columns = [column for column in rows[0] if column != "prompt"]
    components = composition.compose(loaded, columns)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    turns: dict[str, int] = {}

    def rollout(prompts: list[Any], _trainer: Any) -> dict[str, Any]:
        texts = [prompt[-1]["content"] if chat else prompt for prompt in prompts]
        ids = []
        for text in texts:
            place = turns[text] = turns.get(text, -1) + 1
            ids.append(tokenizer(written[text][place])["input_ids"] + [tokenizer.eos_token_id])
        return {"prompt_ids": [tokenizer(text)["input_ids"] for text in texts], "completion_ids": ids, "logprobs": None}

    seen: dict[str, Any] = {}

    def look(**kwargs: Any) -> list[float]:
        seen.update({key: value for key, value in kwargs.items() if not callable(value) and key != "trainer_state"})
        return [0.0] * len(kwargs["completions"])

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    prompts = [[{"role": "user", "content": row["prompt"]}] if chat else row["prompt"] for row in rows]
    data = Dataset.from_dict({"prompt": prompts, **{name: [row[name] for row in rows] for name in columns}})
    group = len(next(iter(written.values())))
    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=group * len(rows),
            num_generations=group,
            max_completion_length=loaded.brief.sampling.max_completion_length,
            max_steps=1,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            reward_weights=[*(component.weight for component in components), 0.0],
        )
        functions = [*(component.function for component in components), look]
        trainer = GRPOTrainer(
            model, functions, args=config, train_dataset=data, processing_class=tokenizer, rollout_func=rollout
        )
        trainer.train()
        logs = trainer._logs  # TRL keeps them for its completions table
        extras = {name: list(values) for name, values in logs["extra"].items()}
        return {
            "seen": seen,
            "advantages": list(logs["advantages"]),
            "logged": trainer.state.log_history[0],
            "extras": extras,
            "group": group,
        }


if __name__ == "__main__":
    main()
