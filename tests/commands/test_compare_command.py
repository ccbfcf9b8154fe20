"""`compare` on written evaluations: the verdict and its exit code, the two files, leaks, drift, and what is refused."""

import fcntl
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evaluations
import finished_runs
import judge_records
from engines.endpoint_stub import StubServer
from llm_finetuning import artifact, brief, checkpoints, drift, lineage
from llm_finetuning.commands import compare
from llm_finetuning.errors import Refusal
from llm_finetuning.promoting import contest, golden_leaks
from llm_finetuning.types import Build, Promotion

Finetune = Callable[..., tuple[int, str, str]]
Right = Callable[[int, int], bool]


def able(place: int) -> bool:
    """Tell which items of the drift suite the base answers."""
    return place % 3 > 0


def better(_: int, index: int) -> bool:
    """Tell which completions of a candidate are right: three of four."""
    return index < 3


def losing(share: float) -> Callable[[int], bool]:
    """Return which items of the drift suite a candidate answers that loses this share of all to the base."""
    suite = drift.rows(chat=False)
    solved = [row.row - 1 for row in suite if able(row.row - 1) and row.columns["grader"] in ("number", "choice")]
    lost = set(solved[: round(share * len(suite))])
    assert len(lost) == round(share * len(suite))
    return lambda place: able(place) and place not in lost


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with twenty held-out rows."""
    return evaluations.write_run(tmp_path / "run")


def evaluated(
    run: Path,
    name: str,
    finetune: Finetune,
    right: Right,
    *options: str,
    general: Callable[[int], bool] | None = able,
) -> None:
    """Write whole transcripts and let `evaluate` grade them; without `general` the drift suite is not measured."""
    model = options[options.index("--model") + 1] if "--model" in options else None
    evaluations.write_transcripts(run, name, right, model=model, greedy="--greedy" in options, general=general)
    suite = ("--suite", "goldens") if general is None else ()
    code, _, err = finetune("evaluate", run, "--name", name, *options, *suite)
    assert code == 0, err


def two(run: Path, finetune: Finetune, right: Right, *, general: Callable[[int], bool] | None = able) -> None:
    """Evaluate a base that solves half, and a candidate."""
    evaluated(run, "base", finetune, lambda i, index: index < 2 and i != 4)
    evaluated(run, "tuned", finetune, right, "--model", "some/tuned", general=general)


@pytest.mark.parametrize(
    ("right", "general", "exit_code", "verdict"),
    [
        (better, able, 0, "promoted"),
        (lambda *_: False, able, 1, "rejected"),
        (lambda _, index: index in (1, 2), able, 3, "insufficient"),
        (better, losing(0.15), 1, "rejected"),
        (better, None, 3, "insufficient"),
    ],
    ids=["better", "worse", "same", "drifts", "drift not measured"],
)
def test_compare_answers_by_its_exit_code(
    run: Path,
    finetune: Finetune,
    right: Right,
    general: Callable[[int], bool] | None,
    exit_code: int,
    verdict: str,
) -> None:
    """0 promoted, 1 rejected, 3 too little evidence; the verdict comes first, the one next action last."""
    two(run, finetune, right, general=general)
    code, out, err = finetune("compare", run, "base", "tuned")
    assert (code, err) == (exit_code, "")
    lines = out.splitlines()
    assert lines[0] == f"promotion: {verdict}"
    assert lines[-1].startswith("next: ")
    assert "pass@1 0.475" in " ".join(out.split())

    held = artifact.read_json(run / "promotion.json", Promotion)
    assert (held.records[0].verdict, held.records[0].next_action) == (verdict, lines[-1].removeprefix("next: "))
    assert (run / "promotion-report.html").read_text("utf-8").startswith("<!doctype html>")
    facts = json.loads(finetune("compare", run, "base", run / "eval" / "tuned.json", "--json")[1])
    assert (facts["verdict"], facts["goldens"]["success"]["base"]) == (verdict, 0.475)
    assert facts["wrote"] == [str(run / "promotion.json"), str(run / "promotion-report.html")]


def test_the_answer_names_all_it_rests_on_and_status_shows_when_that_changed(run: Path, finetune: Finetune) -> None:
    """Both evaluations, their drift suites, the data, the held-out rows and what the brief wants."""
    two(run, finetune, better)
    assert finetune("compare", run, "base", "tuned")[0] == 0
    header = artifact.read_json(run / "promotion.json", Promotion).header
    assert set(header.parents) == {
        *("eval/base.json", "eval/base.drift.json", "eval/tuned.json", "eval/tuned.drift.json"),
        *("data.jsonl", "held.jsonl", "evaluation of brief.yaml"),
    }
    assert header.settings == {"base": "base", "candidate": "tuned"}

    def row() -> dict[str, str]:
        facts = json.loads(finetune("status", run, "--json")[1])
        return next(one for one in facts["artifacts"] if one["file"] == "promotion.json")

    assert row()["state"] == "done"
    assert "tuned against base: promoted; better on 20 goldens" in row()["detail"]
    text = (run / "brief.yaml").read_text()
    (run / "brief.yaml").write_text(text + "evaluation: {gain: 0.2}\n")
    assert row()["state"] == "stale"
    assert row()["detail"] == "evaluation of brief.yaml changed since it was made"
    (run / "brief.yaml").write_text(text)
    compare.current(brief.load(run))
    (run / "eval" / "base.drift.json").unlink()
    with pytest.raises(Refusal, match=r"eval/base.drift.json changed since it was made"):
        compare.current(brief.load(run))


def test_what_the_brief_wants_decides(run: Path, finetune: Finetune) -> None:
    """The drift budget and the gain are the brief's; neither makes an evaluation stale."""
    two(run, finetune, better, general=losing(0.05))
    assert finetune("compare", run, "base", "tuned")[0] == 3
    with (run / "brief.yaml").open("a") as stream:
        stream.write("evaluation: {drift: 0.4, gain: 0.5}\n")
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 0
    assert "smaller than the 0.5 that the brief wants" in out


def test_a_suite_that_is_missing_is_asked_for_by_a_command_that_runs(run: Path, finetune: Finetune) -> None:
    """Pasted into a shell it measures what is missing, of the same model under the same name."""
    two(run, finetune, better, general=None)
    out = finetune("compare", run, "base", "tuned")[1]
    asked = f"finetune evaluate {run} --model some/tuned --suite drift --name tuned"
    assert f"next: measure it: `{asked}`, then `finetune compare {run} base tuned`" in out
    assert f"general ability of `tuned` was not measured (`{asked}`)" in out
    evaluations.write_transcripts(run, "tuned", better, model="some/tuned", general=able)
    assert finetune(*asked.split()[1:])[0] == 0
    assert finetune("compare", run, "base", "tuned")[0] == 0


def edge(row: int, index: int) -> bool:
    """Tell which completions of a candidate are right that is a little better, at the edge of what is shown."""
    return index < 2 or (index == 2 and row < 5)


@pytest.mark.parametrize("given", ["my-run", "."], ids=["from above", "from inside"])
def test_the_next_action_is_run_as_it_stands(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """More completions of both under names that are free, then those two: every command of it does what it says."""
    run = evaluations.write_run(tmp_path / "my-run", evaluations.BRIEF + "evaluation: {gain: 0.1}\n")
    model = save(run / "train" / "model", b"trained")
    evaluated(run, "base", finetune, lambda _, index: index < 2)
    evaluated(run, "final", finetune, edge, "--model", str(model))
    (run / "eval" / "final-8.drift.samples.jsonl").write_text("taken")
    monkeypatch.chdir(run if given == "." else tmp_path)
    code, out, _ = finetune("compare", given, "base", "final")
    assert code == 3
    lines = out.splitlines()
    asked = re.findall(r"`(finetune [^`]*)`", lines[-1])
    assert asked == [
        f"finetune evaluate {given} --samples 8 --name base-8",
        f"finetune evaluate {given} --checkpoint final --samples 8 --name final-8-2",
        f"finetune compare {given} base-8 final-8-2",
    ]
    assert str(tmp_path) not in lines[-1]
    for name, right, named in (("base-8", lambda _, index: index < 4, None), ("final-8-2", lambda *_: True, model)):
        evaluations.write_transcripts(
            run, name, right, model=None if named is None else str(named), samples=8, general=None
        )
    codes = [finetune(*shlex.split(line)[1:])[0] for line in asked]
    assert codes == [0, 0, 0]


def test_a_power_line_never_asks_for_what_is_there(run: Path, finetune: Finetune) -> None:
    """It names the kind of its number, and how many more are needed only where more are."""
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text() + "evaluation: {gain: 0.1}\n")
    evaluated(run, "base", finetune, lambda _, index: index < 2)
    evaluated(run, "tuned", finetune, edge, "--model", "some/tuned")
    out = finetune("compare", run, "base", "tuned")[1]
    power = "power, from the paired answers: these 20 goldens show a difference of 0.0"
    assert power in out
    assert "; the wanted 0.1 (evaluation.gain) takes no more of them\n" in out
    assert "the figure of `evaluate` is an estimate from the base alone" in out
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace("gain: 0.1", "gain: 0.05"))
    out = finetune("compare", run, "base", "tuned")[1]
    needed = re.search(r"the wanted 0.05 \(evaluation.gain\) takes about (\d+) goldens\n", out)
    assert needed is not None
    assert int(needed[1]) > 20
    assert f"evaluate both on about {needed[1]} goldens" in out


def save(folder: Path, weights: bytes) -> Path:
    """Leave what a training leaves of a whole model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def row_of(run: Path, finetune: Finetune, file: str) -> dict[str, str]:
    facts = json.loads(finetune("status", run, "--json")[1])
    found: dict[str, str] = next(one for one in facts["artifacts"] if one["file"] == file)
    return found


@pytest.mark.parametrize(
    ("place", "name", "options"),
    [
        ("train/model", "final", "--checkpoint final"),
        ("train/checkpoints/checkpoint-30", "checkpoint-30", "--checkpoint 30"),
        ("train/merged", "merged", "--model {run}/train/merged"),
    ],
)
def test_an_evaluation_of_a_model_that_was_trained_anew_counts_no_more(
    run: Path, finetune: Finetune, place: str, name: str, options: str
) -> None:
    """One line with the file, what changed and the command that mends it; that command run, all is well again."""
    model = save(run / place, b"first training")
    (model / "trainer_state.json").write_text("{}")
    evaluated(run, "base", finetune, lambda _, index: index < 1)
    evaluated(run, name, finetune, better, "--model", str(model))
    assert finetune("compare", run, "base", name)[0] == 0
    assert row_of(run, finetune, "eval/NAME.json")["state"] == "done"

    save(model, b"other training")  # as many bytes
    again = f"finetune evaluate {run} {options.replace('{run}', str(run))} --fresh"
    words = f"{place} holds another model than was measured (model.safetensors changed); measure it: `{again}`"
    code, out, err = finetune("compare", run, "base", name)
    assert (code, out) == (2, "")
    assert err == f"finetune: {run}/eval/{name}.json: {words}\n"
    assert row_of(run, finetune, "promotion.json")["state"] == "stale"
    row = row_of(run, finetune, "eval/NAME.json")
    assert row["state"] == "stale"
    assert words in row["detail"]

    before = {path.name: path.read_bytes() for path in (run / "eval").glob(f"{name}*")}
    code, _, err = finetune(*again.split()[1:], "--python", "/no/such/python")
    assert code == 2
    assert {path.name: path.read_bytes() for path in (run / "eval").glob(f"{name}*")} == before  # nothing came of it
    assert not list((run / "eval").glob("aside-*"))
    for path in (run / "eval").glob(f"{name}*"):
        path.rename(run / path.name)
    evaluated(run, name, finetune, better, "--model", str(model))
    assert finetune("compare", run, "base", name)[0] == 0

    for path in sorted(model.iterdir()):
        path.unlink()
    model.rmdir()
    assert finetune("compare", run, "base", name)[0] == 0  # it is gone, as after a move to another machine


def test_what_follows_on_an_evaluation_can_be_run(run: Path, finetune: Finetune) -> None:
    """It is compared with what it may be compared with; the base is measured alike where it was not."""

    def following(name: str, *options: str) -> str:
        model = options[options.index("--model") + 1] if "--model" in options else None
        samples = 8 if "8" in options else None
        evaluations.write_transcripts(run, name, lambda *_: True, model=model, samples=samples, general=able)
        code, out, err = finetune("evaluate", run, "--name", name, *options)
        assert code == 0, err
        return out.splitlines()[-1].removeprefix("next: ")

    tuned = ("--model", "some/tuned")
    assert following("t4", *tuned) == f"finetune evaluate {run}"
    assert following("only", "--suite", "drift", *tuned) == (
        f"finetune evaluate {run} --model some/tuned --suite goldens --name only"
    )
    following("base")
    assert following("t4", *tuned) == f"finetune compare {run} base t4"
    alike = following("t8", *tuned, "--samples", "8")
    assert alike == f"finetune evaluate {run} --samples 8 --name base-2"
    assert following("base-2", "--samples", "8") == f"finetune audit {run}"  # the road's own next step
    assert following("t8", *tuned, "--samples", "8") == f"finetune compare {run} base-2 t8"
    assert finetune("compare", run, "base-2", "t8")[0] == 3


def test_status_asks_for_the_measure_that_is_of_a_training_before(tmp_path: Path, finetune: Finetune) -> None:
    """Before any comparison, with the line that mends it; not while it trains, when checkpoints come and go."""
    run = finished_runs.write_drawn(tmp_path)
    finished_runs.examine(run)
    finished_runs.read(run)
    finished_runs.build(run)
    finished_runs.train(run)
    for verb, options in (("diagnose", ()), ("evaluate", ("final",)), ("evaluate", ("last",))):
        assert finetune(verb, run, *(word for step in options for word in ("--checkpoint", step)))[0] == 0

    def following() -> str:
        return str(json.loads(finetune("status", run, "--json")[1])["next"])

    assert following() == f"finetune compare {run} base final"
    save(run / "train" / "model", b"MODEL")
    assert following() == f"finetune evaluate {run} --checkpoint final --fresh"
    (run / "train" / "logs" / "outcome.json").unlink()
    with (run / "train" / "logs" / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "train" in following()
        assert "evaluate" not in following()


def test_a_merged_model_goes_with_its_adapter(run: Path, finetune: Finetune) -> None:
    """Once the adapter was trained anew neither what was merged before nor its evaluation is what the run trained."""
    adapter = run / "train" / "model"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "some/model"}))
    (adapter / "adapter_model.safetensors").write_bytes(b"first training")
    loaded = brief.load(run)
    digest = checkpoints.digest(loaded, checkpoints.checkpoint(loaded, "final"))
    merged = save(run / "train" / "merged", b"merged")
    (merged / "merge.json").write_text(json.dumps({"adapter": str(adapter), "sha256": digest}))
    err = finetune("compare", run, "base", "merged")[2]
    evaluated(run, "base", finetune, lambda _, index: index < 1)
    err = finetune("compare", run, "base", "merged")[2]
    assert f"make it: finetune evaluate {run} --model {run}/train/merged\n" in err
    evaluated(run, "merged", finetune, better, "--model", str(merged))
    assert finetune("compare", run, "base", "merged")[0] == 0

    (adapter / "adapter_model.safetensors").write_bytes(b"other training")
    calls = f"`finetune merge {run}`, then `finetune evaluate {run} --model {run}/train/merged --fresh`"
    code, _, err = finetune("compare", run, "base", "merged")
    assert code == 2
    assert err.endswith(f"(adapter_model.safetensors changed); measure it: {calls}\n")
    code, _, err = finetune("evaluate", run, "--model", merged, "--name", "later")
    assert code == 2
    assert "was made of" in err
    assert err.endswith(f"before it was trained again; make it again: `finetune merge {run}`\n")


def leak(run: Path, rows: int, *, column: str = "prompt") -> None:
    """Put the first held-out prompts into the training data, one as it is, the others with other spaces."""
    lines = [
        {
            "id": f"x{i}",
            "prompt": f"about {i}",
            "answer": "0",
            "level": 0,
            "text": "-",
            column: f"What is  {i + 101} + {i + 100}?",
        }
        for i in range(rows)
    ]
    with (run / "data.jsonl").open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def test_leaked_goldens_are_listed_and_left_out(run: Path, finetune: Finetune) -> None:
    """By their id and the row of the training data; what is left decides."""
    leak(run, 8)
    two(run, finetune, lambda i, index: index < (4 if i < 8 else 2))
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 1
    assert "they carry the gain" in out.splitlines()[1]
    assert "leaked: h0 stands in row 16 of the training data (`prompt`)" in out
    assert "and 3 more leaked goldens in promotion.json" in out
    held = artifact.read_json(run / "promotion.json", Promotion).records[0]
    assert [one.prompt_id for one in held.leaked] == [f"h{i}" for i in range(8)]
    assert held.fresh is not None
    assert (held.goldens.success.difference.n, held.fresh.success.difference.n) == (20, 12)


def test_what_a_method_trains_on_beside_the_prompt_is_searched_too(tmp_path: Path, finetune: Finetune) -> None:
    """A golden that is a demonstration's text is no less known."""
    text = evaluations.BRIEF.replace("answer: answer", "answer: answer, completion: text")
    run = evaluations.write_run(tmp_path / "run", text=text)
    rows = [json.loads(line) for line in (run / "data.jsonl").read_text().splitlines()]
    (run / "data.jsonl").write_text("".join(json.dumps({**row, "text": "none"}) + "\n" for row in rows))
    leak(run, 2, column="text")
    held = [json.loads(line) for line in (run / "held.jsonl").read_text().splitlines()]
    (run / "held.jsonl").write_text("".join(json.dumps({**row, "text": "none"}) + "\n" for row in held))
    two(run, finetune, better)
    out = finetune("compare", run, "base", "tuned")[1]
    assert "leaked: h1 stands in row 17 of the training data (`completion`)" in out


def test_training_data_that_is_gone_cannot_be_searched(run: Path, finetune: Finetune) -> None:
    """Then nobody knows whether a gain was learnt by heart, and it is said how to find out."""
    two(run, finetune, better)
    (run / "data.jsonl").rename(run / "gone.jsonl")
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 3
    assert "was not searched for the goldens: " in out
    assert "no such file" in out
    assert "next: correct `dataset.path`" in out
    assert f", then `finetune compare {run} base tuned`\n" in out


@pytest.mark.parametrize(
    ("leaked", "exit_code", "words"),
    [(0, 0, "no golden stands in the training data"), (2, 3, "the audit says: 2/20 held-out prompts")],
    ids=["sound", "leaks"],
)
def test_a_data_set_that_is_not_read_here_is_as_the_audit_found_it(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, leaked: int, exit_code: int, words: str
) -> None:
    """A current audit searched it; which goldens they are it does not know. Without one nobody searched."""
    run = evaluations.write_run(tmp_path / "run")
    leak(run, leaked)
    two(run, finetune, better)
    assert finetune("audit", run)[0] == (1 if leaked else 0)

    def unread(loaded: Any, python: str | None) -> list[Any]:
        raise Refusal(f"{loaded.brief.dataset.path} is a hub id; name an interpreter: --python PATH ({python})")

    monkeypatch.setattr(golden_leaks, "rows_of", unread)
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == exit_code
    assert words in out
    (run / "audit.json").unlink()
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 3
    assert "was not searched for the goldens: data.jsonl is a hub id" in out
    assert "next: name an interpreter: --python PATH" in out


def test_goldens_that_changed_since_are_said(run: Path, finetune: Finetune) -> None:
    """Their prompts are still known from the kept completions; without those nobody can look for leaks."""
    two(run, finetune, better)
    text = (run / "held.jsonl").read_text()
    (run / "held.jsonl").write_text(text.replace('"level": 0', '"level": 50'))
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 0
    assert "the goldens are others today" in out
    for name in ("base", "tuned"):
        (run / "eval" / f"{name}.samples.jsonl").unlink()
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 3
    assert "neither in the kept completions nor in the held-out rows of today" in out
    (run / "held.jsonl").write_text(text)
    assert finetune("compare", run, "base", "tuned")[0] == 0
    (run / "held.jsonl").unlink()
    assert "the held-out rows cannot be read any more" in finetune("compare", run, "base", "tuned")[1]


def test_compare_refuses_what_cannot_be_compared(run: Path, finetune: Finetune) -> None:
    """Other settings, the same file, a name that is not there: one line each, and nothing is written."""
    assert f"make it: finetune evaluate {run}" in finetune("compare", run, "base", "tuned")[2]
    evaluated(run, "base", finetune, lambda *_: True)
    evaluated(run, "greedy", finetune, lambda *_: True, "--greedy")
    (run / "brief.json").write_bytes((run / "eval" / "base.json").read_bytes())
    for names, words in (
        (("base", "base"), "compared with itself"),
        (
            ("base", "nope"),
            f"no such evaluation; there are base, greedy; make it: finetune evaluate {run} --name nope --model ",
        ),
        (("base", "final"), f"there are base, greedy; make it: finetune evaluate {run} --checkpoint final"),
        (("base", "checkpoint-12"), f"make it: finetune evaluate {run} --checkpoint 12"),
        (("base", "../no/such.json"), "no such evaluation; there are base, greedy; check the path"),
        (("base", "greedy"), "differs in sampling settings (samples 1 for 4, temperature 0.0 for 1.0)"),
        (
            ("base", "greedy"),
            f"`finetune evaluate {run} --greedy --name base-2`, then `finetune compare {run} base-2 greedy`\n",
        ),
        (("base", run / "brief.json"), "is no evaluation in the folder `eval` of a run; name one that is"),
        (("base", "greedy.drift"), "is of the drift suite; name the evaluation of the goldens"),
    ):
        code, _, err = finetune("compare", run, *names)
        assert code == 2
        assert words in err
        assert len(err.strip().splitlines()) == 1
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace("last_number", "whole"))
    evaluated(run, "later", finetune, lambda *_: True)
    err = finetune("compare", run, "base", "later")[2]
    assert f"`finetune evaluate {run} --name base-2`, then `finetune evaluate {run} --name later-2`, then " in err
    assert "differs in rewards of brief.yaml" in err
    assert "the kept completions are scored anew" in err
    (run / "held.jsonl").write_text((run / "held.jsonl").read_text().replace('"level": 0', '"level": 50'))
    evaluated(run, "other-rows", finetune, lambda *_: True)
    assert "differs in held-out rows" in finetune("compare", run, "later", "other-rows")[2]
    assert not (run / "promotion.json").exists()


def test_a_drift_suite_of_another_model_is_not_taken_for_its_own(run: Path, finetune: Finetune) -> None:
    """A file that was put there by hand speaks of something else."""
    two(run, finetune, better)
    evaluated(run, "other", finetune, better, "--model", "some/other")
    (run / "eval" / "tuned.drift.json").write_bytes((run / "eval" / "other.drift.json").read_bytes())
    code, _, err = finetune("compare", run, "base", "tuned")
    assert code == 2
    assert "is of another model (some/other) than tuned.json (some/tuned)" in err


def test_one_model_twice_is_never_promoted(run: Path, finetune: Finetune) -> None:
    """However far chance carries it."""
    evaluated(run, "base", finetune, lambda *_: False)
    evaluated(run, "again", finetune, lambda *_: True)
    code, out, _ = finetune("compare", run, "base", "again")
    assert code == 3
    assert "both evaluations are of the same model" in out.splitlines()[1]


def test_a_greedy_evaluation_is_compared_by_mcnemar(run: Path, finetune: Finetune) -> None:
    """One completion a row."""
    evaluated(run, "base", finetune, lambda i, _: i < 5, "--greedy")
    evaluated(run, "tuned", finetune, lambda i, _: i < 12, "--greedy", "--model", "some/tuned")
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 0
    assert "items won 7, lost 0, equal 13; exact McNemar test: p = 0.016" in out


def test_graders_apart_from_rewards_show_a_hacked_reward(tmp_path: Path, finetune: Finetune) -> None:
    """What is paid rises on every row, what is wanted falls: rejected, with both numbers in the reason."""
    rewards = (
        "rewards:\n  - file: mine.py:wordy\n    range: [0, 99]\nevaluation:\n  graders:\n    - use: exact_answer\n"
    )
    text = evaluations.BRIEF.replace("rewards:\n  - use: exact_answer\n", rewards).replace(
        "    options: {extract: last_number}", "      options: {extract: last_number}"
    )
    run = evaluations.write_run(tmp_path / "run", text=text)
    (run / "mine.py").write_text(
        "def wordy(completions, **kwargs):\n    return [float(text.count('really')) for text in completions]\n"
    )
    evaluated(run, "base", finetune, better)
    evaluations.write_transcripts(run, "tuned", lambda _, index: index < 1, model="some/tuned", general=able)
    samples = run / "eval" / "tuned.samples.jsonl"
    samples.write_text(samples.read_text().replace("it is", "it really, really is"))
    assert finetune("evaluate", run, "--name", "tuned", "--model", "some/tuned")[0] == 0
    code, out, _ = finetune("compare", run, "base", "tuned")
    assert code == 1
    assert "reward hacking: the training reward rises from 0 to 2" in out.splitlines()[1]
    assert "success goes from 0.750 to 0.250" in out.splitlines()[1]


JUDGE = """\
  - use: rubric_judge
    weight: 0.0
    options: {url: URL, model: MODEL, rubric_file: rubric.md, calibration: calibration.json}
"""


def by_sum(_route: str, body: dict[str, Any], _count: int) -> tuple[int, dict[str, str], Any]:
    """Answer as a judge that can add: names the right one of two, and fails every single one."""
    shown, *_ = judge_records.material(body)
    if "first" not in shown:
        return 200, {}, judge_records.chat(judge_records.verdict("fail"))
    one, other = (int(number) for number in re.findall(r"\d+", shown["task"]))
    right = [place for place in ("first", "second") if str(one + other) in shown[place]]
    return 200, {}, judge_records.chat(judge_records.verdict(right[0] if len(right) == 1 else "neither"))


def test_an_arena_asks_the_brief_s_judge(tmp_path: Path, finetune: Finetune) -> None:
    """About the first completion of each golden that did not leak; it is told beside the verdict."""
    server = StubServer(by_sum)
    try:
        judge = JUDGE.replace("URL", server.url).replace("MODEL", judge_records.MODEL)
        text = evaluations.BRIEF.replace(
            "    options: {extract: last_number}\n", f"    options: {{extract: last_number}}\n{judge}"
        )
        run = evaluations.write_run(tmp_path / "run", text=text + "evaluation: {gain: 0.2}\n")
        judge_records.files(run)
        leak(run, 2)
        evaluated(run, "base", finetune, lambda _, index: index >= 2)
        evaluated(run, "tuned", finetune, better, "--model", "some/tuned")
        code, out, err = finetune("compare", run, "base", "tuned", "--arena")
    finally:
        server.close()
    assert code == 0, err
    assert f"judge `{judge_records.MODEL}` prefers the candidate on 18 of 18 items and the base on 0" in out
    arena = artifact.read_json(run / "promotion.json", Promotion).records[0].arena
    assert arena is not None
    assert (arena.won, arena.lost, arena.tied, arena.unanswered) == (18, 0, 0, 0)


def test_an_arena_without_a_judge_or_completions_is_refused(run: Path, finetune: Finetune) -> None:
    """Nothing to ask, and nothing to ask about."""
    two(run, finetune, better)
    code, _, err = finetune("compare", run, "base", "tuned", "--arena")
    assert code == 2
    assert "--arena asks a `rubric_judge` of `evaluation.graders` or `rewards`; name one" in err
    for name in ("base", "tuned"):
        (run / "eval" / f"{name}.samples.jsonl").unlink()
    loaded = brief.load(run)
    graders = loaded.brief.evaluation.model_copy(update={"graders": [brief.RewardBrief(use="rubric_judge")]})
    judged = brief.LoadedBrief(loaded.brief.model_copy(update={"evaluation": graders}), loaded.run_dir)
    with pytest.raises(Refusal, match="reads the kept completions of both"):
        contest.contest_of(judged, "base", "tuned").judged(arena=True)


def _no_grades(item: dict[str, Any]) -> None:
    item["grades"] = []


def _no_values(item: dict[str, Any]) -> None:
    item["values"] = {}


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item["grades"].__setitem__(0, float("nan")),
        lambda item: item.__setitem__("successes", item["n"] - item["successes"] + 1),
        lambda item: item.__setitem__("n", 0),
        lambda item: item.__setitem__("prompt_id", "h1"),
        _no_grades,
        _no_values,
    ],
    ids=["no number", "successes", "count", "twice", "no grades", "no values"],
)
@pytest.mark.parametrize("suite", ["", ".drift"], ids=["goldens", "drift"])
def test_an_evaluation_that_was_edited_decides_nothing(
    run: Path, finetune: Finetune, change: Callable[[dict[str, Any]], None], suite: str
) -> None:
    """One line that says so: its counts have to follow from its grades."""
    two(run, finetune, better)
    path = run / "eval" / f"tuned{suite}.json"
    body = json.loads(path.read_text("utf-8"))
    if suite:
        body["items"][1]["prompt_id"] = "h1"
    change(body["items"][0])
    path.write_text(json.dumps(body), "utf-8")
    code, _, err = finetune("compare", run, "base", "tuned")
    assert code == 2
    assert f"{path}: " in err
    assert "move" in err
    assert "never edit it" in err
    assert not (run / "promotion.json").exists()


def test_rows_that_left_the_training_data_after_training_do_not_count_as_searched(
    tmp_path: Path, finetune: Finetune
) -> None:
    """A leak that is taken out once the model has learnt it leaves the gain; the rows it was trained on decide."""
    run = evaluations.write_run(tmp_path / "run", text=evaluations.BRIEF + "evaluation: {gain: 0.2}\n")
    leak(run, 4)
    loaded = brief.load(run)
    built = Build(
        method="grpo", files={}, launch={}, frozen={}, model_files=None, shape={}, rows=27, notes=[], demo=False
    )
    model = run / checkpoints.FINAL
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    record = run / "train" / "build.json"
    artifact.write_json(record, artifact.header_for(record, lineage.dataset_digest(loaded)), built)
    evaluated(run, "base", finetune, lambda _, index: index < 2)
    evaluated(run, "final", finetune, better, "--model", str(model))
    code, out, _ = finetune("compare", run, "base", "final")
    assert code == 0, out

    rows = (run / "data.jsonl").read_text("utf-8").splitlines()
    (run / "data.jsonl").write_text("\n".join(rows[:-4]) + "\n", "utf-8")
    code, out, _ = finetune("compare", run, "base", "final")
    assert code == 3
    assert "it is another one today than `final` was trained on" in out.splitlines()[1]
