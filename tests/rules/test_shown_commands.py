"""Every command that a skill, the command or the agent shows is executed as shown, on a run that is ready for it.

No model is loaded: completions are drawn already, the trainer is a launch file that ends at once or waits to be asked.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from test_texts import PARTS, completed, shown_commands

import evaluations
import finished_runs
import judged_runs
import runs
from engines.endpoint_stub import StubServer
from llm_finetuning.training_run import TrainingRun

Finetune = Callable[..., tuple[int, str, str]]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
NEEDS = ("transformers", "trl", "peft", "accelerate", "datasets")

ENDS = f"""\
exec {shlex.quote(sys.executable)} -c "
import sys; sys.path.insert(0, '.')
from pathlib import Path
from guards import outcome
outcome.write(Path('.'), 'finished', 'all steps done', global_step=3, exit_code=0)
"
"""
WAITS = """\
trap 'kill $!; exit 3' TERM
echo begun
sleep 60 &
wait
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Where a command is executed, and its answer: exit code, and words of what it prints."""

    stand: str
    code: int
    says: str


NEW = Case("nothing", 0, "wrote: ")
OPEN = Case("nothing", 3, "teach")

EXECUTED: dict[str, Case] = {
    "finetune route": OPEN,
    "finetune route --json": OPEN,
    "finetune route --json --answer teach=stable-skill --answer evaluation=yes": Case("nothing", 3, "base_success"),
    "finetune route --answer teach=stable-skill": Case("nothing", 3, "evaluation: "),
    "finetune route --answer evaluation=yes --answer base_success=sometimes": OPEN,
    "finetune route --answer images=no": OPEN,
    "finetune route --answers FILE": Case("nothing", 0, "grpo"),
    "finetune new RUN": NEW,
    **{f"finetune new RUN --method {method}": NEW for method in ("grpo", "sft", "dpo", "kto", "orpo", "simpo")},
    "finetune audit RUN": Case("drawn", 0, "0 block"),
    "finetune audit RUN --json": Case("drawn", 0, '"findings"'),
    "finetune sample RUN": Case("drawn", 0, "75 samples of 15 prompts"),
    "finetune score RUN": Case("drawn", 0, "weighted sum over 75 samples"),
    "finetune probe RUN": Case("read", 0, "probe: held"),
    "finetune review RUN": Case("drawn", 0, "0 of 75 samples judged"),
    "finetune calibrate RUN": Case("judged", 0, "sealed"),
    "finetune calibrate RUN --open-test": Case("judged", 0, "the judge may pay"),
    "finetune calibrate RUN --new-test": Case("tested", 3, "of prompts that no judge was tested on"),
    "finetune gate RUN": Case("read", 0, "gate: open"),
    "finetune gate RUN --json": Case("read", 0, '"verdict": "open"'),
    "finetune pairs RUN --method dpo --out pairs.jsonl": Case("read", 0, "dpo: 15 pairs"),
    "finetune plan RUN": Case("read", 0, "plan: fits"),
    "finetune plan RUN --available 60": Case("read", 0, "of 60.0 on cpu"),
    "finetune preflight RUN": Case("read", 0, "preflight: ready"),
    "finetune build RUN": Case("opened", 0, "wrote: "),
    "finetune train RUN": Case("built", 0, "finished: step 3: all steps done"),
    "finetune train RUN --stop": Case("training", 0, "stopped"),
    "finetune watch RUN --once": Case("trained", 0, "step 60 of 60, ended: finished"),
    "finetune diagnose RUN": Case("trained", 0, "verdict: healthy"),
    "finetune diagnose PATH": Case("trained", 0, "verdict: healthy"),
    "finetune new NEXT --from RUN --model ../PREF/train/model": Case("drawn", 0, "changed: model: "),
    "finetune new NEXT --from RUN --model ../RUN-sft/train/model": Case("drawn", 0, "changed: model: "),
    "finetune new RUN-sft --from RUN --method sft --dataset DEMOS.jsonl": Case("drawn", 0, "is not there yet; one row"),
    "finetune new NEXT --from RUN --apply": Case("trained", 1, "keep plain GRPO"),
    "finetune evaluate RUN": Case("drawn", 0, "base: "),
    "finetune evaluate RUN --greedy": Case("greedy", 0, "20 held-out rows, greedy"),
    "finetune evaluate RUN --checkpoint final": Case("trained", 0, "final: "),
    "finetune evaluate RUN --checkpoint last": Case("trained", 0, "checkpoint-60: "),
    "finetune evaluate RUN --checkpoint final --greedy": Case("greedy", 0, "final: "),
    "finetune compare RUN base final": Case("trained", 0, "promotion: promoted"),
    "finetune compare RUN base checkpoint-N": Case("trained", 0, "promotion: promoted"),
    "finetune evaluate RUN --results LOG --metric match --name theirs": Case("read", 0, "theirs: "),
    "finetune export RUN base log.json": Case("trained", 0, "wrote: "),
    "finetune status RUN": Case("trained", 0, "all steps done"),
    "finetune status RUN --json": Case("trained", 0, '"artifacts"'),
}

LEFT_OUT = {
    **{
        f"finetune merge {run}": "loads a model and a trained adapter; tests/engines/test_merge.py"
        for run in ("RUN", "PREF")
    },
    "finetune demo --quick": "fetches and loads a model; .ci/run executes it in a fresh clone",
    "finetune evaluate RUN --model PATH --name round-1": "loads a trained model; tests/engines/test_pairs_round.py",
    "finetune compare RUN base round-1": "needs that evaluation; likewise",
    "finetune review RUN --import labels.csv --reader NAME": "needs that table; tests/commands/test_gate_command.py",
}

ANSWERS = {"teach": "stable-skill", "evaluation": "yes", "base_success": "sometimes", "signal": "checker"}
SHOWN = sorted({completed(shown) for path in PARTS for shown in shown_commands(path)})


def test_each_is_executed_or_left_out_for_a_reason() -> None:
    """A new command in a text needs its line in one of the two tables, and a line is there for a shown command."""
    assert sorted([*EXECUTED, *LEFT_OUT]) == SHOWN


# --- the runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make the run that stands at a named place, each place once, from the one before it."""
    root = tmp_path_factory.mktemp("stands")
    made: dict[str, Path] = {}

    def at(place: str) -> Path:
        if place not in made:
            before, step = PLACES[place]
            if before is None:
                made[place] = finished_runs.write_drawn(root)
            else:
                made[place] = root / place
                shutil.copytree(at(before), made[place])
                step(made[place])
        return made[place]

    return at


def _read(folder: Path) -> None:
    finished_runs.examine(folder)
    finished_runs.read(folder)


def _open(folder: Path) -> None:
    """Open the gate; `build` then asks this interpreter, which has TRL or has not."""
    brief = folder / "brief.yaml"
    brief.write_text(re.sub(r"^environment: .*\n", "", brief.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    finished_runs.call("gate", folder)


def _launched(folder: Path, launch: str) -> None:
    """Build what ends or waits in place of a trainer, with an interpreter that has what `train` looks for."""
    finished_runs.build(folder)
    (folder / "train" / "launch.sh").write_text(launch, "utf-8")
    site = folder.parent / "stub" / "site"
    for name in NEEDS:
        (site / name).mkdir(exist_ok=True)
        (site / name / "__init__.py").write_text("raise RuntimeError('is looked for, and not imported')\n", "utf-8")


def _trained(folder: Path) -> None:
    finished_runs.build(folder)
    finished_runs.train(folder)
    finished_runs.call("diagnose", folder)
    for name in ("final", "last"):
        finished_runs.call("evaluate", folder, "--checkpoint", name)


def _greedy(folder: Path) -> None:
    shutil.rmtree(folder / "eval")
    evaluations.write_transcripts(folder, "base", lambda *_: False, greedy=True)
    model = str(folder / "train" / "model")
    evaluations.write_transcripts(folder, "final", lambda *_: True, model=model, greedy=True)


def _judged(folder: Path) -> None:
    """Name a judge in place of the program, whose server is there until the tests end."""
    shutil.rmtree(folder)
    judged_runs.write(folder, StubServer(judged_runs.answering(judged_runs.grade)).url)
    table = runs.write_labels_csv(folder, judged_runs.samples(folder), judged_runs.is_right)
    finished_runs.call("review", folder, "--import", table, "--reader", "ada")


def _tested(folder: Path) -> None:
    finished_runs.call("calibrate", folder, "--open-test")


PLACES: dict[str, tuple[str | None, Callable[[Path], None]]] = {
    "drawn": (None, lambda _: None),
    "read": ("drawn", _read),
    "opened": ("read", _open),
    "judged": ("drawn", _judged),
    "tested": ("judged", _tested),
    "trained": ("read", _trained),
    "greedy": ("trained", _greedy),
    "built": ("read", partial(_launched, launch=ENDS)),
    "training": ("read", partial(_launched, launch=WAITS)),
}


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", EXECUTED)
def test_it_answers_as_shown(
    shown: str, stand: Callable[[str], Path], tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the arguments of the text, in the folder above the run."""
    case = EXECUTED[shown]
    if case.stand != "nothing":
        shutil.copytree(stand(case.stand), tmp_path / "run")
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS | _REST), "utf-8")
    monkeypatch.chdir(tmp_path)
    words = [_NAMED.get(word, word) for word in shlex.split(shown)[1:]]
    code, said = _page(words) if words[0] == "review" else _called(finetune, words, case.stand)
    assert code == case.code, said
    assert case.says in said


_NAMED = {
    "RUN": "run",
    "NEXT": "next",
    "FILE": "answers.json",
    "PATH": "run/train/logs/progress.jsonl",
    "LOG": str(Path(__file__).parents[1] / "exchange" / "fixtures" / "sums.eval"),
    "checkpoint-N": f"checkpoint-{finished_runs.STEPS}",
}
_REST = {"images": "no", "rows": "50-or-more"}


def _called(finetune: Finetune, words: list[str], place: str) -> tuple[int, str]:
    if place == "training":
        return _while_it_trains(finetune, words)
    code, out, err = finetune(*words)
    return code, out + err


def _while_it_trains(finetune: Finetune, words: list[str]) -> tuple[int, str]:
    training = TrainingRun(Path("run/train").absolute())
    process = training.start(sys.executable, {})
    try:
        code, out, err = finetune(*words)
    finally:
        training.stop(20)
        process.wait(20)
    return code, out + err


def _page(words: list[str]) -> tuple[int, str]:
    """Start the page, wait for its address, and end it as a person does."""
    start = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
    environ = {**os.environ, "BROWSER": "true"}
    command = [sys.executable, "-c", start, str(SCRIPTS), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environ, text=True, **pipes) as page:
        assert page.stderr is not None
        said = page.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\S+", said)
        assert address, said
        with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as browser:
            browser.get(address[0]).raise_for_status()
        page.send_signal(signal.SIGINT)
        out, err = page.communicate(timeout=20)
        return page.returncode, out + err
