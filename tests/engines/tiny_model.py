"""Save a random model with a tokenizer of a few words, for the training interpreter.

`python tiny_model.py FOLDER KIND`, where KIND is `model`, sound; `two starts`, whose tokenizer puts two start tokens
before a text; or `foreign end`, whose template ends a turn with a token that neither the tokenizer nor the generation
config calls an end. So few words that a random model ends many completions by itself, and that a step takes a tenth of
a second.
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["<pad>", "<end>", "<user>", "<model>", *"0123456789", "What", "is", "+", "?", "The", "answer", "sum", "."]

TEMPLATE = (
    "{% for message in messages %}"
    "{{ ('<user> ' if message['role'] == 'user' else '<model> ') + message['content'] + ' <end> ' }}"
    "{% endfor %}{% if add_generation_prompt %}<model> {% endif %}"
)


def main() -> None:
    """Save model and tokenizer."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    torch.manual_seed(0)
    text = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<pad>"))
    text.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind == "two starts":
        start = ("<user>", WORDS.index("<user>"))
        text.post_processor = processors.TemplateProcessing(single="<user> <user> $A", special_tokens=[start])
    template = TEMPLATE.replace("<end>", "<model>") if kind == "foreign end" else TEMPLATE
    ends: dict[str, Any] = {
        "pad_token": "<pad>",
        "eos_token": "<end>",
        "additional_special_tokens": ["<user>", "<model>"],
    }
    if kind == "two starts":
        ends["bos_token"] = "<user>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=text, padding_side="left", chat_template=template, **ends)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    config = LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=128, **sizes, **ids)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
