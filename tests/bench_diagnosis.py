"""How well the diagnosis does: agreement with labels, false alarms, power.

python tests/bench_diagnosis.py [--each]     Markdown tables; the logs are those of FINETUNE_CASES. `--each` prints
                                             every log.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "scripts"), str(HERE / "diagnosis")]

import numpy as np  # noqa: E402  after the path is set
import training_logs as made  # noqa: E402

from llm_finetuning.diagnosis import diagnose, reading, trends  # noqa: E402
from llm_finetuning.diagnosis.log import RunLog  # noqa: E402
from llm_finetuning.diagnosis.record import Diagnosis  # noqa: E402

SIMULATED = 500
SHUFFLES = 12
COURSES = {"healthy", "proxy_only", "policy_collapse", "reward_decline", "length_growth", "sampler_drift"} | {
    "entropy_collapse",
    "entropy_explosion",
}
"""Verdicts that rest on an order of the rows; the others hold of rows in any order."""


def judged(rows: Sequence[Mapping[str, Any]], folder: Path) -> Diagnosis:
    """Return the diagnosis of rows, by way of a file as a user has it."""
    path = folder / "log.json"
    path.write_text(json.dumps(rows), "utf-8")
    return diagnose(reading.read(path))


def agreement(each: bool, folder: Path) -> None:
    """Print agreement on the labelled logs as they are, and altered."""
    counts: dict[str, Counter[str]] = {}
    variants: list[str] = []
    for case in made.cases():
        whole = diagnose(reading.read(case.path))
        for name, found in (("as it is", whole), *((n, judged(r, folder)) for n, r in made.altered(case))):
            count = counts.setdefault(name, Counter())
            count["logs"] += 1
            count["label"] += found.verdict == case.accepted[0]
            count["accepted"] += found.verdict in case.accepted
            count["undecided"] += found.state == "undecided"
            count["wrong failure"] += found.state == "failure" and found.verdict not in case.accepted
            if each and name != "as it is" and found.state == "failure" and found.verdict not in case.accepted:
                print(f"? {case.name:<22}{case.accepted[0]:<24}{found.verdict:<24}{name}: {found.text}")
            if "healthy" in case.accepted and found.advice.variant:
                variants.append(f"{case.name} {name}: {found.advice.variant}")
        if each:
            mark = " " if whole.verdict in case.accepted else "X"
            print(f"{mark} {case.name:<22}{case.accepted[0]:<24}{whole.verdict:<24}{whole.text}")
    print(
        "\n| logs | n | the label | label or also acceptable | undecided | another failure |\n|---|---|---|---|---|---|"
    )
    for name, count in counts.items():
        cells = (count["logs"], count["label"], count["accepted"], count["undecided"], count["wrong failure"])
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    print(f"\nvariants advised on a log that may be healthy: {variants or 'none'}")


def false_alarms(folder: Path) -> None:
    """Print how often a failure is seen where none is, and a course where rows have no order."""
    print("\n| simulated, 100 steps | n | healthy | undecided | a failure | a variant |\n|---|---|---|---|---|---|")
    for gain, what in ((None, "sound"), (0.0, "flat reward")):
        for correlation in (0.0, 0.3, 0.5):
            found = [
                diagnose(made.log(made.sound(seed, correlation=correlation, gain=gain))) for seed in range(SIMULATED)
            ]
            states = Counter(one.state for one in found)
            cells = (
                states["healthy"],
                states["undecided"],
                states["failure"],
                sum(bool(d.advice.variant) for d in found),
            )
            print(f"| {what}, autocorrelation {correlation} | {SIMULATED} | {' | '.join(map(str, cells))} |")
    print("\n| simulated, 20 and 30 steps, two components | n | healthy | undecided | a failure | a variant |")
    print("|---|---|---|---|---|---|")
    for rows in (20, 30):
        for correlation in (0.0, 0.3, 0.5):
            short = [diagnose(made.short(seed, rows=rows, correlation=correlation)) for seed in range(SIMULATED)]
            states = Counter(one.state for one in short)
            cells = (
                states["healthy"],
                states["undecided"],
                states["failure"],
                sum(bool(d.advice.variant) for d in short),
            )
            print(f"| {rows} rows, autocorrelation {correlation} | {SIMULATED} | {' | '.join(map(str, cells))} |")
    rng = np.random.default_rng(1)
    seen: Counter[str] = Counter()
    for case in made.cases():
        rows = made.training_rows(case.path)
        for _ in range(SHUFFLES):
            found = judged(made.shuffled(rows, rng), folder)
            seen["logs"] += 1
            seen[found.verdict] += found.verdict in COURSES
    courses = {verdict: count for verdict, count in seen.items() if verdict in COURSES and count}
    print(f"\nrow-shuffled logs: {seen['logs']}, with a verdict about a course: {sum(courses.values())} {courses}")


def thresholds() -> None:
    """Print how often the fixed thresholds of other tools fire on logs that may be healthy."""
    alarms: Counter[str] = Counter()
    sound = [case for case in made.cases() if "healthy" in case.accepted]
    for case in sound:
        log = reading.read(case.path)

        def of(name: str, log: RunLog = log) -> Any:
            found = log.series.get(name)
            return np.zeros(0) if found is None else found.values[np.isfinite(found.values)]

        spread, kl, entropy = of("reward_std"), of("kl"), of("entropy")
        fired = {
            "reward_std below 0.1 in a row": bool(np.any(spread < 0.1)),
            "kl above 0.5 in a row": bool(np.any(kl > 0.5)),
            "mean entropy below 1": bool(len(entropy) and np.mean(entropy) < 1),
        }
        alarms.update(name for name, holds in fired.items() if holds)
        alarms["any of them"] += any(fired.values())
        alarms["finetune diagnose"] += diagnose(log).state == "failure"
    print(f"\n| rule | alarms on {len(sound)} logs that may be healthy |\n|---|---|")
    for name, count in alarms.items():
        print(f"| {name} | {count} |")


def power() -> None:
    """Print how often a gain is seen, and the smallest change that the log itself says it would show."""
    rng = np.random.default_rng(2)
    gains = (0.05, 0.1, 0.2, 0.3)
    print("\n| completions a step | steps | " + " | ".join(f"+{gain}" for gain in gains) + " | says it shows |")
    print("|---|---|" + "---|" * (len(gains) + 1))
    for batch in (8, 64):
        for steps in (50, 100, 250):
            cells = []
            for gain in gains:
                chance = 0.4 + gain * np.linspace(0, 1, steps)
                hits = [trends.trend(rng.binomial(batch, chance) / batch).direction == "up" for _ in range(200)]
                cells.append(f"{100 * np.mean(hits):.0f} %")
            said = np.median([trends.trend(rng.binomial(batch, 0.4, steps) / batch).smallest for _ in range(200)])
            print(f"| {batch} | {steps} | {' | '.join(cells)} | {said:.2f} |")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", action="store_true")
    each = parser.parse_args().each
    with tempfile.TemporaryDirectory() as folder:
        agreement(each, Path(folder))
        false_alarms(Path(folder))
    thresholds()
    power()


if __name__ == "__main__":
    main()
