"""The demo's second half: from a model that never succeeds, over demonstrations and a gate, to a trained one.

Three runs stand in the demo's folder: `base` (the sums without an example), `sft` (the off-ramp) and `grpo`. Each step
is passed over when what it makes is there and still true, so that a demo that was killed goes on where it was.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from llm_finetuning import console
from llm_finetuning.demo import reading, sums
from llm_finetuning.demo.sizes import Sizes
from llm_finetuning.errors import MachineryFailure

if TYPE_CHECKING:
    from llm_finetuning.training_run import TrainingRun
    from llm_finetuning.types import Comparison, Evaluation, GateReport, Promotion

NAME = "two-digit-addition-demo"
TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "demo"

LAST_NUMBER = "- use: exact_answer\n    options: {extract: last_number}"
IN_FORM = "- file: in_form.py:in_form\n    range: [0, 1]"
"""The right reward of the second half: it wants a form that the base model never writes."""

SHOWS_WORK = "- file: shows_work.py:shows_work\n    range: [0, 11]\n  " + IN_FORM + "\n    weight: 0"
"""A wrong one that people write, beside the right one, which watches."""

REWARDS = ("in_form.py", "shows_work.py")
AFTER_SFT = "../sft/train/model"

BEFORE, AFTER = "before-sft", "final"
"""Names of the evaluations beside `base`, which is the model after SFT: the one that the GRPO run starts from."""

POLL_S = 1.0


@dataclass(slots=True)
class Clock:
    """Minutes by step of this call; what was there already takes none."""

    minutes: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def on(self, step: str) -> Iterator[None]:
        """Count what is done within to a step."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.minutes[step] = self.minutes.get(step, 0.0) + (time.monotonic() - begun) / 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What the road came to."""

    gates: "tuple[GateReport, GateReport]"  # of the base model, and of the model after SFT
    before_sft: "Evaluation"
    promotion: "Promotion"  # of the model after GRPO, against the one after SFT
    minutes: dict[str, float]

    @property
    def comparison(self) -> "Comparison":
        """Both on the held-out sums."""
        return self.promotion.goldens


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """The second half in one folder."""

    folder: Path  # of the demo
    model: str  # folder of the base model
    sizes: Sizes
    python: str | None
    clock: Clock = field(default_factory=Clock)

    @property
    def trained(self) -> Path:
        """The run that GRPO trains."""
        return self.folder / "grpo"

    def walk(self) -> Walked:
        """Go the whole road and return what it came to."""
        console.note("\n6. the same sums without the worked example: does the model ever answer in the form we want?")
        never = self.gate(self.write("base", self.model, cap=self.sizes.long))
        console.note(said(never))
        console.note(f"\n7. the off-ramp: a short SFT on {self.sizes.sft_rows} demonstrations")
        self.demonstrate()
        console.note("\n8. the model that SFT left: sample it, attack the reward, ask the gate again")
        opened = self.gate(self.write("grpo", AFTER_SFT))
        console.note(said(opened))
        console.note(f"\n9. measure {self.sizes.held_out} held-out sums, train with GRPO, measure them again")
        before_sft = self.evaluate(BEFORE, model=self.model)
        self.evaluate("base")
        self.train(self.trained, "GRPO")
        self.evaluate(AFTER, checkpoint="final")
        return Walked(
            gates=(never, opened),
            before_sft=before_sft,
            promotion=self.compare(AFTER),
            minutes=self.clock.minutes,
        )

    def write(self, name: str, model: str, *, rewards: str = IN_FORM, more: str = "", cap: int | None = None) -> Path:
        """Write a run of the sums without an example, and return its folder; `more` is added to the brief."""
        run_dir, sizes = self.folder / name, self.sizes
        _, train, held_out = sums.plain(sizes)
        write_rows(run_dir / "data" / "train.jsonl", train)
        write_rows(run_dir / "data" / "held_out.jsonl", held_out)
        for file in REWARDS:
            if file in rewards:
                copy_reward(run_dir, file)
        values = {
            **{name: getattr(sizes, name) for name in ("steps", "every", "kept", "prompts", "group", "micro_batch")},
            "accumulation": sizes.accumulation,
            "rate": f"{sizes.rate:.1e}",
            "cap": cap or sizes.short,
        }
        write_brief(run_dir, "plain", model=json.dumps(model), rewards=rewards, more=more, **values)
        return run_dir

    def gate(self, run_dir: Path) -> "GateReport":
        """Return what the gate says of a run that `write` wrote."""
        with self.clock.on("gates"):
            return reading.examine(run_dir, self.python)

    def demonstrate(self) -> None:
        """Write the SFT run and train it."""
        from llm_finetuning.commands import audit

        run_dir = self.folder / "sft"
        write_rows(run_dir / "data" / "train.jsonl", sums.plain(self.sizes)[0])
        values = {"batch": self.sizes.sft_batch, "steps": self.sizes.sft_steps, "rate": f"{self.sizes.sft_rate:.1e}"}
        write_brief(run_dir, "sft", model=json.dumps(self.model), **values)
        if not reading.is_current(run_dir, "audit.json"):
            audit.run(run_dir, python=self.python)
        self.train(run_dir, "SFT")

    def train(self, run_dir: Path, what: str) -> None:
        """Build a run and train it to its end, from wherever an earlier call left it."""
        from llm_finetuning.commands import build, train
        from llm_finetuning.training_run import TrainingRun

        training = TrainingRun(run_dir.resolve() / "train")
        with self.clock.on(what):
            _wait_for(training)
            if not reading.is_current(run_dir, "train/build.json"):
                for line in build.lines_of(build.run(run_dir, python=self.python, demo=True))[:-2]:
                    console.note(line)
            elif is_finished(training):
                console.note(f"{training.folder / 'model'} is there already; nothing was trained")
                return
            facts = train.run(run_dir, python=self.python, foreground=True, demo=True)
        if facts["state"] == "stopped" and facts["exit_code"] == 0:
            raise KeyboardInterrupt  # asked for at the terminal, and handed on to the trainer
        if facts["state"] != "finished":
            raise MachineryFailure(f"{facts['log']}: {facts['reason']}; then call the demo again, it goes on from here")

    def evaluate(self, name: str, *, model: str | None = None, checkpoint: str | None = None) -> "Evaluation":
        """Measure a model on the held-out rows of the run that GRPO trains, or return what was measured."""
        from llm_finetuning.commands import evaluate

        with self.clock.on("evaluations"):
            found: Evaluation = evaluate.run(
                self.trained,
                model=model,
                checkpoint=checkpoint,
                name=name,
                suite="goldens",
                samples=self.sizes.samples,
                python=self.python,
            ).goldens
        console.note(f"held-out pass@1 of {name}: {found.passes['1'].value:.3f}")
        return found

    def compare(self, name: str) -> "Promotion":
        """Say whether what was evaluated may take the place of the model that GRPO starts from."""
        from llm_finetuning.commands import compare

        found: Promotion = compare.run(self.trained, "base", name)
        return found


def _wait_for(training: "TrainingRun") -> None:
    """Follow a training that a killed demo left alive: it goes on without who started it."""
    from llm_finetuning.commands import train

    told = ""
    while training.is_running():
        line = train.progress_line(training)
        if line != told:
            console.note(f"trains already: {line}")
        told = line
        time.sleep(POLL_S)


def is_finished(training: "TrainingRun") -> bool:
    """Tell whether a run has been trained to its end."""
    ended = training.outcome()
    return ended is not None and ended["state"] == "finished"


def write_rows(path: Path, rows: sums.Rows) -> None:
    """Write one JSON object a line."""
    from llm_finetuning import artifact

    artifact.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_brief(run_dir: Path, template: str, **values: Any) -> None:
    """Write a brief from one of the demo's templates."""
    from llm_finetuning import artifact

    text = Template((TEMPLATES / f"{template}.yaml").read_text("utf-8")).substitute({"name": NAME, **values})
    artifact.write_text(run_dir / "brief.yaml", text)


def copy_reward(run_dir: Path, file: str) -> None:
    """Put one of the demo's rewards beside a brief."""
    from llm_finetuning import artifact

    artifact.write_text(run_dir / file, (TEMPLATES / file).read_text("utf-8"))


def said(report: "GateReport") -> str:
    """Return a gate's answer: the base model's success, what blocks and what each asks for."""
    lines = [f"gate: {report.verdict}"]
    for found in report.findings:
        if found.weight in ("blocks", "insufficient"):
            lines += [f"  {found.text}", f"    -> {found.next_action}"]
        elif found.code == "base-success":
            lines.append(f"  {found.text}")
    return "\n".join([*lines, *([f"  next: {report.next_action}"] if report.verdict == "open" else [])])
