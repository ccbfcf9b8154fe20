"""`finetune evaluate --results`, and `finetune export`: other programs' results in, ours out."""

import json
from collections.abc import Callable
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
