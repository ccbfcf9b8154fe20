"""Make a LoRA adapter for the training interpreter: MODEL OUT_FOLDER [ALPHA [LAYER,...]].

Its weights are at random; with a large alpha completions become noise, which no base model writes.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def main(model: str, out: str, alpha: str = "64", layers: str = "q_proj,v_proj") -> None:
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(model)
    config = LoraConfig(r=2, lora_alpha=float(alpha), target_modules=layers.split(","), init_lora_weights=False)
    get_peft_model(base, config).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
