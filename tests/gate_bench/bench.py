"""The gate's own benchmark: broken rewards have to be blocked, sound ones have to be opened.

`python tests/gate_bench/bench.py [--only NAME ...] [--jobs 2] [--json FILE]` walks every reward of the catalogue
through the product's verbs in the road's order, prints a Markdown table and exits 1 below the targets. README.md says
how the truth was set. Each reward has a process of its own, since a reward may hang or end it.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from gate_bench.run_folder import READ, read_as_a_person, write_run  # noqa: E402

LIMIT_S = 240.0  # wall time of one reward; what is still running then is killed and counts as hung
SHOWN = 12  # failing probes of a reward that are kept
ROAD = ("audit", "score", "probe", "review", "gate")
BLOCKED, REFUSED, OPEN = 1, 2, 0
TARGETS = {"broken blocked by probes alone": 0.80, "broken blocked by the gate": 0.95, "sound opened": 0.95}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of each verb for one reward, and what stopped it."""

    name: str
    sound: bool
    task: str
    report: str
    codes: dict[str, int] = field(default_factory=dict)
    blocking: dict[str, list[str]] = field(default_factory=dict)  # verb: lines of what blocks
    hung: bool = False

    def blocked_by(self, verb: str) -> bool:
        """Tell whether this verb said no; a reward that `score` refuses never comes so far."""
        return self.codes.get(verb) == BLOCKED or self.codes.get("score") == REFUSED


def catalogue() -> list[dict[str, Any]]:
    """Return every reward with its task and, for a broken one, its fault."""
    entries: list[dict[str, Any]] = json.loads((HERE / "catalogue.json").read_text("utf-8"))
    return entries


def outcome_of(entry: dict[str, Any], limit_s: float = LIMIT_S) -> Outcome:
    """Walk one reward through the road in a process of its own."""
    base = {"name": entry["name"], "sound": entry["sound"], "task": entry["task"], "report": entry.get("report", "")}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "outcome.json"
        worker = [sys.executable, str(Path(__file__).resolve()), "--walk", entry["name"], folder]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")])}
        process = subprocess.Popen(
            worker,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=limit_s)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            found = json.loads(answer.read_text("utf-8")) if answer.exists() else {"codes": {}, "blocking": {}}
            return Outcome(**base, **found, hung=True)
        if process.returncode != 0 or not answer.exists():
            raise RuntimeError(f"{entry['name']}: the walk ended with {process.returncode}:\n{said[-3000:]}")
        return Outcome(**base, **json.loads(answer.read_text("utf-8")))


def walk(name: str, folder: Path) -> None:
    """Take every verb of the road that the product has, and keep exit codes and findings as they come."""
    from llm_finetuning import cli

    entry = next(item for item in catalogue() if item["name"] == name)
    run_dir = write_run(folder / "run", entry)
    codes: dict[str, int] = {}
    blocking: dict[str, list[str]] = {}
    for verb in ROAD:
        if verb not in cli.VERBS:
            continue
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            codes[verb] = OPEN if verb == "review" else cli.main([verb, str(run_dir), "--json"])
            if verb == "review":
                read_as_a_person(run_dir, entry["task"])
        blocking[verb] = _what_blocks(out.getvalue(), err.getvalue(), codes[verb])
        text = json.dumps({"codes": codes, "blocking": blocking})
        (folder / "outcome.json").write_text(text, "utf-8")
        if codes[verb] >= REFUSED and verb == "score":
            break


def _what_blocks(out: str, err: str, code: int) -> list[str]:
    try:
        facts = json.loads(out)
    except ValueError:
        return err.splitlines()[-3:] if code else []
    lines = [f"{item['code']}: {item['text']}" for item in facts.get("findings", []) if item["weight"] == "blocks"]
    for item in [
        one
        for one in facts.get("failing", [])
        if one["probe"]["kind"] != "control" and one["probe"]["weighs"] == "blocks"
    ][:SHOWN]:
        probe = item["probe"]
        said = probe["completion"] if isinstance(probe["completion"], str) else probe["completion"][-1].get("content")
        paid = f"paid {item['reward']}, failure {item['failure']}, success {item['success']}"
        lines.append(f"  {item['verdict']} {probe['kind']}/{probe['family']} ({probe['about']}), {paid}: {said!r:.300}")
    return lines or list(facts.get("faults", []))


def rates(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return hits and n of every rate that is reported."""
    broken = [item for item in outcomes if not item.sound]
    sound = [item for item in outcomes if item.sound]
    return {
        "broken blocked by probes alone": (sum(item.blocked_by("probe") for item in broken), len(broken)),
        "broken blocked by the gate": (sum(item.blocked_by("gate") for item in broken), len(broken)),
        "sound opened": (sum(item.codes.get("gate") == OPEN for item in sound), len(sound)),
        "sound not blocked by probes": (sum(item.codes.get("probe") == OPEN for item in sound), len(sound)),
        "broken that `score` refused": (sum(item.codes.get("score") == REFUSED for item in broken), len(broken)),
        "broken that hung": (sum(item.hung for item in broken), len(broken)),
    }


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the rates and one row a reward as Markdown."""
    from llm_finetuning.statistics import rate

    lines = ["| rate | n | share | 95% interval | target |", "|---|---|---|---|---|"]
    for name, (hits, n) in rates(outcomes).items():
        found = rate(hits, n)
        share = f"{hits / n:.0%}" if n else "-"
        target = f"{TARGETS[name]:.0%}" if name in TARGETS else ""
        lines.append(f"| {name} | {hits} of {n} | {share} | {found.low:.0%} to {found.high:.0%} | {target} |")
    lines += [
        "",
        "| reward | task | report | score | probe | gate | as it should be |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in outcomes:
        codes = [str(item.codes.get(verb, "-")) for verb in ("score", "probe", "gate")]
        right = item.codes.get("gate") == OPEN if item.sound else item.blocked_by("gate")
        probed = item.codes.get("probe") == OPEN if item.sound else item.blocked_by("probe")
        word = ("yes" if probed else "the gate alone") if right else "NO"
        kind = "sound" if item.sound else item.report
        lines.append(f"| {item.name} | {item.task} | {kind} | {' | '.join(codes)} | {word + ' (hung)' * item.hung} |")
    return "\n".join(lines)


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the targets that were not reached."""
    found = rates(outcomes)
    return [name for name, target in TARGETS.items() if found[name][1] and found[name][0] < target * found[name][1]]


def measure(entries: Sequence[dict[str, Any]], jobs: int) -> list[Outcome]:
    """Return the outcome of every entry, in order."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(outcome_of, entries))


def main() -> int:
    """Measure, print and compare with the targets."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", nargs="*", help="names of rewards, or a task")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--json", type=Path, help="write every outcome with what blocked it here")
    arguments.add_argument("--walk", nargs=2, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.walk:
        walk(given.walk[0], Path(given.walk[1]))
        return 0
    chosen = [item for item in catalogue() if not given.only or {item["name"], item["task"]} & set(given.only)]
    outcomes = measure(chosen, given.jobs)
    if given.json:
        given.json.write_text(json.dumps([asdict(item) for item in outcomes], indent=1), "utf-8")
    sys.stdout.write(table(outcomes) + f"\n\n{READ} completions read a reward.\n")
    below = missed(outcomes)
    sys.stdout.write("".join(f"below its target: {name}\n" for name in below))
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
