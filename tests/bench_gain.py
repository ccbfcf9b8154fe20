"""Repeat the demo's gain beside the same training under a wrong reward, draw both and print rows of Markdown.

    PYTHONPATH=scripts python tests/bench_gain.py NEW_FOLDER [--python TRAINING_PYTHON] [--tiny]

The demo's road first. Then the same model, rows and options under `shows_work`, which the gate blocks and which is
trained all the same; no verb can do that without a person at a terminal. Each model is measured on the same held-out
rows with the right reward. Writes NEW_FOLDER/curves.json and docs/gain.svg; called again it goes on where it was.
`--tiny` is a trial of a few steps that draws into NEW_FOLDER.
"""

import argparse
import dataclasses
import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

from markupsafe import Markup

from llm_finetuning.commands import demo, gate
from llm_finetuning.demo import road
from llm_finetuning.demo.sizes import Sizes
from llm_finetuning.types import Comparison, Estimate, Evaluation, GateReport, Override
from llm_finetuning.web.drawing import Curve, curves

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "gain.svg"
KEPT = 3  # checkpoints of a run that are measured
TINY = Sizes(
    sft_rows=24,
    sft_rate=1e-4,
    prompts=8,
    rows=16,
    steps=3,
    completions=16,
    micro_batch=16,
    every=1,
    kept=KEPT,
    held_out=6,
    samples=2,
)

KINDS = {"right": "good", "wrong": "bad"}  # training -> colour

STYLE = """
svg { --ink: #1f2328; --pale: #656d76; --line: #d8dee4; --bad: #cf222e; --good: #1a7f37; --back: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --pale: #9198a1; --line: #3d444d; --bad: #f85149; --good: #3fb950; --back: #0d1117; }
}
.back { fill: var(--back); }
text { fill: var(--ink); font: 11px system-ui, sans-serif; text-anchor: middle; }
.head { font: 600 13px system-ui, sans-serif; text-anchor: start; }
.tick, .label { fill: var(--pale); }
.end { text-anchor: end; }
.axis { fill: none; stroke: var(--pale); }
.grid { stroke: var(--line); }
.curve { fill: none; stroke-width: 2; }
.curve.bad, .whisker.bad { stroke: var(--bad); }
.curve.good, .whisker.good { stroke: var(--good); }
.whisker { stroke-width: 2; }
circle.bad { fill: var(--bad); }
circle.good { fill: var(--good); }
"""


def main() -> None:
    """Train, measure, draw and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--python")
    arguments.add_argument("--tiny", action="store_true")
    given = arguments.parse_args()
    begun = time.monotonic()
    sizes = TINY if given.tiny else dataclasses.replace(Sizes(), kept=KEPT)
    way = road.Road(folder=given.folder, model=demo._model(given.python), sizes=sizes, python=given.python)
    walked = way.walk()
    verdict = train_wrong(way)
    right = measured(way, "right", way.trained)
    wrong = measured(way, "wrong", way.folder / "wrong")
    fall = way.compare(f"wrong-{sizes.steps}").goldens
    minutes = (time.monotonic() - begun) / 60
    found = {
        "right": curve_facts(way.trained, right),
        "wrong": curve_facts(way.folder / "wrong", wrong),
        "before_sft": walked.before_sft.passes["1"].value,
        "gain": dataclasses.asdict(walked.comparison),
        "fall": dataclasses.asdict(fall),
        "gate_on_wrong": dataclasses.asdict(verdict),
        "minutes": {**way.clock.minutes, "all": minutes},
    }
    (given.folder / "curves.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (given.folder / "gain.svg" if given.tiny else PICTURE).write_text(drawn(found, sizes), "utf-8")
    print("\n".join(table(found, walked.comparison, fall, verdict)))


def train_wrong(way: road.Road) -> GateReport:
    """Show what the gate says of the wrong reward, set it aside with a reason, and train."""
    run_dir = way.write("wrong", road.AFTER_SFT, rewards=road.SHOWS_WORK, more="gate: {success: 1.0}")
    verdict = way.gate(run_dir)
    print(f"the gate on the wrong reward:\n{road.said(verdict)}\n", flush=True)
    bench = gate._Bench(run_dir, program_labels_count=True)
    if not gate.facts_of(verdict, run_dir)["overridden"]:
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
        reason = "the benchmark shows what the gate keeps away"
        bench.write([Override(by="bench_gain.py", reason=reason, at=now, fingerprint=bench.report.fingerprint)])
    way.train(run_dir, "GRPO, wrong reward")
    return verdict


def measured(way: road.Road, name: str, run_dir: Path) -> dict[int, Evaluation]:
    """Return the evaluations by step of one training; step 0 is the model that both start from."""
    steps = range(way.sizes.every, way.sizes.steps + 1, way.sizes.every)
    found = {0: way.evaluate("base")}
    for step in steps:
        folder = run_dir / "train" / "checkpoints" / f"checkpoint-{step}"
        found[step] = way.evaluate(f"{name}-{step}", model=str(folder))
    return found


def curve_facts(run_dir: Path, evaluations: dict[int, Evaluation]) -> dict[str, Any]:
    """Return the logged training reward by step, and the held-out pass@1 with its interval."""
    lines = (run_dir / "train" / "logs" / "progress.jsonl").read_text("utf-8").splitlines()
    logged: dict[int, dict[str, Any]] = {}
    for row in map(json.loads, lines):  # a step that is also evaluated has a line of its own for that
        logged.setdefault(row["step"], {}).update(row["metrics"])
    watched = "rewards/in_form/mean"
    return {
        "reward": {step: metrics["reward"] for step, metrics in logged.items() if "reward" in metrics},
        "right_in_training": {step: metrics[watched] for step, metrics in logged.items() if watched in metrics},
        "held_out": {step: dataclasses.asdict(found.passes["1"]) for step, found in evaluations.items()},
        "tokens": {step: found.tokens.value for step, found in evaluations.items()},
    }


def drawn(found: dict[str, Any], sizes: Sizes) -> str:
    """Return training reward and held-out success side by side as one picture that needs no page around it."""
    rewards = {side: sorted((int(step), value) for step, value in found[side]["reward"].items()) for side in KINDS}
    shares = {
        side: [(int(step), Estimate(**share)) for step, share in found[side]["held_out"].items()] for side in KINDS
    }
    paid = [Curve(label=f"{side} reward", points=rewards[side], kind=kind) for side, kind in KINDS.items()]
    passed = [
        Curve(
            label=f"{side} reward",
            points=[(step, share.value) for step, share in shares[side]],
            shares=shares[side],
            kind=kind,
        )
        for side, kind in KINDS.items()
    ]
    top = float(-(-max([1.0, *(value for curve in paid for _, value in curve.points)]) // 1))
    parts = []
    for place, (head, sides, highest) in enumerate(
        (
            ("what training pays (mean reward of a step)", paid, top),
            ("held-out pass@1, judged by the right reward", passed, 1.0),
        )
    ):
        ends = [f"{side.label} {side.points[0][1]:.2f} to {side.points[-1][1]:.2f}" for side in sides]
        about = f"In {sizes.steps} steps: {', '.join(ends)}."
        words = {"title": head, "about": about, "x_label": "GRPO step", "y_label": ""}
        panel = str(curves(sides, top=highest, last=sizes.steps, **words))
        at = f'<svg x="{place * 430}" y="28" width="420" height="230" '
        parts += [
            Markup('<text class="head" x="{}" y="20">{}</text>').format(place * 430 + 46, head),
            Markup(panel.replace("<svg ", at, 1)),  # noqa: S704  made by drawing.py, which escapes
        ]
    frame = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 262" role="img">'
    frame += "<title>GRPO on two-digit sums under a right and a wrong reward</title>"
    back = '<rect class="back" width="860" height="262"/>'
    return f"{frame}<style>{STYLE}</style>{back}{Markup('').join(parts)}</svg>\n"


def table(found: dict[str, Any], gain: Comparison, fall: Comparison, verdict: GateReport) -> list[str]:
    """Return the rows for docs/benchmarks.md."""
    sides = {"right, `in_form`": ("right", gain), "wrong, `shows_work`": ("wrong", fall)}
    lines = [
        "| reward | training reward, first and last 5 steps | held-out pass@1, before and after | difference | p |",
        "|---|---|---|---|---|",
    ]
    for name, (side, shift) in sides.items():
        reward = [value for _, value in sorted(found[side]["reward"].items())]
        first, last = sum(reward[:5]) / len(reward[:5]), sum(reward[-5:]) / len(reward[-5:])
        gap = shift.success.difference
        lines.append(
            f"| {name} | {first:.2f}, {last:.2f} | {shift.success.base:.3f}, {shift.success.candidate:.3f} | "
            f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f}) | {shift.p_value:.2g} |"
        )
    minutes = ", ".join(f"{name} {spent:.1f}" for name, spent in found["minutes"].items())
    return [
        *lines,
        "",
        f"before SFT {found['before_sft']:.3f}; the gate on the wrong reward: {verdict.verdict}",
        f"minutes: {minutes}",
    ]


if __name__ == "__main__":
    main()
