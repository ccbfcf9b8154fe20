"""`finetune evaluate --results`, and `finetune export`: other programs' results in, ours out."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import evaluations
from llm_finetuning import artifact, pipeline
from llm_finetuning.types import Evaluation

FIXTURES = Path(__file__).parent / "fixtures"
TEXT = FIXTURES / "samples_mysums_2026-11-30T07-01-58.083394.jsonl"


Finetune = Callable[..., tuple[int, str, str]]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with held-out rows of its own."""
    return evaluations.write_run(tmp_path / "run")


@pytest.fixture
def taken(run_dir: Path, finetune: Finetune) -> Call:
    """`finetune evaluate --results`: exit code, standard output, standard error."""
    return lambda results, *more: finetune("evaluate", run_dir, "--results", str(results), *more)


def test_a_log_becomes_an_evaluation_with_its_completions(run_dir: Path, taken: Call) -> None:
    """Items, grades, lengths and cuts are those of the log; the completions stand beside it."""
    code, out, _ = taken(FIXTURES / "sums.eval", "--name", "theirs", "--metric", "match", "--json")

    assert code == 0
    facts = json.loads(out)
    assert facts["passes"]["1"]["value"] == 0.75
    assert facts["cut"]["value"] == 0.125
    assert facts["graders"] == ["match"]
    path = run_dir / "eval" / "theirs.json"
    found = artifact.read_json(path, Evaluation)
    assert found.header.parents["theirs.samples.jsonl"] == artifact.digest_file(pipeline.transcripts_of(path))


def test_what_the_harness_does_not_say_is_not_made_up(run_dir: Path, taken: Call) -> None:
    """Without lengths there are none, no share of cuts, and no transcripts that would need them."""
    _, out, _ = taken(TEXT, "--name", "theirs", "--metric", "exact_match,strict", "--json")
    facts = json.loads(out)

    assert (facts["tokens"], facts["cut"]) == (None, None)
    assert facts["passes"]["1"]["value"] == 0.5
    assert sorted(path.name for path in (run_dir / "eval").iterdir()) == ["theirs.json"]


def test_two_imports_of_one_metric_are_compared(run_dir: Path, taken: Call, finetune: Finetune) -> None:
    """The same items under the same metric compare; another metric is another measure."""
    for name, metric in (("a", "exact_match,strict"), ("b", "exact_match,strict"), ("c", "exact_match,loose")):
        taken(TEXT, "--name", name, "--metric", metric)

    assert finetune("compare", run_dir, "a", "b")[0] == 3
    code, _, err = finetune("compare", run_dir, "a", "c")
    assert code == 2
    assert "differs in metric" in err


SCRIPTS = Path(artifact.__file__).parents[1]

HOLDING = """
import sys
from pathlib import Path
sys.path[0] = sys.argv[1]
from llm_finetuning.evaluating import turn
with turn.turn(Path(sys.argv[2]), needed=True):
    print("held", flush=True)
    sys.stdin.read()
"""
"""Holds the turn at an evaluation, as one that is measured does, until its input ends."""

WAITING = """
import sys
sys.path[0] = sys.argv.pop(1)
from llm_finetuning import artifact, brief, checkpoints, cli
from llm_finetuning.commands import evaluate
from llm_finetuning.evaluating import imported
print("ready", flush=True)
sys.stdin.read()
sys.exit(cli.main())
"""
"""The command line with its slow imports done, which begins when its input ends."""


def process(program: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a program, and return when it has said a word."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, str(SCRIPTS), *map(str, arguments)]
    started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert started.stdout is not None
    assert started.stdout.readline()
    return started


def ends(started: Sequence["subprocess.Popen[str]"]) -> list[tuple[int, str]]:
    """Let programs go on, all at once, and return the exit code and the errors of each."""
    for one in started:
        assert one.stdin is not None
        one.stdin.close()
        one.stdin = None
    return [(one.wait(), err) for one in started for _, err in [one.communicate(timeout=60)]]


def test_an_import_waits_for_no_other_of_its_name(run_dir: Path) -> None:
    """While another process makes the evaluation it is refused and writes nothing; afterwards it is taken."""
    arguments = ["evaluate", run_dir, "--results", FIXTURES / "sums.eval", "--metric", "match", "--name"]
    holder = process(HOLDING, run_dir / "eval" / "theirs.json")
    try:
        (refused, said), (other, _) = ends([process(WAITING, *arguments, name) for name in ("theirs", "others")])
        assert (refused, other) == (2, 0)
        assert "theirs.json: another `evaluate` is making it; wait for it, or give this one another --name" in said
        assert not list((run_dir / "eval").glob("theirs*"))
    finally:
        assert ends([holder]) == [(0, "")]
    assert ends([process(WAITING, *arguments, "theirs")])[0][0] == 0


def test_of_many_imports_of_one_name_one_is_taken(run_dir: Path) -> None:
    """Processes that begin together make one evaluation, whose completions are its own."""
    started = [
        process(WAITING, "evaluate", run_dir, "--results", FIXTURES / log, "--metric", "match", "--name", "theirs")
        for log in ("sums.eval", "sums.json") * 3
    ]
    found = ends(started)
    assert sorted(code for code, _ in found) == [0, 2, 2, 2, 2, 2]
    assert all("is making it" in said or "is there already" in said for code, said in found if code)
    made = artifact.read_json(run_dir / "eval" / "theirs.json", Evaluation)
    assert made.header.parents["theirs.samples.jsonl"] == artifact.digest_file(pipeline.transcripts_of(made.path))
    assert sorted(path.name for path in (run_dir / "eval").iterdir()) == ["theirs.json", "theirs.samples.jsonl"]


@pytest.mark.parametrize(
    ("results", "more", "words"),
    [
        ("sums.json", ("--metric", "match"), "--name NAME"),
        ("sums.json", ("--metric", "match", "--name", "base"), "the brief's own model"),
        ("sums.json", ("--metric", "match", "--name", "x", "--greedy"), "--greedy: with --results"),
        ("sums.json", ("--metric", "match", "--name", "x", "--task", "sums"), "holds one task"),
        ("sums.json", ("--metric", "two/length", "--name", "x"), "--success VALUE"),
        ("sums.json", ("--metric", "two/length", "--name", "x", "--success", "40"), "the highest is"),
        ("README.md", ("--name", "x"), "neither a log"),
        ("absent.json", ("--name", "x"), "no such file"),
    ],
)
def test_what_cannot_be_taken_is_one_line(
    run_dir: Path, taken: Call, results: str, more: tuple[str, ...], words: str
) -> None:
    """Each refusal says what, and nothing is written."""
    code, _, err = taken(FIXTURES / results, *more)

    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (run_dir / "eval").exists()


def test_an_import_is_never_written_over(run_dir: Path, taken: Call) -> None:
    """The second of one name is refused and the first stays."""
    arguments = ("--name", "theirs", "--metric", "match")
    taken(FIXTURES / "sums.json", *arguments)
    before = (run_dir / "eval" / "theirs.json").read_bytes()

    assert "never overwritten" in taken(FIXTURES / "sums.eval", *arguments)[2]
    assert (run_dir / "eval" / "theirs.json").read_bytes() == before


def test_a_metric_of_many_values_has_its_threshold(taken: Call) -> None:
    """`--success` decides which values are a success."""
    _, out, _ = taken(FIXTURES / "sums.json", "--metric", "two/length", "--name", "x", "--success", "9", "--json")

    assert json.loads(out)["passes"]["1"]["value"] == 1.0


@pytest.fixture
def exported(run_dir: Path, taken: Call, finetune: Finetune, tmp_path: Path) -> Path:
    """The imported log, exported as a log."""
    taken(FIXTURES / "sums.eval", "--name", "theirs", "--metric", "match")
    file = tmp_path / "2026-11-30T00-00-00_sums_1.json"
    assert finetune("export", run_dir, "theirs", str(file))[0] == 0
    return file


def test_what_is_exported_for_inspect_says_the_same_again(run_dir: Path, taken: Call, exported: Path) -> None:
    """Read back, the log holds the items, completions and grades that went in."""
    log = json.loads(exported.read_text("utf-8"))
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 0.75

    code, _, err = taken(exported, "--name", "again", "--metric", "success")
    assert code == 0, err
    theirs, again = (
        artifact.read_json(run_dir / "eval" / f"{name}.json", Evaluation).records[0].items
        for name in ("theirs", "again")
    )
    for before, after in zip(theirs, again, strict=True):
        assert (before.prompt_id, before.grades) == (after.prompt_id, after.grades)
        assert (before.tokens, before.finish_reasons) == (after.tokens, after.finish_reasons)


def test_the_programs_own_library_reads_what_is_exported(exported: Path) -> None:
    """inspect-ai takes the log for one of its own."""
    log = pytest.importorskip("inspect_ai.log", reason="needs the package inspect-ai, which nothing else here does")
    found = log.read_eval_log(str(exported))

    assert found.status == "success"
    assert len(found.samples) == 8


@pytest.mark.parametrize(("file", "words"), [("out.txt", "the ending decides"), ("there.json", "is not overwritten")])
def test_where_it_is_exported_to_is_looked_at(
    run_dir: Path, taken: Call, finetune: Finetune, tmp_path: Path, file: str, words: str
) -> None:
    """An unknown form and a file that is there are refused."""
    taken(FIXTURES / "sums.eval", "--name", "theirs", "--metric", "match")
    (tmp_path / "there.json").write_text("mine", "utf-8")
    code, _, err = finetune("export", run_dir, "theirs", str(tmp_path / file))

    assert code == 2
    assert words in err
    assert (tmp_path / "there.json").read_text("utf-8") == "mine"


def test_without_its_completions_nothing_is_exported(
    run_dir: Path, taken: Call, finetune: Finetune, tmp_path: Path
) -> None:
    """Completions that are not there, or were changed, do not go out under the evaluation's name."""
    taken(FIXTURES / "sums.eval", "--name", "theirs", "--metric", "match")
    kept = run_dir / "eval" / "theirs.samples.jsonl"
    kept.write_text(kept.read_text("utf-8").replace("Answer: 9", "Answer: 6"), "utf-8")

    assert "changed since" in finetune("export", run_dir, "theirs", str(tmp_path / "a.json"))[2]
    kept.unlink()
    assert "are not there" in finetune("export", run_dir, "theirs", str(tmp_path / "a.json"))[2]


LOG = FIXTURES / "sums.json"


@pytest.mark.parametrize(
    ("key", "value"),
    [("resps", 5), ("arguments", 5), ("arguments", {"gen_args_x": {}}), ("exact_match", 10**400)],
    ids=["responses", "arguments", "argument names", "an endless number"],
)
def test_odd_samples_are_the_file_s_fault(key: str, value: object, taken: Call, tmp_path: Path) -> None:
    """One line with the file and what is odd, and no talk of a defect; a number beyond all numbers is not graded."""
    lines = [json.loads(line) for line in TEXT.read_text("utf-8").splitlines()]
    lines[0][key] = value
    odd = tmp_path / TEXT.name
    odd.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    code, out, err = taken(odd, "--metric", "exact_match,strict", "--name", "odd")
    if key == "exact_match":
        assert code == 0, err
        assert "note: 1 of 6 items have no `exact_match`" in out
    else:
        assert code == 2
        assert f"{odd}: holds something else than its program writes there" in err


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("samples",), 5),
        (("samples", 0, "scores"), 5),
        (("samples", 0, "output"), {"choices": [5]}),
        (("eval", "dataset"), 5),
        (("plan", "config"), 5),
    ],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else "odd",
)
def test_an_odd_log_is_the_file_s_fault(place: tuple[str, ...], value: object, taken: Call, tmp_path: Path) -> None:
    """The same for a log, wherever the odd value stands."""
    log = json.loads(LOG.read_text("utf-8"))
    part = log
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(log), "utf-8")
    code, _, err = taken(odd, "--metric", "match", "--name", "odd")
    assert code == 2
    assert f"{odd}: holds something else than its program writes there" in err


def test_a_folder_that_is_named_as_a_log_is_refused(taken: Call, tmp_path: Path) -> None:
    """One line, as for a file that may not be read."""
    (tmp_path / "run.eval").mkdir()
    code, _, err = taken(tmp_path / "run.eval", "--name", "theirs")
    assert (code, "is a directory; check the path" in err) == (2, True)


def test_a_temperature_in_words_is_kept_as_words(taken: Call, tmp_path: Path, run_dir: Path) -> None:
    """In the settings; the completions say 0, as where none is told."""
    log = json.loads(LOG.read_text("utf-8"))
    log["plan"]["config"] = {"temperature": "hot"}
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(log), "utf-8")
    assert taken(odd, "--metric", "match", "--name", "odd")[0] == 0
    found = artifact.read_json(run_dir / "eval" / "odd.json", Evaluation)
    assert found.header.settings["temperature"] == "hot"


def test_an_item_without_the_metric_is_an_item_without_a_grade(taken: Call, tmp_path: Path) -> None:
    """Left out it would raise the rate unseen: of six items one is not graded, and that is told."""
    lines = [json.loads(line) for line in TEXT.read_text("utf-8").splitlines()]
    del lines[0]["exact_match"]
    file = tmp_path / TEXT.name
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    code, out, err = taken(file, "--metric", "exact_match,strict", "--name", "theirs", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["items"] == 6
    assert "1 of 6 items have no `exact_match`: they count neither as success nor as failure" in facts["notes"]


@pytest.mark.parametrize("success", ["nan", "-inf"])
def test_a_success_that_is_no_number_is_refused(success: str, taken: Call) -> None:
    """Nothing is a success from there on, or everything."""
    code, _, err = taken(TEXT, "--metric", "exact_match,strict", "--name", "theirs", "--success", success)
    assert (code, f"--success {success}: is no value" in err) == (2, True)


@pytest.mark.parametrize("place", ["eval/log.json", "promotion.json", "train/build.json"])
def test_an_export_never_stands_where_an_artifact_does(run_dir: Path, finetune: Finetune, place: str) -> None:
    """It would be taken for an evaluation, or for another artifact, and be called broken."""
    evaluations.write_transcripts(run_dir, "base", lambda *_: True)
    assert finetune("evaluate", run_dir)[0] == 0
    code, _, err = finetune("export", run_dir, "base", run_dir / place)
    assert (code, "is the place of an artifact of this run" in err) == (2, True)
    assert not (run_dir / place).exists()
    assert finetune("export", run_dir, "base", run_dir / "log.json")[0] == 0
