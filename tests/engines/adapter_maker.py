"""Make a LoRA adapter that changes what a model says; a program for the training interpreter: MODEL OUT_FOLDER."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def main(model: str, out: str) -> None:
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(model)
    # Weights at random and a large alpha: completions become noise, which no base model writes.
    config = LoraConfig(r=2, lora_alpha=64, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(base, config).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
