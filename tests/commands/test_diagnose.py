"""`finetune diagnose` as a person calls it: on a log, an output folder and a run directory."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import built_runs
import evaluations
import logged_runs
import runs
import stub_interpreter
import weights
from llm_finetuning import artifact, brief
from llm_finetuning.diagnosis.record import Diagnosis
from llm_finetuning.promoting import contest
from llm_finetuning.stages.promote import Leakage, Setting, Suites, Training, Wanted, evidence_of, promote

Finetune = Callable[..., tuple[int, str, str]]


def rows(reward: Any, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    noisy = np.asarray(reward) + 0.03 * rng.standard_normal(len(reward))
    return [
        {"step": at + 1, "loss": 0.1, "grad_norm": 0.5, "kl": 0.01, "reward": float(value), "entropy": 0.6}
        | {name: float(values[at]) for name, values in more.items()}
        for at, value in enumerate(noisy)
    ]


def write_state(folder: Path, listed: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"global_step": len(listed), "log_history": listed}), "utf-8")
    return path


RISING = np.linspace(0.3, 0.8, 100)
FLAT = np.full(100, 0.5)
HACKED = {"rewards/correct/mean": np.linspace(0.6, 0.1, 100), "rewards/polite/mean": np.linspace(0.1, 1.0, 100)}


@pytest.mark.parametrize(
    ("listed", "code", "verdict"),
    [
        (rows(RISING), 0, "healthy (no failure mode"),
        (rows(RISING, **HACKED), 1, "proxy only (failure mode from step"),
        (rows(FLAT), 3, "inconclusive (undecided"),
        (rows(RISING)[:6], 3, "too short (undecided"),
    ],
    ids=["healthy", "failure", "inconclusive", "short"],
)
def test_the_exit_code_is_the_answer(
    listed: list[dict[str, Any]], code: int, verdict: str, tmp_path: Path, finetune: Finetune
) -> None:
    """0 healthy, 1 a failure mode, 3 undecided; outside a run directory nothing is written."""
    path = write_state(tmp_path / "out", listed)
    before = sorted(tmp_path.rglob("*"))
    for place in (path, path.parent):
        ended, out, _ = finetune("diagnose", place)
        assert ended == code
        assert f"verdict: {verdict}" in out
    assert sorted(tmp_path.rglob("*")) == before


def test_the_text_has_verdict_evidence_advice_and_limits(tmp_path: Path, finetune: Finetune) -> None:
    """And the smallest change with what is undecided."""
    out = finetune("diagnose", write_state(tmp_path, rows(FLAT)))[1]
    for words in (
        "verdict: ",
        "advice: keep plain GRPO",
        "would confirm: ",
        "smallest change",
        "excluded: ",
        "not in the log",
    ):
        assert words in out
    hacked = finetune("diagnose", write_state(tmp_path, rows(RISING, **HACKED)))[1]
    assert "polite rises 0.1 -> 0.777 while correct falls 0.6 -> 0.224" in hacked
    assert "smallest change" not in hacked


def test_the_record_is_one_json_object(tmp_path: Path, finetune: Finetune) -> None:
    """The same in --out as on standard output."""
    path = write_state(tmp_path, rows(RISING))
    code, out, _ = finetune("diagnose", path, "--json", "--out", tmp_path / "record.json")
    facts = json.loads(out)
    assert code == 0
    assert facts["advice"] == {
        "change": "keep plain GRPO",
        "because": facts["advice"]["because"],
        "options": {},
        "variant": None,
        "carries": "",
    }
    assert json.loads((tmp_path / "record.json").read_text("utf-8")) == facts


def test_what_the_caller_knows_decides_the_advice(tmp_path: Path, finetune: Finetune) -> None:
    """Options in TRL's spelling, numbers in any of their forms, and whether the model has experts."""
    spent = rows(FLAT)
    for at, row in enumerate(spent):
        row["entropy"] = 0.9 * np.exp(-at / 15) + 0.001
    path = write_state(tmp_path, spent)
    given = ["--option", "gradient_accumulation_steps=4", "--option", "learning_rate=1e-6"]
    facts = json.loads(finetune("diagnose", path, "--json", *given)[1])
    assert facts["verdict"] == "entropy_collapse"
    assert facts["advice"]["options"]["steps_per_generation"] == 16
    assert facts["options"]["learning_rate"] == 1e-6
    gap = {"sampling/sampling_logp_difference/mean": np.linspace(0.002, 0.2, 100)}
    path = write_state(tmp_path, rows(FLAT, **gap))
    assert "importance_sampling_level='sequence'" in finetune("diagnose", path, "--moe")[1]
    assert "importance_sampling_level" not in finetune("diagnose", path, "--dense")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--option", "learnig_rate=1"], "did you mean `learning_rate`?"),
        (["--option", "beta"], "write KEY=VALUE"),
        (["--option", "beta=[1"], "the value cannot be read"),
        (["--option", "learning_rate=abc"], "takes a number"),
        (["--option", "temperature=true"], "takes a number"),
        (["--goal", "corect"], "did you mean `correct`?"),
    ],
    ids=["misspelt", "no value", "broken value", "a word", "a switch", "goal"],
)
def test_bad_input_is_one_line(arguments: list[str], words: str, tmp_path: Path, finetune: Finetune) -> None:
    """Exit 2, what and how to mend it."""
    code, _, err = finetune("diagnose", write_state(tmp_path, rows(RISING, **HACKED)), *arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_what_is_not_there(tmp_path: Path, finetune: Finetune) -> None:
    """Exit 2 for a path that is not there, and for a folder that holds no log."""
    code, _, err = finetune("diagnose", tmp_path / "nowhere")
    assert code == 2
    assert "no such file or folder" in err
    assert finetune("diagnose", tmp_path)[0] == 2


def test_texts_cannot_write_to_a_terminal(tmp_path: Path, finetune: Finetune) -> None:
    """A component's name is the user's, and shown."""
    named = {
        "rewards/\x1b[2Jcorrect/mean": HACKED["rewards/correct/mean"],
        "rewards/b/mean": HACKED["rewards/polite/mean"],
    }
    assert "\x1b" not in finetune("diagnose", write_state(tmp_path, rows(RISING, **named)))[1]
    named = {
        "rewards/correct\nverdict: healthy/mean": HACKED["rewards/correct/mean"],
        "rewards/b\tc/mean": HACKED["rewards/polite/mean"],
    }
    for verb in ("diagnose", "watch"):
        once = ["--once"] if verb == "watch" else []
        out = finetune(verb, write_state(tmp_path, rows(RISING, **named)), *once)[1]
        assert "\nverdict: healthy" not in out
        assert "\t" not in out
        assert "verdict: healthy" in out


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("verb", ["diagnose", "watch"])
def test_numbers_without_end_are_null_in_json(verb: str, tmp_path: Path, finetune: Finetune) -> None:
    """Values near the largest number have no mean; nothing is said of it but null, as text or as JSON."""
    huge = {f"rewards/{name}/mean": 1e308 * sign * np.ones(100) for name, sign in (("a", 1), ("b", -1))}
    huge |= {"kl": 1e308 * np.linspace(0, 1, 100), "completions/mean_length": 1e308 * (-1.0) ** np.arange(100)}
    listed = rows(1e308 * (-1.0) ** np.arange(100), **huge)
    for place in (write_state(tmp_path, listed), logged_runs.write(tmp_path / "run", logged_runs.columns(**huge))):
        code, out, err = finetune(verb, place, "--json")
        json.loads(out, parse_constant=pytest.fail)
        assert (code in (0, 1, 3), err) == (True, "")
        assert finetune(verb, place, *(["--once"] if verb == "watch" else []))[2] == ""


def test_out_writes_over_an_earlier_diagnosis_alone(tmp_path: Path, finetune: Finetune) -> None:
    """Anything else that is there is kept, the log first of all, and no folder is made."""
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns())
    log = write_state(tmp_path / "out", rows(RISING))
    other = tmp_path / "other.json"
    other.write_text('{"verdict": "mine"}', "utf-8")
    taken = (log, folder / "brief.yaml", folder / "train" / "logs" / "progress.jsonl", other, tmp_path)
    before = {path: path.read_bytes() for path in taken if path.is_file()}
    for path in (*taken, tmp_path / "no folder" / "record.json"):
        for source in (log, folder):
            code, _, err = finetune("diagnose", source, "--out", path)
            assert (code, len(err.splitlines())) == (2, 1)
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "no folder").exists()

    record = tmp_path / "record.json"
    for source in (log, folder, log):
        assert finetune("diagnose", source, "--out", record)[0] in (0, 3)
        assert "verdict" in json.loads(record.read_text("utf-8"))
    code, _, err = finetune("diagnose", folder, "--out", folder / "diagnosis.json")
    assert (code, "leave --out away" in err) == (2, True)
    assert "header" in json.loads((folder / "diagnosis.json").read_text("utf-8"))


SFT = """\
name: sums
method: sft
model: org/model
dataset: {path: data.jsonl, prompt: prompt, completion: answer, id: id}
hardware: cpu
"""


def test_only_runs_of_grpo_are_diagnosed(tmp_path: Path, finetune: Finetune) -> None:
    """A brief of another method, and a log without a reward: one line with what to do, and nothing is written."""
    loss = {"loss": np.linspace(2, 1, 100), "grad_norm": np.ones(100), "learning_rate": np.full(100, 1e-5)}
    folder = logged_runs.write(tmp_path / "run", loss, brief=SFT)
    (folder / "train" / "checkpoints").mkdir()
    pairs = [{"step": at, "loss": 0.1, "rewards/chosen": 1.0, "rewards/margins": 2.0} for at in range(1, 60)]
    plain = write_state(folder / "train" / "checkpoints", pairs)
    away = write_state(tmp_path / "out", pairs)
    before = sorted(tmp_path.rglob("*"))
    for path in (folder, plain.parent, plain, away):
        code, _, err = finetune("diagnose", path)
        assert (code, len(err.splitlines())) == (2, 1)
        assert "`finetune watch " in err
        assert "finetune evaluate" in err
        assert ("trains with sft" in err) == (path != away)
        out = finetune("watch", path, "--once")[1]
        assert "loss " in out
        assert "undecided" not in out
        assert "advice" not in out
    out = finetune("watch", folder, "--once")[1]
    assert all(f"\n{name} " in out for name in ("loss", "gradient norm", "learning rate"))
    assert "not in the log" not in out
    assert json.loads(finetune("watch", folder, "--json")[1])["diagnosis"] is None
    assert "finetune diagnose" not in finetune("status", folder)[1]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_wanted_is_the_same_whichever_path_names_the_run(tmp_path: Path, finetune: Finetune) -> None:
    """Weights are those of the config's names: a checkpoint's state has its components in alphabetical order."""
    rising, falling = RISING + 0.01 * np.sin(np.arange(100)), np.linspace(0.5, 0.1, 100)
    found = {"reward": rising, "rewards/shows/mean": rising, "rewards/in_form/mean": falling}
    folder = logged_runs.write(tmp_path / "run", logged_runs.columns(**found), brief=runs.BRIEF)
    config = folder / "train" / "config.yaml"
    held = json.loads(config.read_text("utf-8"))
    held["rewards"] = [{"name": "shows", "weight": 1.0}, {"name": "in_form", "weight": 0.0}]
    config.write_text(json.dumps(held), "utf-8")
    listed = [dict(sorted(row.items())) for row in rows(rising, **{name: found[name] for name in found if "/" in name})]
    state = write_state(folder / "train" / "checkpoints" / "checkpoint-100", listed)
    progress = folder / "train" / "logs" / "progress.jsonl"
    places = [folder, folder / "train", state, state.parent, state.parent.parent]
    for is_there in (True, False):
        for path in places:
            facts = json.loads(finetune("diagnose", path, "--json")[1])
            assert (facts["goal"], facts["verdict"]) == ("in_form", "proxy_only"), path
            assert any("by its weight 0: in_form" in note for note in facts["notes"])
        if is_there:
            progress.write_text("", "utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built run whose training has left its log."""
    folder = built_runs.write_opened(tmp_path_factory.mktemp("trained"))
    weights.write(Path(brief.load(folder).model_source()))
    built_runs.build_unchecked(folder)
    write_progress(folder, rows(RISING))
    return folder


def write_progress(folder: Path, listed: list[dict[str, Any]]) -> None:
    """Lines as guards/progress.py writes them."""
    path = folder / "train" / "logs" / "progress.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = [
        {"step": row["step"], "max_steps": 100, "at": 1e9, "metrics": {**row, "rewards/mine/mean": row["reward"]}}
        for row in listed
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_a_run_keeps_its_diagnosis(trained: Path, tmp_path: Path, finetune: Finetune) -> None:
    """diagnosis.json is an artifact that status reads, and that a longer log makes stale."""
    run = shutil.copytree(trained, tmp_path / "run", symlinks=True)
    code, out, _ = finetune("diagnose", run)
    assert code == 0
    record = artifact.read_json(run / "diagnosis.json", Diagnosis).records[0]
    assert (record.verdict, record.form) == ("healthy", "run")
    assert record.options["num_generations"] == 4  # the options are those of the run's config.yaml
    assert "verdict: healthy" in out
    assert "diagnosis.json  done        healthy: " in finetune("status", run)[1]
    write_progress(run, rows(np.linspace(0.3, 0.9, 120)))
    assert "diagnosis.json  stale" in finetune("status", run)[1]


def test_status_proposes_it_after_training(trained: Path, tmp_path: Path, finetune: Finetune) -> None:
    """Once the training has ended, and until it was done; then comes the evaluation."""
    run = shutil.copytree(trained, tmp_path / "run", symlinks=True)
    assert finetune("preflight", run, "--python", stub_interpreter.write(tmp_path / "stub"))[0] == 0
    ended = {"state": "finished", "reason": "all steps done", "global_step": 100, "exit_code": 0}
    (run / "train" / "logs" / "outcome.json").write_text(json.dumps(ended), "utf-8")
    assert finetune("status", run)[1].endswith(f"next: finetune diagnose {run}\n")
    assert finetune("diagnose", run)[0] == 0
    assert "next: finetune evaluate" in finetune("status", run)[1]
    (run / "eval").mkdir()
    for name, following in {"final": f"evaluate {run}", "base": f"compare {run} base final"}.items():
        (run / "eval" / f"{name}.json").write_text("{}", "utf-8")
        assert finetune("status", run)[1].endswith(f"next: finetune {following}\n")
    write_promotion(run)
    assert finetune("status", run)[1].endswith("next: keep `base`; read what was lost\n")


def write_promotion(run: Path) -> None:
    """Write the answer of `compare` on two evaluations, as far as `status` reads it."""
    loaded = brief.load(run)
    before, after = evaluations.of_rewards([[1.0]]), evaluations.of_rewards([[0.0]], name="final")
    evidence = evidence_of(
        before,
        after,
        suites=Suites(missing=["measure it"]),
        leaks=Leakage(),
        wanted=Wanted(),
        training=Training(),
        commands=evaluations.COMMANDS,
        setting=Setting(),
    )
    found = promote(evidence)
    path = loaded.run_dir / "promotion.json"
    header = artifact.header_for(
        path, contest.parents_of(loaded, "base", "final"), {"base": "base", "candidate": "final"}
    )
    artifact.write_json(path, header, dataclasses.replace(found, next_action="keep `base`; read what was lost"))
