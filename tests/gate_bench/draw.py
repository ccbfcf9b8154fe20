"""Draw the real completions once: `python tests/gate_bench/draw.py WORK_DIR MODEL`, with FINETUNE_TEST_PYTHON set.

Each task becomes a run directory whose data set is the task's; `finetune sample` draws with the transformers engine at
temperature 1 and once greedily. What `make.py` keeps of them is text, length and how they ended.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from gate_bench.tasks import TASKS  # noqa: E402

BRIEF = """\
name: {name}
method: sft
model: {model}
dataset: {{path: data.jsonl, prompt: prompt, answer: answer, id: id, completion: answer}}
sampling: {{num_generations: 2, prompts: 100, max_completion_length: {cap}, temperature: 1.0, seed: 5}}
"""


def main() -> int:
    from llm_finetuning.commands import sample

    work, model = Path(sys.argv[1]), sys.argv[2]
    for task in TASKS.values():
        folder = work / task.name
        folder.mkdir(parents=True, exist_ok=True)
        rows = [problem.row for problem in task.problems()]
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        brief = BRIEF.format(name=task.name, model=model, cap=task.cap)
        (folder / "brief.yaml").write_text(brief, "utf-8")
        facts = sample.run(folder, python=os.environ["FINETUNE_TEST_PYTHON"])
        sys.stderr.write(f"{task.name}: {facts['samples']} drawn, {facts['cut']} cut at {task.cap} tokens\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
