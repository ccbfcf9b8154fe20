"""Print how far the memory planner is from operation-exact runs and from public measurements.

python tests/bench_memory.py [--all]     Markdown tables; the cases are those of FINETUNE_CASES. `--all` prints each.
python tests/bench_memory.py --peers PYTHON     the planner beside other estimators, which PYTHON has installed; with
`--all` also each of their answers. `memory_peers.py` says what each of them is told.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "scripts"), str(TESTS), str(TESTS / "planning")]

import memory_cases  # noqa: E402  found through the path above
import point_jobs  # noqa: E402  likewise
from memory_cases import Compared  # noqa: E402  likewise

from llm_finetuning.planning.job import Job  # noqa: E402  likewise
from llm_finetuning.planning.states import trained  # noqa: E402  likewise
from public_configs import CONFIGS  # noqa: E402  likewise

NEAR = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One run as an estimator is asked for it, with our own answer."""

    ours: Compared
    model: str
    job: Job
    metric: str
    card: str

    def stated(self) -> dict[str, Any]:
        """Return what `memory_peers.py` reads of it."""
        shape = memory_cases.model(self.model)
        widest = max((linear.weights for layer in shape.layers for linear in layer.linears()), default=0)
        return {
            "config": CONFIGS[self.model],
            "parameters": shape.total,
            "trained": sum(trained(shape, self.job)),
            "largest": max(widest, shape.head),
            "hidden": shape.hidden,
            "layers": len(shape.layers),
            "vocabulary": shape.vocabulary,
            "context": shape.context or 0,
            "tied": shape.tied,
            "job": asdict(self.job),
            "card_gib": self.ours.device_gib,
            "card": self.card,
        }

    @property
    def failed(self) -> bool:
        """Whether the run ran out of memory."""
        return str(self.ours.record.get("outcome", "")).startswith("OOM")


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


def accuracy(*, each: bool) -> None:
    """Print the planner's own tables."""
    exact, points = list(memory_cases.computed()), list(memory_cases.points())
    frameworks: dict[str, list[Compared]] = {}
    for point in points:
        if point.measured is not None:
            frameworks.setdefault(point.record["framework"].split()[0].casefold(), []).append(point)
    print("| against | n | median error | mean | worst | in the interval |\n|---|---|---|---|---|---|")
    print(summary("operation-exact runs", exact))
    print(summary("public training runs, all", points))
    for group in sorted(frameworks.values(), key=len, reverse=True):
        print(summary(f"public training runs, {group[0].record['framework'].split()[0]}", group))
    print(summary("weights and cache at inference", memory_cases.inference()))
    failed = [one for one in points if one.record["outcome"].startswith("OOM")]
    foreseen = sum(one.memory.verdict(one.device_gib or 0) == "does not fit" for one in failed)
    fitted = [one for one in points if not one.record["outcome"].startswith("OOM") and one.device_gib]
    wrong = [one.name for one in fitted if one.memory.impossible(one.device_gib or 0)]
    print(f"\nOut of memory: {foreseen} of {len(failed)} foreseen. Fitted: {len(fitted)}, called impossible: {wrong}.")
    if each:
        print("\n| run | measured GiB | estimate | interval | error | fullest phase |\n|---|---|---|---|---|---|")
        for one in (*exact, *points):
            error = "" if one.error is None else f"{one.error:+.1%}"
            measured = "" if one.measured is None else f"{one.measured:.2f}"
            interval = f"{one.low:.1f} to {one.high:.1f}"
            print(f"| {one.name} | {measured} | {one.estimated:.2f} | {interval} | {error} | {one.memory.peak.name} |")


def public_questions() -> Iterator[Question]:
    """Yield the public training runs of trust A and B."""
    for record in memory_cases.rows(memory_cases.POINTS):
        reading = point_jobs.read(record) if record["kind"] == "train" and record["trust"] in ("A", "B") else None
        if reading is not None:
            ours = memory_cases.compared(record, reading)
            card = record.get("gpu") or ""
            yield Question(ours=ours, model=reading.model, job=reading.job, metric=reading.metric, card=card)


def exact_questions() -> Iterator[Question]:
    """Yield the operation-exact runs that have a loss, since no other estimator can be told to leave it out."""
    for ours in memory_cases.computed():
        job = memory_cases.computed_job(ours.record)
        if job.loss != "hidden":
            name = memory_cases._COMPUTED_MODELS[ours.record["m"]]
            yield Question(ours=ours, model=name, job=job, metric="allocated", card="")


def errors(questions: Sequence[Question], answered: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the shares by which an estimator and the planner are off, of the measured runs that both answer.

    A record that is read as what came on top of its start is left out: nobody else is asked for that.
    """
    theirs, ours = [], []
    for question, answer in zip(questions, answered, strict=True):
        measured = question.ours.measured
        if measured is not None and "gib" in answer and not question.ours.start:
            theirs.append(abs(answer["gib"][question.metric] / measured - 1))
            ours.append(abs(question.ours.error or 0.0))
    return theirs, ours


def beside(theirs: Sequence[float], ours: Sequence[float]) -> list[str]:
    """Return the median, how many are near and the worst, each with the planner's own in brackets."""
    if not theirs:
        return ["", "", ""]
    near, our_near = (sum(error <= NEAR for error in found) for found in (theirs, ours))
    return [
        f"{statistics.median(theirs):.1%} ({statistics.median(ours):.1%})",
        f"{near} of {len(theirs)} ({our_near})",
        f"{max(theirs):.0%} ({max(ours):.0%})",
    ]


def verdicts(questions: Sequence[Question], answered: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return how many failures an estimator foresaw, and of how many runs that fitted it said that they do not."""
    foreseen = failed = refused = ours_refused = fitted = 0
    for question, answer in zip(questions, answered, strict=True):
        card = question.ours.device_gib
        if "gib" not in answer or card is None:
            continue
        too_much = answer["gib"]["device"] > card
        if question.failed:
            failed += 1
            foreseen += too_much
        else:
            fitted += 1
            refused += too_much
            ours_refused += question.ours.memory.verdict(card) == "does not fit"
    return (f"{foreseen} of {failed}" if failed else ""), f"{refused} of {fitted} ({ours_refused})"


def ask(python: str, questions: Sequence[Question]) -> dict[str, Any]:
    """Return the answers of every estimator that `python` has."""
    stated = json.dumps([question.stated() for question in questions])
    program = [python, str(TESTS / "memory_peers.py")]
    ran = subprocess.run(program, input=stated, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def row(name: str, answered: Sequence[dict[str, Any]], public: Sequence[Question], exact: Sequence[Question]) -> str:
    """Return an estimator's row; its answers are to the public runs and then to the exact ones."""
    on_public, on_exact = answered[: len(public)], answered[len(public) :]
    counts = [f"{sum('gib' in one for one in group)} of {len(group)}" for group in (on_public, on_exact)]
    exact_median, *_ = beside(*errors(exact, on_exact))
    public_cells = [*beside(*errors(public, on_public)), *verdicts(public, on_public)]
    return f"| {' | '.join([name, counts[0], *public_cells, counts[1], exact_median])} |"


def peers(python: str, *, each: bool) -> None:
    """Print the planner beside other estimators, pair by pair: on the runs that the other one answers."""
    public, exact = list(public_questions()), list(exact_questions())
    found = ask(python, [*public, *exact])
    ours = [{"gib": {q.metric: q.ours.estimated, "device": q.ours.memory.device.gib}} for q in (*public, *exact)]
    print(
        "| estimator | public runs answered | median error (ours) | within 25% (ours) | worst (ours) | "
        "out of memory foreseen | fitted, said not to (ours) | exact runs answered | median error (ours) |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    print(row("**ours**", ours, public, exact))
    for name, one in found.items():
        print(row(f"{name} {one['version']}", one["answers"], public, exact))
    if each:
        print("\n| estimator | run | measured GiB | ours | theirs |\n|---|---|---|---|---|")
        for name, one in found.items():
            for question, answer in zip((*public, *exact), one["answers"], strict=True):
                said = f"{answer['gib'][question.metric]:.2f}" if "gib" in answer else answer["why"]
                measured = "" if question.ours.measured is None else f"{question.ours.measured:.2f}"
                print(f"| {name} | {question.ours.name} | {measured} | {question.ours.estimated:.2f} | {said} |")


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="print each run too")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has other estimators")
    options = parser.parse_args()
    if options.peers:
        peers(options.peers, each=options.all)
    else:
        accuracy(each=options.all)


if __name__ == "__main__":
    main()
