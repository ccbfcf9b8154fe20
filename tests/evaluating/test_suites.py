"""The held-out rows and the drift suite of one model under one name, and the baseline's name."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import evaluations
from llm_finetuning import artifact, drift, pipeline
from llm_finetuning.types import Evaluation

Finetune = Callable[..., tuple[int, str, str]]

NOWHERE = ("--python", "/no/such/python")  # an engine is asked for, and that is the refusal


ITEMS = len(drift.rows(chat=False))
KINDS = Counter(row.columns["kind"] for row in drift.rows(chat=False))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with twenty held-out rows."""
    return evaluations.write_run(tmp_path / "run")


def read(run: Path, name: str) -> Evaluation:
    return artifact.read_json(run / "eval" / f"{name}.json", Evaluation).records[0]


def test_both_suites_are_measured_under_one_name(run: Path, finetune: Finetune) -> None:
    """Two files: the drift suite's parts are its kinds, and its settings are its own, whatever the brief's."""
    text = (run / "brief.yaml").read_text()
    (run / "brief.yaml").write_text(text.replace("max_completion_length: 16", "repetition_penalty: 1.3, min_p: 0.1"))
    evaluations.write_transcripts(run, "base", lambda *_: True, general=lambda place: place < 6)  # arithmetic
    code, out, err = finetune("evaluate", run)
    assert code == 0, err
    assert "drift suite" not in err  # its completions are there
    assert "[default: both]" in finetune("evaluate", "--help")[1]
    goldens, found = read(run, "base"), read(run, "base.drift")
    assert (goldens.suite, found.suite, goldens.name, found.name) == ("goldens", "drift", "base", "base")
    assert (found.greedy, found.samples, len(found.items)) == (True, 1, ITEMS)
    assert list(found.buckets) == sorted(drift.KINDS)
    assert found.buckets["arithmetic"].value == pytest.approx(6 / KINDS["arithmetic"])
    assert found.passes["1"].value == pytest.approx(6 / ITEMS)
    assert goldens.passes["1"].value == 1.0
    header = artifact.read_json(run / "eval" / "base.drift.json", Evaluation).header
    assert set(header.parents) == {
        *("drift suite", "drift items", "sampling settings", "model", "seed", "engine", "base.drift.samples.jsonl"),
    }
    settings = {name: header.settings[name] for name in ("temperature", "max_completion_length", "repetition_penalty")}
    assert settings == {"temperature": 0.0, "max_completion_length": drift.MAX_TOKENS, "repetition_penalty": 1.0}
    assert f"base: some/model on {ITEMS} items of the drift suite, greedy" in out
    assert f"wrote: {run}/eval/base.json\nwrote: {run}/eval/base.drift.json\n" in out
    facts = json.loads(finetune("evaluate", run, "--json")[1])
    files = [f"{run}/eval/base.json", f"{run}/eval/base.drift.json"]
    assert (facts["wrote"], facts["there"]) == ([], files)
    assert (facts["suite"], facts["drift"]["suite"], facts["drift"]["items"]) == ("goldens", "drift", ITEMS)
    assert f"pass@1: base 1.000 (drift {6 / ITEMS:.3f})" in finetune("status", run)[1]


def test_an_evaluation_goes_on_with_the_suite_that_is_missing(run: Path, finetune: Finetune) -> None:
    """Goldens that are there are not drawn again; an engine is asked for the drift suite alone."""
    evaluations.write_transcripts(run, "base", lambda *_: True, general=None)
    assert finetune("evaluate", run, "--suite", "goldens")[0] == 0
    before = (run / "eval" / "base.json").stat().st_ino
    code, _, err = finetune("evaluate", run, *NOWHERE)
    assert code == 2
    assert "base.json is there already; nothing was sampled" in err
    assert "/no/such/python" in err
    evaluations.write_transcripts(run, "base", lambda *_: True)
    assert "base.drift unfinished" in finetune("status", run)[1]
    assert finetune("evaluate", run)[0] == 0
    assert (run / "eval" / "base.json").stat().st_ino == before  # not even written anew
    assert read(run, "base.drift").suite == "drift"


def test_only_what_was_made_is_said_to_be_written(run: Path, finetune: Finetune) -> None:
    """What was there before is named as such, suite by suite; nothing of it is written again."""
    evaluations.write_transcripts(run, "base", lambda *_: True)
    assert finetune("evaluate", run, "--suite", "drift")[0] == 0
    out = finetune("evaluate", run)[1]
    assert f"is there already: {run}/eval/base.drift.json\nwrote: {run}/eval/base.json\nnext: " in out
    out = finetune("evaluate", run)[1]
    there = f"is there already: {run}/eval/base.json\nis there already: {run}/eval/base.drift.json\nnext: "
    assert there in out
    assert "wrote" not in out


def test_a_drift_suite_of_the_same_model_is_not_drawn_twice(run: Path, finetune: Finetune) -> None:
    """Under another name its completions are taken over, unless they were touched or are another model's."""
    evaluations.write_transcripts(run, "base", lambda *_: True, general=lambda place: place < 6)
    assert finetune("evaluate", run)[0] == 0
    evaluations.write_transcripts(run, "base-8", lambda *_: True, samples=8, general=None)
    code, _, err = finetune("evaluate", run, "--samples", "8", "--name", "base-8", *NOWHERE)
    assert code == 0, err
    assert "the completions are those of base.drift.samples.jsonl, of the same model; nothing is drawn" in err
    assert read(run, "base-8.drift").items == read(run, "base.drift").items
    assert read(run, "base-8.drift").name == "base-8"

    evaluations.write_transcripts(run, "other", lambda *_: True, model="some/other", general=None)
    assert "/no/such/python" in finetune("evaluate", run, "--model", "some/other", *NOWHERE)[2]
    for name in ("base", "base-8"):
        kept = run / "eval" / f"{name}.drift.samples.jsonl"
        kept.write_text(kept.read_text() + "\n")
    evaluations.write_transcripts(run, "third", lambda *_: True, general=None)
    assert "/no/such/python" in finetune("evaluate", run, "--name", "third", *NOWHERE)[2]


def test_the_drift_suite_is_announced_with_what_it_takes(run: Path, finetune: Finetune) -> None:
    """First that it comes and how to leave it, once the held-out rows are drawn how long; later as the base took."""
    evaluations.write_transcripts(run, "base", lambda *_: True, seconds=0.01, general=None)
    code, _, err = finetune("evaluate", run, *NOWHERE)
    assert code == 2
    size = f"{ITEMS} items of up to {drift.MAX_TOKENS} tokens each"
    first, begins = [line for line in err.splitlines() if line.startswith("drift suite")]
    took = "about 7 min to 14 min at the pace of the held-out rows"
    assert first == (
        f"drift suite, after the held-out rows: {size}, {took}; `--suite goldens` leaves it for later, and until "
        "`--suite drift` has measured it `compare` promotes nothing"
    )
    assert begins == f"drift suite: {size}, {took}; a killed one goes on later"
    assert (run / "eval" / "base.json").exists()  # before it begins

    evaluations.write_transcripts(run, "base", lambda *_: True, seconds=0.01, general=lambda _: False)
    err = finetune("evaluate", run)[2]
    assert "drift suite" not in err
    err = finetune("evaluate", run, "--model", "some/tuned", *NOWHERE)[2]
    assert "how long is said when they are drawn; `--suite goldens` leaves it for later" in err
    assert "drift suite" not in finetune("evaluate", run, "--model", "some/x", "--suite", "goldens", *NOWHERE)[2]


def test_the_drift_suite_alone_asks_for_no_goldens_and_no_rewards(run: Path, finetune: Finetune) -> None:
    """It needs a model alone; the JSON then holds its numbers."""
    evaluations.write_transcripts(run, "base", lambda *_: True)
    (run / "brief.yaml").write_text(
        "name: s\nmethod: sft\nmodel: some/model\ndataset: {path: data.jsonl, completion: answer}\n"
    )
    code, out, err = finetune("evaluate", run, "--suite", "drift", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["suite"], facts["items"], facts["power"]) == ("drift", ITEMS, None)
    assert not (run / "eval" / "base.json").exists()
    assert "pass@1: base (drift 0.000)" in finetune("status", run)[1]


def test_the_suite_has_the_form_of_the_runs_prompts(run: Path, finetune: Finetune) -> None:
    """Chat messages where the held-out rows are chat, so that the model is asked as it was trained."""
    lines = [json.loads(line) for line in (run / "held.jsonl").read_text().splitlines()]
    for line in lines:
        line["prompt"] = [{"role": "user", "content": line["prompt"]}]
    (run / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    evaluations.write_transcripts(run, "base", lambda *_: True)  # of the drift suite as text
    code, _, err = finetune("evaluate", run, "--suite", "drift")
    assert code == 2
    assert "was drawn from another drift items; give this one another name (--name base-2)" in err


@pytest.mark.parametrize("there", ["goldens", "drift"])
def test_two_models_never_share_a_name(run: Path, finetune: Finetune, there: str) -> None:
    """A suite of one model beside that of another would be compared as one; nothing is sampled first."""
    evaluations.write_transcripts(run, "m", lambda *_: True, model="one/m")
    assert finetune("evaluate", run, "--model", "one/m", "--suite", there)[0] == 0
    before = (run / pipeline.evaluation_file("m", there)).read_bytes()
    for suite in ("goldens", "drift", "both"):
        code, _, err = finetune("evaluate", run, "--model", "two/m", "--suite", suite, *NOWHERE)
        assert code == 2
        assert "is of another model (one/m) than two/m" in err or "differs in model, and is never overwritten" in err
        assert len(err.strip().splitlines()) == 1
    assert before == (run / pipeline.evaluation_file("m", there)).read_bytes()


@pytest.mark.parametrize("is_there", [False, True], ids=["not yet", "is there"])
def test_the_baselines_name_is_its_own(run: Path, finetune: Finetune, tmp_path: Path, *, is_there: bool) -> None:
    """No other model is called base, whether one was measured or not: comparisons stand on it."""
    if is_there:
        evaluations.write_transcripts(run, "base", lambda *_: True)
        assert finetune("evaluate", run)[0] == 0
    folder = tmp_path / "base"  # its own name would be the baseline's
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for options in (("--model", "other/model", "--name", "base"), ("--model", folder)):
        code, _, err = finetune("evaluate", run, *options, *NOWHERE)
        assert code == 2
        assert "--name base: is the name of the brief's own model, some/model, and this is " in err
        assert len(err.strip().splitlines()) == 1
    assert not (run / "eval").exists() or {path.name for path in (run / "eval").glob("*.json")} == {
        *("base.json", "base.drift.json"),
    }
    # The brief's own model may be named.
    evaluations.write_transcripts(run, "base", lambda *_: True)
    assert finetune("evaluate", run, "--model", "some/model", "--name", "base")[0] == 0


def test_the_ending_of_the_suites_files_is_taken(run: Path, finetune: Finetune) -> None:
    """An evaluation called so would stand where another's drift suite belongs."""
    code, _, err = finetune("evaluate", run, "--name", "base.drift", *NOWHERE)
    assert code == 2
    assert "the ending `.drift` is that of the drift suite's own files" in err


def test_the_tables_know_the_suites_files(run: Path, finetune: Finetune) -> None:
    """A file of the drift suite that is broken, or of an older version, names the call that makes it again."""
    path = run / "eval" / "tuned.drift.json"
    assert (pipeline.schema_of(path), pipeline.verb_for(path)) == ("evaluation/2", "evaluate")
    assert pipeline.transcripts_of(path).name == "tuned.drift.samples.jsonl"
    assert pipeline.schema_of(pipeline.transcripts_of(path)) == "samples/1"
    path.parent.mkdir()
    path.write_text("{")
    code, _, err = finetune("evaluate", run, "--model", "some/tuned", *NOWHERE)
    assert code == 2
    assert f"run `finetune evaluate {run} --name tuned`" in err
    assert "broken" in finetune("status", run)[1]
