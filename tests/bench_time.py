"""Print how far the planner's times are from public measurements of speed.

python tests/bench_time.py [--all]     Markdown tables; the cases are those of FINETUNE_CASES. `--all` prints each.
"""

import statistics
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "scripts"), str(TESTS), str(TESTS / "planning")]

import time_points  # noqa: E402  found through the path above
from time_points import Compared  # noqa: E402  likewise

KINDS = {
    "decode": "decoding",
    "throughput": "a loaded server",
    "prefill": "reading prompts",
    "train": "training",
    "grpo_step": "a whole step of GRPO",
    "weight_load": "loading weights",
    "sleep": "restarting an engine",
}


def summary(name: str, found: list[Compared], passed_over: int) -> str:
    """Return one row of the table; the ratio is estimated over measured seconds."""
    if not found:
        return f"| {name} | 0 | {passed_over} | | | |"
    within = sum(point.factor <= 2 for point in found) / len(found)
    ratios = [point.seconds_ratio for point in found]
    worst = max(point.factor for point in found)
    return f"| {name} | {len(found)} | {passed_over} | {within:.0%} | {statistics.median(ratios):.2f} | {worst:.1f} |"


def main() -> None:
    """Print the tables."""
    records = time_points.trusted()
    answers = [(record, time_points.compared(record)) for record in records]
    found = [point for _, point in answers if point is not None]
    heads = "| what | n | passed over | within a factor of 2 | median of estimated / measured | worst factor |"
    print(heads + "\n|---|---|---|---|---|---|")
    print(summary("all", found, len(records) - len(found)))
    for kind, name in KINDS.items():
        own = [(record, point) for record, point in answers if record["kind"] == kind]
        met = [point for _, point in own if point is not None]
        print(summary(name, met, len(own) - len(met)))
    told = [point for point in found if point.wanted]
    right = sum(str(point.wanted) in point.bottleneck for point in told)
    print(f"\nBottleneck: {right} of {len(told)} that a record names.")
    if "--all" in sys.argv[1:]:
        print("\n| record | model | card | measured | estimated | unit | bottleneck |\n|---|---|---|---|---|---|---|")
        for point in found:
            said = point.record
            numbers = f"{point.measured:.4g} | {point.estimated:.4g}"
            print(
                f"| {said['id']} | {said['model']} | {said['gpu']} | {numbers} | {said['unit']} | {point.bottleneck} |"
            )


if __name__ == "__main__":
    main()
