"""Measure and judge the four models of the demo's gain, and print rows of Markdown.

    PYTHONPATH=scripts python tests/bench_promotion.py FOLDER_OF_BENCH_GAIN [--python TRAINING_PYTHON]

What `bench_gain.py` trained: the base model, the one after SFT, GRPO under the right reward, and GRPO under the wrong
one. Each gets its held-out sums and the drift suite, and each step of the road is put to `compare`. The wrong run is
judged as its owner would: by its own reward, with `in_form` as the grader. Called again it goes on where it was.
"""

import argparse
import dataclasses
from pathlib import Path

from llm_finetuning.commands import compare, evaluate
from llm_finetuning.demo import road
from llm_finetuning.demo.sizes import Sizes
from llm_finetuning.types import Promotion

GRADED = "evaluation:\n  graders:\n    - {file: in_form.py:in_form, name: right, range: [0, 1]}\n"


def main() -> None:
    """Measure, judge and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--python")
    given = arguments.parse_args()
    trained, wrong = given.folder / "grpo", given.folder / "wrong"
    samples = Sizes().samples
    base_model = (given.folder / "sft" / "brief.yaml").read_text("utf-8").partition("model: ")[2].splitlines()[0]
    measured = {"python": given.python, "samples": samples}
    evaluate.run(trained, name=road.BEFORE, model=base_model.strip('"'), **measured)
    evaluate.run(trained, **measured)
    evaluate.run(trained, checkpoint="final", **measured)
    watch_by_the_right_reward(wrong)
    for checkpoint in (None, "final"):
        evaluate.run(wrong, checkpoint=checkpoint, **measured)
    found = {
        "base, after SFT": compare.run(trained, road.BEFORE, "base"),
        "after SFT, GRPO": compare.run(trained, "base", road.AFTER),
        "after SFT, GRPO on the wrong reward": compare.run(wrong, "base", "final"),
    }
    print("\n".join(table(found)))


def watch_by_the_right_reward(run_dir: Path) -> None:
    """Name the right reward as the grader of the wrong run's evaluations, and in its rewards no longer."""
    path = run_dir / "brief.yaml"
    text = path.read_text("utf-8")
    if GRADED not in text:
        path.write_text(text.rstrip("\n") + "\n" + GRADED, "utf-8")


def table(found: dict[str, Promotion]) -> list[str]:
    """Return the rows for docs/benchmarks.md."""
    lines = ["| step | pass@1 | own reward | drift suite | verdict | reason |", "|---|---|---|---|---|---|"]
    for name, answer in found.items():
        cells = [
            "" if shift is None else f"{shift.base:.3g}, {shift.candidate:.3g}"
            for shift in (answer.goldens.success, answer.goldens.reward, answer.drift and answer.drift.success)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {answer.verdict} | {answer.reason} |")
    return [*lines, "", *(f"{name}: {dataclasses.asdict(answer)['next_action']}" for name, answer in found.items())]


if __name__ == "__main__":
    main()
