"""Write what is stored: `python tests/gate_bench/make.py DRAWN_DIR` takes the real completions that `draw.py` drew.

`data/TASK.rows.jsonl` is the data set. `data/TASK.jsonl` holds one completion a line: the row it belongs to (`row`,
from 0), its place in the group (0 is real, 1 to 7 are written) or `low` for the greedy real one, its text, its length
in tokens (counted for real ones, words times 1.3 for written ones), `cut` if the cap ended it, and the truth.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from gate_bench.tasks import TASKS  # noqa: E402
from gate_bench.tasks.task import Task  # noqa: E402

DATA = Path(__file__).parent / "data"
SEED = 3
CONTESTED = (  # read by hand: right by the letter, and something in it says otherwise
    "92 + 71 = 163. This is incorrect",
    "D. boron",
)


def completions(task: Task, drawn: Path) -> list[dict[str, Any]]:
    """Return what is stored of one task, group by group."""
    real = _real(drawn / task.name / "samples.jsonl")
    draw = random.Random(SEED)
    found = []
    for place, problem in enumerate(task.problems()):
        name = problem.row["id"]
        for index in (0, "low"):
            item = real[name, index]
            verdict = _verdict(task.truth(problem, item["text"]), item)
            found.append({"row": place, "index": index, **item, "truth": verdict})
        said = task.written(problem, draw)
        draw.shuffle(said)
        for index, item in enumerate(said, 1):
            line = {
                "row": place,
                "index": index,
                "text": item.text,
                "tokens": max(1, round(1.3 * len(item.text.split()))),
            }
            found.append({**line, "cut": item.cut, "truth": item.truth})
    return found


def _verdict(known: str, item: dict[str, Any]) -> str:
    """Return the truth of a real completion: cut off is not done, and what was read by hand stands."""
    if item["text"].strip().startswith(CONTESTED):
        return "unsure"
    if not item["cut"]:
        return known
    return "reject" if known == "reject" else "unsure"


def _real(path: Path) -> dict[tuple[str, int | str], dict[str, Any]]:
    found = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        sample = json.loads(line)
        said = sample["completion"]
        text = said if isinstance(said, str) else said[0]["content"]
        index = sample["index"] if sample["pass_name"] == "policy" else "low"
        cut = sample["finish_reason"] == "length"
        found[sample["prompt_id"], index] = {"text": text, "tokens": sample["tokens"], "cut": cut}
    return found


def main() -> int:
    DATA.mkdir(exist_ok=True)
    for task in TASKS.values():
        if not (Path(sys.argv[1]) / task.name / "samples.jsonl").exists():
            sys.stderr.write(f"{task.name}: not drawn\n")
            continue
        lines = completions(task, Path(sys.argv[1]))
        rows = [problem.row for problem in task.problems()]
        for name, records in ((f"{task.name}.rows.jsonl", rows), (f"{task.name}.jsonl", lines)):
            (DATA / name).write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in records), "utf-8")
        counts = {word: sum(line["truth"] == word for line in lines) for word in ("accept", "reject", "unsure")}
        sys.stderr.write(f"{task.name}: {len(rows)} rows, {counts}, {sum(line['cut'] for line in lines)} cut\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
