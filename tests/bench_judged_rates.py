"""Compare our corrected pass rate with judgy's on simulated judges, and print rows of Markdown.

    PYTHONPATH=scripts python tests/bench_judged_rates.py [--draws 500]   # an interpreter that has judgy

A judge of known error grades work of a known pass rate; each tool gets the labelled verdicts and the verdicts on work
without labels, and says the true rate with a 95% interval. What counts is how often the interval holds the truth.
"""

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import judgy

from llm_finetuning.statistics import corrected_rate, rate

ROUNDS = 500  # of judgy's bootstrap; its own 20,000 take minutes a draw and move its interval little


@dataclass(frozen=True)
class Setting:
    """One simulated judge and what it is used on."""

    truth: float  # share of the work that is right
    tpr: float  # chance that right work passes
    tnr: float  # chance that wrong work fails
    positives: int  # labelled items that are right
    negatives: int
    judged: int  # items without a label


SETTINGS = (
    Setting(0.30, 0.90, 0.85, 40, 40, 100),
    Setting(0.50, 0.80, 0.80, 40, 40, 1000),
    Setting(0.70, 0.95, 0.95, 50, 50, 100),
    Setting(0.90, 0.95, 0.90, 30, 30, 200),
    Setting(0.05, 0.90, 0.98, 30, 60, 200),
    Setting(0.50, 0.99, 0.99, 40, 40, 50),
    Setting(0.02, 0.80, 0.95, 25, 75, 300),
    Setting(0.60, 0.75, 0.90, 100, 100, 500),
)

Drawn = tuple[int, int, int]  # right work passed, wrong work failed, unlabelled work passed
Interval = tuple[float, float]


def main() -> None:
    """Draw, ask both, and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--draws", type=int, default=500)
    draws = arguments.parse_args().draws
    print("| true rate | TPR | TNR | labelled | judged | ours holds it | mean width | judgy holds it | mean width |")
    print("|---|---|---|---|---|---|---|---|---|")
    spent = {"ours": 0.0, "judgy": 0.0}
    for setting in SETTINGS:
        lots = random.Random(str(setting))
        drawn = [draw(setting, lots) for _ in range(draws)]
        cells = []
        for name, ask in (("ours", ours), ("judgy", theirs)):
            begun = time.process_time()
            found = [ask(setting, one) for one in drawn]
            spent[name] += time.process_time() - begun
            holds = sum(low - 1e-9 <= setting.truth <= high + 1e-9 for low, high in found)
            width = sum(high - low for low, high in found) / draws
            cells += [f"{holds / draws:.1%}", f"{width:.3f}"]
        labelled = f"{setting.positives} + {setting.negatives}"
        print(
            f"| {setting.truth} | {setting.tpr} | {setting.tnr} | {labelled} | {setting.judged} | {' | '.join(cells)} |"
        )
    calls = draws * len(SETTINGS)
    print(", ".join(f"{name} {seconds / calls * 1e3:.3g} ms a call" for name, seconds in spent.items()))


def draw(setting: Setting, lots: random.Random) -> Drawn:
    """Return what the judge said in one simulated measurement."""

    def count(n: int, chance: float) -> int:
        return sum(lots.random() < chance for _ in range(n))

    right = count(setting.judged, setting.truth)
    passed = count(right, setting.tpr) + count(setting.judged - right, 1 - setting.tnr)
    return count(setting.positives, setting.tpr), count(setting.negatives, setting.tnr), passed


def ours(setting: Setting, drawn: Drawn) -> Interval:
    """Return our interval; nothing is known where there is none."""
    passes, fails, passed = drawn
    found = corrected_rate(
        rate(passed, setting.judged),
        true_positives=passes,
        positives=setting.positives,
        true_negatives=fails,
        negatives=setting.negatives,
    )
    return (0.0, 1.0) if found is None else (found.low, found.high)


def theirs(setting: Setting, drawn: Drawn) -> Interval:
    """Return judgy's interval; nothing is known where it refuses."""
    passes, fails, passed = drawn
    labels = [1] * setting.positives + [0] * setting.negatives
    verdicts = [1] * passes + [0] * (setting.positives - passes) + [0] * fails + [1] * (setting.negatives - fails)
    unlabelled = [1] * passed + [0] * (setting.judged - passed)
    ask: Callable[..., tuple[float, float, float]] = judgy.estimate_success_rate
    try:
        _, low, high = ask(labels, verdicts, unlabelled, bootstrap_iterations=ROUNDS)
    except (ValueError, RuntimeError):
        return 0.0, 1.0
    return low, high


if __name__ == "__main__":
    main()
