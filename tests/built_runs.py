"""Built run folders, made with the product's own verbs, for tests of what a run does with them."""

from pathlib import Path
from typing import Any

import runs
from llm_finetuning.cli import main
from llm_finetuning.commands import build

REWARD = """\
from pathlib import Path

from llm_finetuning.rewards.exact_answer import ExactAnswer

import bonus

inner = ExactAnswer(extract="last_number")
words = (Path(__file__).parent / "words.txt").read_text().split()


def mine(completions, answer, **kwargs):
    return [bonus.of(value) for value in inner(completions=completions, answer=answer)]
"""

BRIEF = """\
name: sums
method: grpo
model: MODEL
dataset: {path: data.jsonl, prompt: prompt, answer: answer, id: id}
rewards:
  - file: mine.py:mine
    files: [words.txt]
sampling: {num_generations: 4, prompts: 15, max_completion_length: 16}
training: {per_device_train_batch_size: 4, gradient_accumulation_steps: 2}
hardware: cpu
"""


def write_model(folder: Path) -> Path:
    """Write the files of a model folder of which the gate reads template and tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return folder


def write_opened(root: Path, *, text: str = BRIEF, more: str = "") -> Path:
    """Write a run whose gate a person's labels opened, beside its model; `more` is added to the reward's file."""
    model = root / "model" if (root / "model").exists() else write_model(root / "model")
    folder = runs.write_run(root / "run", text=text.replace("MODEL", str(model)))
    (folder / "mine.py").write_text(REWARD + more)
    (folder / "bonus.py").write_text("def of(value):\n    return value\n")
    (folder / "words.txt").write_text("a b")
    open_gate(folder)
    return folder


def open_gate(folder: Path) -> None:
    """Walk the road from samples to an open gate."""

    def is_right(sample: Any) -> bool:
        return str(sample.completion).rstrip(".").endswith(f" {sample.columns['answer']}")

    samples = runs.write_samples(folder)
    runs.examine(folder)
    table = runs.write_labels_csv(folder, samples, is_right)
    assert main(["review", str(folder), "--import", str(table), "--reader", "ada"]) == 0
    assert main(["gate", str(folder)]) == 0


def build_unchecked(folder: Path, **options: Any) -> dict[str, Any]:
    """Build without asking an installed TRL."""
    return build.run(folder, check=False, **options)
