"""Take one real optimiser step of TRL's `GRPOTrainer` by each config and set its loss beside one written by hand.

A program for the training interpreter: `python loss_step.py CONFIGS.json` prints one JSON list. The model is a tiny
random one made on the spot. The old policy is moved away from the trained one, so that ratios are not 1 and some are
clipped; the reference likewise.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = ["<pad>", "<end>", *"abc"]  # few, so that a random model ends most completions early
PROMPTS = ["a b c", "c b a", "b c a", "c a b", "a a b", "b b c", "c c a", "a c b"]
MOVED = 0.3  # standard deviation in nats of how far the old policy and the reference lie away


def main() -> None:
    """Print what one step by each config gave."""
    configs = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = save_model(folder)
        print("\n" + json.dumps([step(folder, tokenizer, **config) for config in configs]))  # noqa: T201  the answer


def save_model(folder: str) -> PreTrainedTokenizerFast:
    """Save a random model, which the trainer loads a second time as the reference, and return its tokenizer."""
    torch.manual_seed(0)
    text = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<pad>"))
    text.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=text, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes, **ends)).save_pretrained(
        folder
    )
    return tokenizer


def step(folder: str, tokenizer: Any, *, options: dict[str, Any], objective: dict[str, Any]) -> dict[str, Any]:
    """Return loss and gradient of one step by TRL and by hand, and what shows that the comparison means something."""
    rewards: list[float] = []

    def paid(completion_ids: list[list[int]], **_: Any) -> list[float]:
        rewards.extend(float(sum(ids) % 7) for ids in completion_ids)
        return rewards[-len(completion_ids) :]

    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(**{**options, "output_dir": output, "model_init_kwargs": {"dtype": "float32"}})
        data = Dataset.from_dict({"prompt": PROMPTS * 8})
        trainer = Watched(folder, [paid], args=config, train_dataset=data, processing_class=tokenizer)
        trainer.objective = objective
        trainer.train()
    return {
        **trainer.compared,
        "rewards": rewards,
        "advantages": trainer.advantages,
        "group": config.num_generations,
        "steps": trainer.state.global_step,
    }


class Watched(GRPOTrainer):
    """TRL's trainer with another old policy and another reference, and the loss by hand beside its own."""

    objective: dict[str, Any]
    compared: dict[str, Any]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take what GRPOTrainer takes."""
        super().__init__(*arguments, **keywords)
        self.seen: list[dict[str, torch.Tensor]] = []
        self.theirs: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.advantages: list[float] = []  # of the first generation, in the order of its completions
        self.compared = {}

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        if not self.advantages:
            self.advantages = output["advantages"].tolist()
            steps = self.args.steps_per_generation / self.args.gradient_accumulation_steps
            self.tokens_a_step = output["completion_mask"].sum() / steps
        return output

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        inputs = self._moved(model, inputs)
        loss = super()._compute_loss(model, inputs)
        self.theirs.append(loss.detach())
        self.gradients.append(gradient(model, loss))
        self.seen.append(inputs)
        if len(self.seen) == self.args.gradient_accumulation_steps:
            self._compare(model)
        return loss

    def _moved(self, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(len(self.seen))
        now = log_probabilities(model, inputs, self.temperature).detach()
        moved = dict(inputs, old_per_token_logps=now + MOVED * torch.randn(now.shape, generator=draw))
        if "ref_per_token_logps" in inputs:
            moved["ref_per_token_logps"] = now + MOVED * torch.randn(now.shape, generator=draw)
        return moved

    def _compare(self, model: Any) -> None:
        names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "old_per_token_logps")
        names += ("ref_per_token_logps",) if "ref_per_token_logps" in self.seen[0] else ()
        whole = {name: torch.cat([inputs[name] for inputs in self.seen]) for name in names}
        whole["tokens_a_step"] = self.tokens_a_step
        ours, told = by_hand(log_probabilities(model, whole, self.temperature), whole, **self.objective)
        mine, theirs = gradient(model, ours), torch.stack(self.gradients).sum(0)
        mask = whole["completion_mask"]
        self.compared = {
            "theirs": torch.stack(self.theirs).sum().item(),
            "ours": ours.item(),
            "gradient_error": ((mine - theirs).norm() / mine.norm()).item(),
            **told,
            "lengths": mask.sum(-1).tolist(),
            "has_reference": "ref_per_token_logps" in whole,
        }


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    """Return the loss's gradient over all weights as one row."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights, retain_graph=True)])


def log_probabilities(model: Any, inputs: dict[str, Any], temperature: float) -> torch.Tensor:
    """Return the log-probability of each completion token, (batch, completion length), from the model's logits."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, inputs["prompt_ids"].size(1) - 1 : -1] / temperature
    return torch.log_softmax(logits, dim=-1).gather(-1, inputs["completion_ids"].unsqueeze(-1)).squeeze(-1)


def by_hand(
    now: torch.Tensor,
    inputs: dict[str, torch.Tensor],
    *,
    level: str,
    low: float,
    high: float,
    beta: float,
    mean_over: str,
    budget: int,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the loss of a whole step as the papers have it, the share of tokens clipped, and how large its terms are.

    DeepSeekMath (arXiv:2402.03300, eq. 3), DAPO (arXiv:2503.14476, eq. 8), Dr. GRPO (arXiv:2503.20783, fig. 1), GSPO
    (arXiv:2507.18071, eq. 5). `mean_over` is sequences, tokens or budget, the last being the completion length allowed.
    Where a generation serves several steps, TRL divides each by their mean number of tokens, not by its own.
    """
    mask, advantages = inputs["completion_mask"].float(), inputs["advantages"].unsqueeze(1)
    lengths = mask.sum(1, keepdim=True)
    difference = now - inputs["old_per_token_logps"]
    if level == "sequence":
        difference = (difference * mask).sum(1, keepdim=True) / lengths.clamp(min=1)
    ratio = difference.exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    is_clipped = ((ratio < 1 - low) & (advantages < 0)) | ((ratio > 1 + high) & (advantages > 0))
    token_loss = -gain.expand_as(mask)
    if beta:
        away = inputs["ref_per_token_logps"] - now
        token_loss = token_loss + beta * (away.exp() - away - 1)
    weights = {
        "sequences": mask / lengths.clamp(min=1) / mask.size(0),
        "tokens": mask / inputs["tokens_a_step"],
        "budget": mask / (mask.size(0) * budget),
    }[mean_over]
    told = {
        "clipped": ((is_clipped * mask).sum() / mask.sum()).item(),
        "scale": (token_loss.abs() * weights).sum().item(),
    }
    return (token_loss * weights).sum(), told


if __name__ == "__main__":
    main()
