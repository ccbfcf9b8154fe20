"""Measure what `gate` and `audit` cost and print a Markdown table; run by hand from the repository's root.

    MODEL=FOLDER PYTHONPATH=scripts python tests/bench_gate.py NEW_FOLDER [TRAINING_PYTHON]

Gates 100 prompts of 16 completions and 6,250 of 16, of 200 words each, 60 of them read. Audits 100,000 rows of 20 to
120 words drawn from 20,000, of which one in fifty is nearly the row before; a TRAINING_PYTHON with transformers counts
their tokens too. Each verb is a process of its own.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import runs
from llm_finetuning import brief, labelling
from llm_finetuning.artifact import Appender
from llm_finetuning.commands import review
from llm_finetuning.types import Label, Sample

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
ROWS = 100_000


def measured(*arguments: str) -> str:
    """Run a verb and return a table's cells: its CPU and wall time and the most memory it held."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", START, str(SCRIPTS), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1, 3):
        sys.exit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return f"{used.ru_utime + used.ru_stime:.1f} | {time.perf_counter() - begun:.1f} | {used.ru_maxrss / 1e6:.2f}"


def gated(folder: Path, prompts: int) -> str:
    """Make a run whose gate opens, and return what its gate costs."""
    text = runs.BRIEF.replace("num_generations: 4, prompts: 15", f"num_generations: 16, prompts: {prompts}")
    runs.write_run(folder, rows=prompts, text=text)
    runs.write_samples(
        folder,
        rows=prompts,
        text_of=lambda i, index: f"{'so ' * 200}step {index}: {runs.completion(i, index % 4)}",
    )
    runs.examine(folder)

    def make(appender: Appender[Label], samples: object) -> None:
        known: dict[str, Sample] = {sample.sample_id: sample for sample in samples}  # type: ignore[attr-defined]
        for item in labelling.to_read(brief.load(folder), list(known.values()), [], "bench", review.READS):
            sample = known[item.sample_id]
            right = str(sample.completion).rstrip(".").endswith(f" {sample.columns['answer']}")
            verdict = "accept" if right else "reject"
            appender.append([labelling.label_for(sample, verdict, reader="bench", source="import", part=item.part)])  # type: ignore[arg-type]

    review.add_labels(folder, make)
    return measured("gate", str(folder))


def audited(folder: Path, *python: str) -> str:
    """Make a large data set and return what its audit costs."""
    model = os.environ.get("MODEL", "some/model")
    reward = "use: exact_answer\n    options: {extract: last_number}"
    text = runs.BRIEF.replace(reward, "use: math_answer").replace("some/model", json.dumps(model))
    runs.write_run(folder, text=text)
    drawn = random.Random(1)
    known = [f"w{drawn.randrange(10**6)}" for _ in range(20_000)]
    words: list[str] = []
    with (folder / "data.jsonl").open("w", encoding="utf-8") as stream:
        for row in range(ROWS):
            words = words[:] if row % 50 == 1 else [drawn.choice(known) for _ in range(drawn.randrange(20, 120))]
            words[drawn.randrange(len(words))] = "changed"
            said = f"Think step by step, then box the answer. {' '.join(words)} What is {row} + 1?"
            line = {"id": f"q{row}", "prompt": [{"role": "user", "content": said}], "answer": str(row + 1)}
            stream.write(json.dumps(line) + "\n")
    return measured("audit", str(folder), *(["--python", *python] if python else []))


def main() -> None:
    """Measure and print a table."""
    folder, python = Path(sys.argv[1]), sys.argv[2:3]
    print("| what | CPU s | wall s | memory GB |\n|---|---|---|---|")
    for prompts in (100, 6250):
        print(f"| `gate`, {prompts * 16:,} completions | {gated(folder / f'gate{prompts}', prompts)} |", flush=True)
    print(f"| `audit`, {ROWS:,} rows | {audited(folder / 'audit')} |", flush=True)
    if python:
        print(f"| `audit`, {ROWS:,} rows, with tokens | {audited(folder / 'audit', *python)} |")
        spread = json.loads((folder / "audit" / "audit.json").read_text("utf-8"))["prompt_tokens"]
        print(f"\nprompt tokens: {spread}")


if __name__ == "__main__":
    main()
