"""Measure `math_answer` beside its peers: accuracy on the cases, CPU time on the cases and on a GRPO-like batch.

python tests/bench_answers.py CASES.jsonl     prints a Markdown table; peers that are not installed are left out.
Run it with an interpreter that has math-verify and trl beside this package's dependencies.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from llm_finetuning.rewards.math_answer import MathAnswer

SLOW = {"bombs", "long"}  # left out of the speed columns, as their cost is each peer's timeout

Grader = Callable[[Sequence[str], Sequence[str]], list[float | None]]


def string_compare(completions: Sequence[str], golds: Sequence[str]) -> list[float | None]:
    """Pay for the last box, or the last line, equal to the gold."""
    values: list[float | None] = []
    for text, gold in zip(completions, golds, strict=True):
        _, box, tail = text.rpartition("\\boxed{")
        answer = tail.rpartition("}")[0] if box else text.strip().rpartition("\n")[2]
        values.append(float(answer.strip() == gold.strip()))
    return values


def math_answer(completions: Sequence[str], golds: Sequence[str]) -> list[float | None]:
    """Pay as the product does."""
    return MathAnswer()(completions=completions, answer=golds)


def peers() -> dict[str, Grader]:
    """Return the graders that can be imported here."""
    found: dict[str, Grader] = {"math_answer (ours)": math_answer, "string compare": string_compare}
    try:
        from math_verify import parse, verify

        def math_verify(completions: Sequence[str], golds: Sequence[str]) -> list[float | None]:
            return [
                float(verify(parse(rf"\boxed{{{gold}}}"), parse(text)))
                for text, gold in zip(completions, golds, strict=True)
            ]

        found["Math-Verify, defaults, gold in box"] = math_verify
    except ImportError:
        print("math-verify is not installed here", file=sys.stderr)
    try:
        from trl.rewards import accuracy_reward

        def trl(completions: Sequence[str], golds: Sequence[str]) -> list[float | None]:
            messages = [[{"role": "assistant", "content": text}] for text in completions]
            values: list[float | None] = accuracy_reward(messages, [rf"\boxed{{{gold}}}" for gold in golds])
            return values

        found["TRL accuracy_reward, gold in box"] = trl
    except ImportError:
        print("trl is not installed here", file=sys.stderr)
    return found


def grpo_batch(prompts: int = 64, group: int = 16) -> tuple[list[str], list[str]]:
    """Return completions of about 3 kB, 60% of them right, in groups of one gold."""
    draw = random.Random(0)
    filler = "We simplify the expression step by step, with $a_1 = 3$ and $b = \\frac{2}{5}$, and then combine. "
    completions, golds = [], []
    for place in range(prompts):
        n = draw.randint(2, 99)
        gold, forms = draw.choice(
            [
                (str(n), [str(n), f"{n}.0", f"x={n}"]),
                (rf"\frac{{{n}}}{{7}}", [rf"\frac{{{n}}}{{7}}", f"{n}/7", rf"\dfrac{{{2 * n}}}{{14}}"]),
                (rf"{n}\sqrt{{2}}", [rf"\sqrt{{{2 * n * n}}}", rf"{n}\sqrt{{2}}"]),
                (f"x^2+{n}x", [f"x(x+{n})", f"{n}x+x^2"]),
                (f"({n}, {n + 1})", [f"({n},{n + 1})"]),
            ]
        )
        for turn in range(group):
            answer = draw.choice(forms) if draw.random() < 0.6 else str(n + draw.randint(1, 9))
            completions.append(
                f"Problem {place}, try {turn}. " + filler * 31 + rf"So the answer is $\boxed{{{answer}}}$."
            )
            golds.append(gold)
    return completions, golds


def cpu_s(grade: Grader, completions: Sequence[str], golds: Sequence[str]) -> float:
    begun = time.process_time()
    grade(completions, golds)
    return time.process_time() - begun


def main(path: str) -> None:
    """Print the table."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["completion"] is not None]
    judged = [row for row in rows if row["expected"] is not None and row.get("category") not in SLOW]
    texts, golds = [row["completion"] for row in judged], [row["gold"] for row in judged]
    batch, batch_golds = grpo_batch()
    print("| grader | accuracy | false passes | false fails | cases/s (CPU) | GRPO batch/s (CPU) | ours is faster |")
    print("|---|---|---|---|---|---|---|")
    ours: tuple[float, float] | None = None
    for name, grade in peers().items():
        grade(["\\boxed{\\sqrt{2}}"], ["2^{1/2}"])  # imports are not the point here
        paid = [value == 1.0 for value in grade(texts, golds)]
        passes = sum(got and not row["expected"] for got, row in zip(paid, judged, strict=True))
        fails = sum(row["expected"] and not got for got, row in zip(paid, judged, strict=True))
        cases = len(texts) / cpu_s(grade, texts, golds)
        grpo = len(batch) / cpu_s(grade, batch, batch_golds)
        ours = ours or (cases, grpo)
        accuracy = 1 - (passes + fails) / len(judged)
        factor = f"{ours[0] / cases:.1f}x / {ours[1] / grpo:.1f}x"
        print(f"| {name} | {accuracy:.1%} | {passes} | {fails} | {cases:,.0f} | {grpo:,.0f} | {factor} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent / "rewards" / "answer_cases.jsonl"))
