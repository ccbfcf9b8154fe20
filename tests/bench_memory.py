"""Print how far the memory planner is from operation-exact runs and from public measurements.

python tests/bench_memory.py [--all]     Markdown tables; the cases are those of FINETUNE_CASES. `--all` prints each.
"""

import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "scripts"), str(TESTS), str(TESTS / "planning")]

import memory_cases  # noqa: E402  found through the path above
from memory_cases import Compared  # noqa: E402  likewise


def summary(name: str, found: Iterable[Compared]) -> str:
    """Return one row of the table."""
    compared = [one for one in found if one.error is not None]
    errors = [abs(one.error or 0) for one in compared]
    if not errors:
        return f"| {name} | 0 | | | | |"
    inside = sum(bool(one.inside) for one in compared) / len(compared)
    mean = statistics.mean(one.error or 0 for one in compared)
    return (
        f"| {name} | {len(errors)} | {statistics.median(errors):.1%} | {mean:+.1%} | {max(errors):.1%} | {inside:.0%} |"
    )


def main() -> None:
    """Print the tables."""
    exact, points = list(memory_cases.computed()), list(memory_cases.points())
    frameworks: dict[str, list[Compared]] = {}
    for point in points:
        frameworks.setdefault(point.record["framework"].split()[0], []).append(point)
    print("| against | n | median error | mean | worst | in the interval |\n|---|---|---|---|---|---|")
    print(summary("operation-exact runs", exact))
    print(summary("public training runs, all", points))
    for name, group in sorted(frameworks.items(), key=lambda item: -len(item[1])):
        print(summary(f"public training runs, {name}", group))
    print(summary("weights and cache at inference", memory_cases.inference()))
    failed = [one for one in points if one.record["outcome"].startswith("OOM")]
    foreseen = sum(one.memory.verdict(one.device_gib or 0) == "does not fit" for one in failed)
    fitted = [one for one in points if not one.record["outcome"].startswith("OOM") and one.device_gib]
    wrong = [one.name for one in fitted if one.memory.impossible(one.device_gib or 0)]
    print(f"\nOut of memory: {foreseen} of {len(failed)} foreseen. Fitted: {len(fitted)}, called impossible: {wrong}.")
    if "--all" in sys.argv[1:]:
        print("\n| run | measured GiB | estimate | interval | error | fullest phase |\n|---|---|---|---|---|---|")
        for one in (*exact, *points):
            error = "" if one.error is None else f"{one.error:+.1%}"
            measured = "" if one.measured is None else f"{one.measured:.2f}"
            interval = f"{one.low:.1f} to {one.high:.1f}"
            print(f"| {one.name} | {measured} | {one.estimated:.2f} | {interval} | {error} | {one.memory.peak.name} |")


if __name__ == "__main__":
    main()
