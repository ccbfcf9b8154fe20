"""The one next action of a run: every verb ends with what `status` says, and what is next is what a person expects."""

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evaluations
import finished_runs
import planned_runs
import runs
from engines.endpoint_stub import Answer, StubServer
from guards import outcome
from llm_finetuning import artifact, brief
from llm_finetuning.commands import demo
from llm_finetuning.demo import road
from llm_finetuning.evaluating import unfinished
from llm_finetuning.evaluating.general import General
from llm_finetuning.evaluating.goldens import Goldens
from llm_finetuning.evaluating.subject import Subject
from llm_finetuning.types import Plan

Finetune = Callable[..., tuple[int, str, str]]


def last(out: str) -> str:
    return out.splitlines()[-1].removeprefix("next: ")


def row(finetune: Finetune, run: Path, file: str) -> dict[str, str]:
    facts = json.loads(finetune("status", run, "--json")[1])
    return next(one for one in facts["artifacts"] if one["file"] == file)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose gate is open."""
    folder = finished_runs.write_drawn(tmp_path_factory.mktemp("opened"))
    finished_runs.examine(folder)
    finished_runs.read(folder)
    finished_runs.call("gate", folder)
    return folder


@pytest.fixture
def run(opened: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(opened, tmp_path / "run"))


# --- the brief ------------------------------------------------------------------------------------------------------


def test_a_brief_as_new_wrote_it_is_to_be_edited(tmp_path: Path, finetune: Finetune) -> None:
    """Not `done`, until a person edits it or audits it as it is; `new` and `status` say the same."""
    run = tmp_path / "my-run"
    said = last(finetune("new", run)[1])
    assert said == (
        f"edit {run / 'brief.yaml'} and write its data set, {run / 'data/train.jsonl'}, then `finetune audit {run}`"
    )
    assert last(finetune("status", run)[1]) == said
    found = row(finetune, run, "brief.yaml")
    assert found["state"] == "unedited"
    assert found["detail"].endswith(f"; as `new` wrote it; {run / 'data/train.jsonl'} is not there yet")

    (run / "data").mkdir()
    (run / "data/train.jsonl").write_text('{"prompt": "What is 1 + 1?", "answer": "2"}\n', "utf-8")
    assert last(finetune("status", run)[1]) == f"edit {run / 'brief.yaml'}, then `finetune audit {run}`"
    finetune("audit", run)
    assert row(finetune, run, "brief.yaml")["state"] == "done"


def test_an_edited_brief_without_its_rows(tmp_path: Path, finetune: Finetune) -> None:
    """The data set is what is wanting, by its path; once it is there the audit is next."""
    run = tmp_path / "run"
    finetune("new", run, "--dataset", "rows.jsonl")
    text = (run / "brief.yaml").read_text("utf-8")
    (run / "brief.yaml").write_text(text.replace("num_generations: 8 ", "num_generations: 4 "), "utf-8")
    assert last(finetune("status", run)[1]) == f"write its data set, {run / 'rows.jsonl'}, then `finetune audit {run}`"
    assert row(finetune, run, "brief.yaml")["state"] == "unfinished"
    (run / "rows.jsonl").write_text('{"prompt": "What is 1 + 1?", "answer": "2"}\n', "utf-8")
    assert last(finetune("status", run)[1]) == f"finetune audit {run}"


@pytest.mark.parametrize("folder", ["home", "elsewhere"])
@pytest.mark.parametrize("place", [".", "grpo"])
def test_the_demos_folder_says_what_the_demo_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, place: str
) -> None:
    """The model that came without a hub is named in both, also from a run of the second half."""
    monkeypatch.setenv("FINETUNE_HOME", str(tmp_path / "home"))
    model = str(demo.model_cache(tmp_path / folder))
    road.write_brief(tmp_path / "demo", "brief", model=json.dumps(model), reward=demo.WRONG)
    road.write_brief(tmp_path / "demo" / "grpo", "brief", model='"../sft/train/model"', reward=demo.WRONG)
    said = demo.own_run(model)
    assert ("--model" in said) == (folder == "home")
    assert demo.own_run_after(tmp_path / "demo" / place) == said


def test_the_demo_says_how_to_call_what_is_not_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are typed by somebody who called it as scripts/finetune; where it is found, nothing is said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (line,) = demo._calling()
    found = re.fullmatch(r"`finetune` is not on your PATH: call it as (.+), or put (.+) on your PATH", line)
    assert found is not None
    assert Path(found[1]).is_file()
    monkeypatch.setenv("PATH", found[2])
    assert demo._calling() == []


# --- the plan -------------------------------------------------------------------------------------------------------


def test_plan_ends_as_status_does(run: Path, finetune: Finetune) -> None:
    """At every stop, also where preflight is long past; a plan that is stale is made again before the build."""
    assert last(finetune("status", run)[1]) == f"finetune plan {run}"
    assert last(finetune("plan", run)[1]) == f"finetune preflight {run}"
    assert last(finetune("preflight", run)[1]) == last(finetune("plan", run)[1]) == f"finetune build {run}"

    path = run / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("training: {", "training: {learning_rate: 2.0e-6, "), "utf-8")
    assert row(finetune, run, "plan.json")["state"] == "stale"
    assert last(finetune("status", run)[1]) == f"finetune plan {run}"
    assert last(finetune("plan", run)[1]) == f"finetune build {run}"
    finished_runs.call("build", run, "--no-check")
    assert last(finetune("plan", run)[1]) == f"finetune train {run}" == last(finetune("status", run)[1])


def test_a_plan_that_was_never_made_holds_nothing_back_after_preflight(run: Path, finetune: Finetune) -> None:
    """It is advice: whoever looked at the machine without it builds."""
    assert last(finetune("preflight", run)[1]) == f"finetune build {run}"


def test_a_plan_that_does_not_fit_keeps_its_action(tmp_path: Path, finetune: Finetune) -> None:
    """`plan` and `status` both ask for the change, until the machine was looked at nonetheless."""
    run = planned_runs.write(tmp_path, method="sft", hardware="l4")
    finetune("audit", run)
    code, out, _ = finetune("plan", run)
    assert code == 1
    assert last(out) == last(finetune("status", run)[1])
    assert "brief" in last(out)
    assert artifact.read_json(run / "plan.json", Plan).records[0].next_action == last(out)


@pytest.mark.parametrize("verb", ["audit", "sample", "score", "evaluate"])
@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_a_wrong_path_of_the_data_is_a_line_of_the_brief(
    tmp_path: Path, finetune: Finetune, verb: str, ending: str
) -> None:
    """Whichever verb meets it first: the file and line to open, the key there, and where the path starts."""
    folder = finished_runs.write_drawn(tmp_path)
    path, key = folder / "brief.yaml", "evaluation" if verb == "evaluate" else "path"
    name = "held.jsonl" if verb == "evaluate" else "data.jsonl"
    text = path.read_text("utf-8").replace(name, f"wrong.{ending}")
    path.write_text(text, "utf-8")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if f"wrong.{ending}" in one)
    code, _, err = finetune(verb, folder, *(["--name", "b"] if verb == "evaluate" else []))
    assert code == 2
    said = f"{folder / f'wrong.{ending}'}: no such file; correct `dataset.{key}` (`wrong.{ending}` starts at"
    assert f"finetune: {path}:{line}: dataset.{key}: {said} the brief's folder)\n" in err


# --- evaluations ----------------------------------------------------------------------------------------------------


def leave(run: Path, name: str, *, drift: bool = False, model: str | None = None, **changes: Any) -> None:
    """Leave what a killed evaluation leaves, its header as `evaluate` writes it but for what is changed."""
    asked: Subject = evaluations.subject(run, model=model)
    samples, greedy = changes.pop("samples", None), changes.pop("greedy", False)
    suite = General(asked, is_chat=False) if drift else Goldens(asked, samples=samples, greedy=greedy)
    path = run / "eval" / f"{name}{'.drift' if drift else ''}.samples.jsonl"
    settings = {
        "sampling": suite.completions.settings,
        "model": asked.candidate.shown,
        "expected": suite.completions.expected,
        "engine": {"engine": "transformers"},
        **changes,
    }
    path.parent.mkdir(exist_ok=True)
    artifact.write_lines(path, artifact.header_for(path, suite.of_completions(), settings), [])


LEFT: list[tuple[str, dict[str, Any], str]] = [
    ("base", {}, ""),
    ("base", {"drift": True}, "--suite drift"),
    ("final", {"model": "train/model"}, "--checkpoint final"),
    ("final-2", {"model": "train/model", "drift": True}, "--suite drift --checkpoint final --name final-2"),
    ("checkpoint-60", {"model": "train/checkpoints/checkpoint-60"}, "--checkpoint 60"),
    ("mine", {"model": "other/model"}, "--model other/model --name mine"),
    ("base-32", {"samples": 32}, "--name base-32 --samples 32"),
    ("base", {"greedy": True}, "--greedy"),
]


@pytest.mark.parametrize(("name", "how", "options"), LEFT, ids=[case[2] or "as it is" for case in LEFT])
def test_an_unfinished_evaluation_is_finished_first(
    run: Path, finetune: Finetune, name: str, how: dict[str, Any], options: str
) -> None:
    """The line that began it, by which `evaluate` goes on; with it every option that made it another one."""
    for path in (run / "eval").glob(f"{name}.*"):
        path.unlink()
    own = {key: value for key, value in how.items() if key != "model"}
    model = how.get("model")
    if model and model.startswith("train/"):
        (run / model).mkdir(parents=True)
        model = str(run / model)
    leave(run, name, model=model, **own)

    assert last(finetune("status", run)[1]) == f"finetune evaluate {run} {options}".strip()


def test_what_a_server_that_is_not_the_briefs_answered(
    run: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again, by its address and with the key that it wants."""

    def answer(route: str, _body: dict[str, Any], count: int) -> Answer:
        if route == "/models":
            return 200, {}, {"data": [{"id": "smol", "max_model_len": 2048}]}
        choice = {"index": 0, "finish_reason": "stop", "text": "2", "message": {"content": "2"}}
        one = {"choices": [choice], "usage": {"completion_tokens": 1}}
        return (200, {}, one) if count < 40 else (400, {}, {"error": {"message": "no more"}})

    monkeypatch.setenv("SECRET", "key")
    server = StubServer(answer)
    options = ["--endpoint", server.url, "--api-key-env", "SECRET", "--model", "smol", "--name", "served"]
    code, _, err = finetune("evaluate", run, *options)
    server.close()
    assert (code, "no more" in err) in [(2, True), (4, True)]
    assert (run / "eval/served.samples.jsonl").read_text("utf-8").count("\n") > 8

    said = unfinished.command(run, brief.load(run))
    assert said == f"finetune evaluate {run} {' '.join(options)}"


@pytest.mark.parametrize("why", ["sampling", "seed", "engine", "temperature", "unreadable", "held"])
def test_an_evaluation_that_no_command_goes_on_with_is_left_out(run: Path, why: str) -> None:
    """Drawn as the brief no longer says, unreadable, or being made just now; the one after it is still named."""
    leave(run, "aa")
    leave(run, "bb", samples=32)
    path = run / "eval/aa.samples.jsonl"
    head = json.loads(path.read_text("utf-8"))
    if why == "sampling":
        head["header"]["settings"]["sampling"]["max_completion_length"] = 7
    elif why == "temperature":
        head["header"]["settings"]["sampling"]["temperature"] = 0.5
    elif why in ("seed", "engine"):
        head["header"]["parents"][why] = "0" * 64
    path.write_text("{" if why == "unreadable" else json.dumps(head) + "\n", "utf-8")
    found = unfinished.command
    if why != "held":
        assert str(found(run, brief.load(run))).endswith("--name bb --samples 32")
        return
    program = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    lock = run / "eval/.aa.lock"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert str(found(run, brief.load(run))).endswith("--name bb --samples 32")
        holder.communicate("\n")
    assert str(found(run, brief.load(run))).endswith("--name aa")
    with lock.open("w") as stream:  # nothing of the asking holds it
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_after_training_the_diagnosis_then_what_was_left_then_the_comparison(run: Path, finetune: Finetune) -> None:
    """A promotion that stands on half an evaluation is not asked about first."""
    finished_runs.call("build", run, "--no-check")
    finished_runs.train(run)
    finished_runs.call("evaluate", run, "--checkpoint", "final")
    leave(run, "final-2", drift=True, model=str(run / "train/model"))
    assert last(finetune("status", run)[1]) == f"finetune diagnose {run}"
    resume = f"finetune evaluate {run} --suite drift --checkpoint final --name final-2"
    assert last(finetune("diagnose", run)[1]) == resume
    finetune("compare", run, "base", "final")
    assert last(finetune("status", run)[1]) == resume
    (run / "eval/final-2.drift.samples.jsonl").unlink()
    assert last(finetune("status", run)[1]) != resume


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (None, "wait; `finetune watch {run}` shows it, `finetune train {run} --stop` ends it early"),
        ((outcome.STOPPED, 0), "`finetune train {run}` goes on from the last checkpoint"),
        ((outcome.STOPPED, 1), "mend the reason, then `finetune train {run}`"),
        ((outcome.FAILED, 4), "mend the reason, then `finetune train {run}`"),
    ],
    ids=["running", "stopped", "by a guard", "failed"],
)
def test_a_command_among_words_stands_between_back_quotes(
    run: Path, finetune: Finetune, ended: tuple[str, int] | None, said: str
) -> None:
    """Pasted as a whole such a line would be no call; what is to be called is told from what is said of it."""
    finished_runs.call("build", run, "--no-check")
    logs = run / "train" / "logs"
    logs.mkdir(exist_ok=True)
    with (logs / "run.lock").open("w") as lock:
        if ended is None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        else:
            outcome.write(run / "train", ended[0], "so it was", global_step=7, exit_code=ended[1])
        assert last(finetune("status", run)[1]) == said.format(run=run)


# --- paths as they were given ---------------------------------------------------------------------------------------


def test_a_run_is_named_as_it_was_given(tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verb answers a relative folder with an absolute one."""
    folder = finished_runs.write_drawn(tmp_path)
    runs.write_labels_csv(folder, runs.write_samples(folder), lambda sample: True)
    monkeypatch.chdir(tmp_path)
    finetune("status", folder)  # reads away what was printed until here
    for verb, *options in (
        ["audit"],
        ["sample"],
        ["score"],
        ["probe"],
        ["review", "--import", "run/labels.csv", "--reader", "ada"],
        ["gate"],
        ["plan"],
        ["preflight"],
        ["status"],
    ):
        out = finetune(verb, "run", *options)[1]
        told = [line for line in out.splitlines() if line.startswith(("wrote: ", "next: ", "is there already: "))]
        assert told
        assert not [line for line in told if str(tmp_path) in line], verb


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("score", "finetune: run/samples.jsonl: not there yet; run `finetune sample run`\n"),
        ("gate", "run/"),
        ("preflight", "finetune: run/brief.yaml:1: "),
    ],
)
def test_a_refusal_names_the_run_as_it_was_given(
    run_dir: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, verb: str, said: str
) -> None:
    """What is to be mended and what is to be called is pasted where it was typed."""
    if verb == "preflight":
        path = run_dir / "brief.yaml"
        path.write_text("nam" + path.read_text("utf-8"), "utf-8")
    monkeypatch.chdir(run_dir.parent)
    code, _, err = finetune(verb, "run")
    assert code == 2
    assert said in err
    assert str(run_dir.parent) not in err


@pytest.mark.parametrize(
    ("place", "given", "action"),
    [
        ("..", "run", "`finetune new run-2 --from run --model run/train/model`"),
        (".", ".", "`finetune new ../run-2 --from . --model ./train/model`"),
        ("train", "..", "`finetune new ../../run-2 --from .. --model ../train/model`"),
    ],
)
def test_every_line_of_status_names_the_run_as_it_was_given(
    run: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, place: str, given: str, action: str
) -> None:
    """Also a run that may follow on it, beside it; what is unfinished or waits names no other path."""
    finished_runs.call("build", run, "--no-check")
    finished_runs.train(run)
    finished_runs.call("evaluate", run, "--checkpoint", "final")
    for call in (["diagnose", run], ["compare", run, "base", "final"]):
        finetune(*call)
    monkeypatch.chdir(run / place)
    out = finetune("status", given)[1]
    assert last(out).endswith(action)
    assert str(run) not in out

    samples = run / "samples.jsonl"
    samples.write_text("".join(samples.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    out = finetune("status", given)[1]
    assert re.search(rf"^samples.jsonl +unfinished [^:]+`finetune sample {re.escape(given)}`", out, re.MULTILINE)
    assert str(run) not in out
