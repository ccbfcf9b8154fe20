"""`evaluate` on written transcripts: no engine is started, since nothing is missing."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evaluations
from llm_finetuning import artifact, brief, checkpoints
from llm_finetuning.commands import evaluate
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating import kept
from llm_finetuning.types import Evaluation

Finetune = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with twenty held-out rows."""
    return evaluations.write_run(tmp_path / "run")


def model_folder(folder: Path, weights: bytes = b"weights") -> Path:
    """Make a folder that looks like a saved model; nothing here loads it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def adapter_folder(folder: Path, base: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    (folder / "adapter_model.safetensors").write_bytes(b"adapter")
    return folder


def evaluated(run: Path, name: str, finetune: Finetune, right: Callable[[int, int], bool], *options: str) -> Evaluation:
    """Write whole transcripts and let the verb score them."""
    model = options[options.index("--model") + 1] if "--model" in options else None
    evaluations.write_transcripts(run, name, right, model=model, greedy="--greedy" in options)
    code, _, err = finetune("evaluate", run, "--name", name, *options)
    assert code == 0, err
    return artifact.read_json(run / "eval" / f"{name}.json", Evaluation).records[0]


def test_the_base_model_is_scored_item_by_item(run: Path, finetune: Finetune) -> None:
    """Half of four completions a row; the file names its rows, settings, rewards, model and transcripts."""
    evaluations.write_transcripts(run, "base", lambda _, index: index < 2)
    code, out, err = finetune("evaluate", run, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["passes"]["1"]["value"] == 0.5
    assert facts["passes"]["2"]["value"] == pytest.approx(1 - 1 / 6)
    assert facts["passes"]["4"]["value"] == 1.0
    assert (facts["items"], facts["components"]["exact_answer"]["value"]) == (20, 0.5)
    assert facts["next"] == f"finetune audit {run}"

    found = artifact.read_json(run / "eval" / "base.json", Evaluation)
    assert set(found.header.parents) == {
        *("held-out rows", "sampling settings", "model", "seed", "engine", "success threshold"),
        *("rewards of brief.yaml", "library:rewards", "base.samples.jsonl"),
    }
    first = found.records[0].items[0]
    assert (first.prompt_id, first.n, first.successes) == ("h0", 4, 2)
    assert first.rewards == first.values["exact_answer"] == [1.0, 1.0, 0.0, 0.0]
    assert (first.tokens, first.finish_reasons) == ([3] * 4, ["stop"] * 4)
    assert "pass@1: base 0.500" in finetune("status", run)[1]


def test_asked_again_it_answers_from_the_file(run: Path, finetune: Finetune) -> None:
    """Nothing is sampled or written twice."""
    evaluated(run, "base", finetune, lambda *_: True)
    before = (run / "eval" / "base.json").read_bytes()
    (run / "eval" / "base.samples.jsonl").unlink()  # the completions may be thrown away
    code, out, err = finetune("evaluate", run)
    assert (code, before) == (0, (run / "eval" / "base.json").read_bytes())
    assert "is there already; nothing was sampled" in err
    assert "pass@1" in out


SETTINGS = "num_generations: 4, prompts: 15"


@pytest.mark.parametrize(
    ("change", "options", "named", "anew"),
    [
        ((SETTINGS, "temperature: 0.5, " + SETTINGS), (), "sampling settings", False),
        ((SETTINGS, "seed: 5, " + SETTINGS), (), "seed", False),
        (("", ""), ("--greedy",), "sampling settings", False),
        (("", ""), ("--samples", "8"), "sampling settings", False),
        (("model: some/model", "model: another/model"), (), "model", False),
        (("extract: last_number", "extract: whole"), (), "rewards of brief.yaml", True),
        (("model: some/model", "model: some/model\ngate: {success: 0.9}"), (), "success threshold", True),
    ],
    ids=["temperature", "seed", "greedy", "samples", "model", "rewards", "threshold"],
)
def test_a_baseline_is_never_overwritten_by_something_else(
    run: Path, finetune: Finetune, change: tuple[str, str], options: tuple[str, ...], named: str, *, anew: bool
) -> None:
    """The refusal names what differs and `--name`; kept completions can be scored anew where scoring alone differs."""
    evaluated(run, "base", finetune, lambda *_: True)
    before = (run / "eval" / "base.json").read_bytes()
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace(*change, 1))
    code, out, err = finetune("evaluate", run, "--name", "base", *options)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert "; or set that one aside with --fresh" in err
    assert f"differs in {named}, and is never overwritten; give this one a name of its own: --name base-2" in err
    assert ("scored anew" in err) == anew
    assert before == (run / "eval" / "base.json").read_bytes()
    if anew:
        (run / "eval" / "base.json").unlink()
        assert finetune("evaluate", run)[0] == 0


def test_another_name_that_is_offered_is_free(run: Path, finetune: Finetune) -> None:
    """Both where a result is there and where its completions are those of something else."""
    evaluated(run, "base", finetune, lambda *_: True)
    evaluations.write_transcripts(run, "base-2", lambda *_: True, keep=3)
    assert "a name of its own: --name base-3, which `compare` takes" in finetune("evaluate", run, "--samples", "8")[2]
    err = finetune("evaluate", run, "--samples", "8", "--name", "base-2", "--suite", "goldens")[2]
    assert "another name (--name base-2-2), or set that one aside with --fresh" in err


def test_fresh_sets_aside_all_of_a_name_and_measures_anew(
    run: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both suites with their completions, each time into a folder of its own; what has another name stays."""
    for name, options in (("base", ()), ("tuned", ("--model", "some/tuned"))):
        evaluated(run, name, finetune, lambda *_: False, *options)
    before = {path.name: path.read_bytes() for path in (run / "eval").iterdir()}
    real = kept.set_aside

    @contextlib.contextmanager
    def and_draw(folder: Path, name: str) -> Iterator[Path | None]:
        assert (folder / f".{name}.lock").exists()  # nobody else makes it meanwhile
        with real(folder, name) as aside:
            evaluations.write_transcripts(run, name, lambda *_: True)  # in the engine's place
            yield aside

    monkeypatch.setattr(kept, "set_aside", and_draw)
    for number in (1, 2):
        code, out, err = finetune("evaluate", run, "--fresh")
        assert code == 0, err
        assert f"what was there of base is in {run}/eval/aside-{number}\n" in err
        assert f"wrote: {run}/eval/base.json\nwrote: {run}/eval/base.drift.json\n" in out
        files = ("base.json", "base.drift.json", "base.samples.jsonl", "base.drift.samples.jsonl")
        assert {path.name for path in (run / "eval" / f"aside-{number}").iterdir()} == set(files)
    assert all((run / "eval" / "aside-1" / name).read_bytes() == before[name] for name in files)
    assert artifact.read_json(run / "eval" / "base.json", Evaluation).records[0].passes["1"].value == 1.0
    assert (run / "eval" / "tuned.json").read_bytes() == before["tuned.json"]
    assert "pass@1: base 1.000 (drift 0.000), tuned 0.000 (drift 0.000)" in finetune("status", run)[1]


def test_ctrl_c_after_fresh_names_the_line_that_goes_on(
    run: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that was typed would set aside what it has drawn."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "run", interrupted)
    options = ("--model", "some/tuned", "--suite", "goldens", "--greedy")
    err = finetune("evaluate", run, *options, "--fresh")[2]
    assert f"`finetune evaluate {run} --model some/tuned --suite goldens --greedy` goes on with it" in err
    assert "goes on with it" not in finetune("evaluate", run, *options)[2]


def test_changed_rows_and_edited_completions_are_noticed(run: Path, finetune: Finetune) -> None:
    """By content: the rows' file may move, and a completion may not be touched up."""
    evaluated(run, "base", finetune, lambda *_: True)
    held = run / "held.jsonl"
    held.rename(run / "moved.jsonl")
    (run / "brief.yaml").write_text((run / "brief.yaml").read_text().replace("held.jsonl", "moved.jsonl"))
    assert finetune("evaluate", run)[0] == 0
    text = (run / "moved.jsonl").read_text()
    (run / "moved.jsonl").write_text(text.replace('"201"', '"999"'))
    assert "differs in held-out rows" in finetune("evaluate", run)[2]
    (run / "moved.jsonl").write_text(text)
    samples = run / "eval" / "base.samples.jsonl"
    samples.write_text(samples.read_text().replace("it is 201", "it is 202", 1))
    assert "differs in base.samples.jsonl" in finetune("evaluate", run)[2]


def test_completions_of_something_else_are_not_gone_on_with(run: Path, finetune: Finetune) -> None:
    """A killed evaluation is continued by the same one alone."""
    path = evaluations.write_transcripts(run, "base", lambda *_: True, keep=30)
    before = path.read_bytes()
    assert "base unfinished" in finetune("status", run)[1]
    code, _, err = finetune("evaluate", run, "--name", "base", "--samples", "2", "--python", "/no/such/python")
    assert code == 2
    assert "was drawn from another sampling settings; give this one another name (--name base-2)" in err
    assert before == path.read_bytes()
    # The same evaluation goes on: it asks for an engine to draw the rest.
    assert "/no/such/python" in finetune("evaluate", run, "--python", "/no/such/python")[2]


def test_two_at_once_do_not_mix(run: Path, finetune: Finetune) -> None:
    """The second is refused while the first holds the file."""
    path = evaluations.write_transcripts(run, "base", lambda *_: True, keep=30)
    header = artifact.read_lines(path, evaluations.Sample).header
    with artifact.appending(path, header, evaluations.Sample):
        code, _, err = finetune("evaluate", run)
    assert code == 2
    assert "another `evaluate` is writing it" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--checkpoint", "last"], "no such whole checkpoint"),
        (["--checkpoint", "soon"], "'soon' is neither a step nor `last` nor `final`"),
        (["--checkpoint", "1", "--model", "m"], "name one of them"),
        (["--model", "./nowhere"], "no such folder; name a model folder or a hub id"),
        (["--greedy", "--samples", "4"], "draws the same completion every time; leave --samples out"),
        (["--name", "gate"], "gate.json is a file of the run; choose another name"),
        (["--name", "a/b"], "is not a name"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_bad_choice_is_one_line(run: Path, finetune: Finetune, options: list[str], words: str) -> None:
    """What, where, how to mend it; nothing is written."""
    code, _, err = finetune("evaluate", run, *options)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (run / "eval").exists()


def test_a_brief_without_held_out_rows_or_rewards_is_refused(run: Path, finetune: Finetune) -> None:
    """With the line that mends it."""
    text = (run / "brief.yaml").read_text()
    (run / "brief.yaml").write_text(text.replace(", evaluation: held.jsonl", ""))
    code, _, err = finetune("evaluate", run)
    assert code == 2
    assert "no `dataset.evaluation`; name a file of held-out rows" in err
    assert "evaluation: data/held-out.jsonl" in err
    (run / "brief.yaml").write_text(
        "name: s\nmethod: sft\nmodel: m\ndataset: {path: d.jsonl, completion: c, evaluation: h}\n"
    )
    assert "no `rewards` to score with" in finetune("evaluate", run)[2]


def test_checkpoints_of_the_run_are_found(run: Path) -> None:
    """The last whole one: what a kill left half saved has no trainer state."""
    loaded = brief.load(run)
    folder = run / "train" / "checkpoints"
    for step, whole in ((9, True), (10, True), (11, False)):
        made = model_folder(folder / f"checkpoint-{step}")
        if whole:
            (made / "trainer_state.json").write_text("{}")
    last = checkpoints.checkpoint(loaded, "last")
    assert (last.name, last.model, last.adapter) == ("checkpoint-10", str(folder / "checkpoint-10"), None)
    assert checkpoints.checkpoint(loaded, "9").name == "checkpoint-9"
    with pytest.raises(Refusal, match="there are 9, 10"):
        checkpoints.checkpoint(loaded, "11")
    with pytest.raises(Refusal, match="the trainer saves it when it has finished"):
        checkpoints.checkpoint(loaded, "final")
    made = model_folder(run / "train" / "model")
    assert checkpoints.checkpoint(loaded, "final") == checkpoints.named(loaded, str(made))
    assert checkpoints.checkpoint(loaded, "final").name == "final"
    assert checkpoints.named(loaded, "org/A model").name == "A-model"


def test_an_adapter_is_put_on_the_model_that_it_was_trained_on(run: Path, tmp_path: Path, capsys: Any) -> None:
    """Its own word where that can be had; where the folder was another machine's, the brief's model, and it is said."""
    loaded = brief.load(run)
    other = model_folder(tmp_path / "other")
    for base, expected in (
        ("some/model", "some/model"),
        ("hub/other", "hub/other"),
        (str(other), str(other)),
        ("/elsewhere/model", "some/model"),
    ):
        folder = adapter_folder(tmp_path / base.replace("/", "-"), base)
        found = checkpoints.named(loaded, str(folder))
        assert (found.model, found.adapter) == (expected, str(folder))
        assert ("which is not here; it is put on the brief's model, some/model" in capsys.readouterr().err) == (
            base == "/elsewhere/model"
        )


def test_every_byte_of_the_weights_tells_models_apart(run: Path, tmp_path: Path) -> None:
    """Two checkpoints of one run have the same names and sizes; a copy elsewhere is the same model."""
    loaded = brief.load(run)
    first, second = model_folder(tmp_path / "a"), model_folder(tmp_path / "b", b"Weights")
    shutil.copytree(first, tmp_path / "c")
    digests = [checkpoints.digest(loaded, checkpoints.named(loaded, str(tmp_path / name))) for name in "abc"]
    assert digests[0] == digests[2] != digests[1]
    adapter = adapter_folder(tmp_path / "adapter", str(first))
    own = checkpoints.digest(loaded, checkpoints.named(loaded, str(adapter)))
    (first / "model.safetensors").write_bytes(second.joinpath("model.safetensors").read_bytes())
    assert own not in (digests[0], checkpoints.digest(loaded, checkpoints.named(loaded, str(adapter))))


def test_a_server_is_asked_for_the_model_that_is_named(run: Path) -> None:
    """It serves what it was started with; a checkpoint has to be served first."""
    text = (run / "brief.yaml").read_text()
    url = "engine: endpoint, endpoint: {url: 'http://127.0.0.1:1/v1', model: served}, "
    (run / "brief.yaml").write_text(text.replace(SETTINGS, url + SETTINGS))
    loaded = brief.load(run)
    assert checkpoints.base_model(loaded).model == "served"
    tuned = checkpoints.named(loaded, "tuned")
    assert (tuned.model, tuned.adapter) == ("tuned", None)
    assert checkpoints.digest(loaded, tuned) != checkpoints.digest(loaded, checkpoints.base_model(loaded))
    with pytest.raises(Refusal, match="serve the checkpoint there"):
        checkpoints.checkpoint(loaded, "last")


@pytest.mark.parametrize(
    ("name", "why"),
    [("x" * 151, "151 bytes"), ("a" + "é" * 76, "153 bytes"), ("a.json", "would read it as the path of a file")],
    ids=["long", "long in bytes", "a file"],
)
def test_a_name_that_no_file_or_comparison_could_have_is_refused(
    run: Path, finetune: Finetune, name: str, why: str
) -> None:
    """Before anything is read or drawn; the longest one that is allowed fits with all that is put behind it."""
    code, _, err = finetune("evaluate", run, "--model", "some/tuned", "--name", name)
    assert code == 2
    assert why in err
    evaluated(run, "x" * 150, finetune, lambda *_: True, "--model", "some/tuned")
