"""The calibration record: its numbers follow from its counts, and without a good one of its own no judge is built."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engines.endpoint_stub import StubServer
from judge_records import MODEL, RUBRIC, Measured, chat, files, material, record, verdict
from llm_finetuning.rewards.judges.calibration import (
    CalibrationRecord,
    Counts,
    attack_from_counts,
    attack_lift,
    rates_of,
)
from llm_finetuning.rewards.rubric_judge import RubricJudge, UnmeasuredJudge
from runs import write_run, write_samples


def build(folder: Path, measured: Measured | None = None, **options: Any) -> RubricJudge:
    return RubricJudge(**{"url": "http://127.0.0.1:1/v1", "model": MODEL, **files(folder, measured), **options})


def refusal(folder: Path, measured: Measured | None = None, **options: Any) -> str:
    with pytest.raises(ValueError, match=r".") as refused:
        build(folder, measured, **options)
    (line,) = str(refused.value).splitlines()
    return line


def test_a_good_judge_is_built_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building asks no server, and the record does not name one."""
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setattr(socket, "create_connection", None)

    assert "rubric_judge" == build(tmp_path).__name__
    assert "127.0.0.1" not in (tmp_path / "calibration.json").read_text("utf-8")
    build(tmp_path, Measured(with_reference=True), answer_column="answer")
    build(tmp_path, Measured(counts=(20, 0, 46, 4)))  # just above each floor
    build(tmp_path, Measured(counts=(34, 6, 20, 0), abstained=3))


LINES = {
    "rubric": (Measured(rubric=RUBRIC + " "), "made with another rubric ("),
    "model": (Measured(model="judge-2025-12-01"), "another model ('judge-2025-12-01', here 'judge-2026-01-15')"),
    "prompt": (Measured(prompt_sha256="0" * 64), "made with another prompt, or with the reference shown or not (0000"),
    "reference shown": (Measured(with_reference=True), "made with another prompt, or with the reference shown or not"),
    "seed": (Measured(seed=1), "made with another seed (1, here 0)"),
    "max_tokens": (Measured(max_tokens=512), "made with another max_tokens (512, here 1024)"),
    "few labels": (Measured(counts=(20, 0, 29, 0)), "49 judged test items, 50 are needed"),
    "few passed": (Measured(counts=(19, 0, 60, 0)), "19 test items that people passed, 20 are needed"),
    "few failed": (Measured(counts=(60, 0, 19, 0)), "19 test items that people failed, 20 are needed"),
    "no failed": (Measured(counts=(60, 0, 0, 0)), "0 test items that people failed, 20 are needed"),
    "misses right work": (
        Measured(counts=(33, 7, 40, 0)),
        "true-positive rate 33 of 40 (95% interval 0.68 to 0.91), its lower bound must reach 0.70",
    ),
    "passes wrong work": (
        Measured(counts=(40, 0, 36, 4)),
        "true-negative rate 36 of 40 (95% interval 0.77 to 0.96), its lower bound must reach 0.80",
    ),
    "abstains": (Measured(abstained=5), "no verdict on 5 of 85 test items, over 5%"),
    "no attacks": (Measured(without_attacks=("verdict_words",)), "attack verdict_words: 0 trials, 10 are needed"),
    "few trials": (Measured(attacks={"empty": (9, 0)}), "attack empty: 9 trials, 10 are needed"),
    "override text": (
        Measured(attacks={"override_text": (10, 8, 10, 0)}),
        "attack override_text passes 8 of 10 against 0 of 10 without it",
    ),
    "no control": (Measured(attacks={"override_text": (20, 1)}), "attack override_text passes 1 of 20"),
    "master key": (Measured(attacks={"one_token": (20, 1)}), "attack one_token passes 1 of 20"),
    "master key with a control": (Measured(attacks={"one_token": (20, 1, 20, 1)}), "attack one_token passes 1 of 20"),
}


@pytest.mark.parametrize(("measured", "words"), LINES.values(), ids=LINES)
def test_a_record_of_another_or_a_bad_judge_is_refused(tmp_path: Path, measured: Measured, words: str) -> None:
    """One line says what does not fit or suffice, and where a record comes from."""
    line = refusal(tmp_path, measured)

    assert line.startswith(f"calibration: {tmp_path / 'calibration.json'}: ")
    assert words in line
    assert "`finetune calibrate RUN`, against labels by people; see references/rubric-judge.md" in line


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    """Mending one fault does not uncover the next."""
    line = refusal(tmp_path, Measured(model="other", rubric="other", seed=3, counts=(5, 5, 5, 5)))

    for words in ("another model", "another rubric", "another seed", "20 judged", "true-positive", "true-negative"):
        assert words in line


def test_one_pass_of_an_attack_beside_its_control_is_within_chance(tmp_path: Path) -> None:
    """1 of 20 against 0 of 20 shows no lift; 6 of 20 does."""
    build(tmp_path, Measured(attacks={"override_text": (20, 1, 20, 0)}))
    assert "passes 6 of 20" in refusal(tmp_path, Measured(attacks={"override_text": (20, 6, 20, 0)}))


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    """Not given, not there, a folder: each is said."""
    assert "calibration: not given" in refusal(tmp_path, calibration=None)
    for name, words in (("absent.json", "No such file"), (".", "Is a directory")):
        line = refusal(tmp_path, calibration=str(tmp_path / name))
        assert words in line
        assert "labels by people" in line


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    paths = files(folder)
    body = json.loads(Path(paths["calibration"]).read_text("utf-8"))
    change(body)
    Path(paths["calibration"]).write_text(json.dumps(body), "utf-8")
    with pytest.raises(ValueError, match=r".") as refused:
        RubricJudge(url="http://127.0.0.1:1/v1", model=MODEL, **paths)
    (line,) = str(refused.value).splitlines()
    return line


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "counts": (lambda body: body["test"].update(true_negatives=40, false_positives=0), "rates do not follow"),
    "split": (lambda body: body["labelling"].update(test=81), "labelling.test is not the sum"),
    "bound": (lambda body: body["rates"]["true_negative_rate"].update(low=0.95), "rates do not follow"),
    "kappa": (lambda body: body["rates"].update(kappa=0.99), "rates do not follow"),
    "attack": (lambda body: body["attacks"][0].update(passes=1), "attacks.0: the interval does not follow"),
    "attack bound": (lambda body: body["attacks"][0].update(lift_low=-1.0), "attacks.0: the interval does not follow"),
    "more passes": (lambda body: body["attacks"][0].update(passes=21), "attacks.0: more passes than trials"),
    "attack twice": (lambda body: body["attacks"].append(body["attacks"][0]), "two have one name"),
    "nobody": (lambda body: body["labelling"].update(people=[]), "labelling.people: "),
    "negative": (lambda body: body["test"].update(abstained=-1), "test.abstained: "),
    "text count": (lambda body: body["test"].update(true_positives="38"), "test.true_positives: "),
    "true count": (lambda body: body["test"].update(abstained=False), "test.abstained: "),
    "another schema": (lambda body: body.update(schema="x"), "schema: "),
    "another version": (lambda body: body.update(version=2), "version: "),
    "a further field": (lambda body: body.update(override="yes"), "override: "),
    "no attacks": (lambda body: body.pop("attacks"), "attacks: "),
}


@pytest.mark.parametrize(("change", "words"), EDITS.values(), ids=EDITS)
def test_an_edited_record_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """Numbers that do not follow from the counts, and fields of another shape, are named."""
    assert words in edited(tmp_path, change)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON (empty)"),
        ("{", "not JSON (not_json)"),
        ('{"version": 1, "version": 1}', "not JSON (duplicate_key)"),
        ('{"version": NaN}', "not JSON (not_finite)"),
        ("[]", "valid dictionary"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: Any, words: str) -> None:
    """One line, whatever is in it."""
    path = tmp_path / "other.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert words in refusal(tmp_path, calibration=str(path))


OPTIONS: list[tuple[str, Any, str]] = [
    ("model", "judge-latest", "alias that moves (latest)"),
    ("model", "judge:latest", "alias that moves (latest)"),
    ("model", "org/auto", "names no model"),
    ("model", "", "names no model"),
    ("model", 5, "names no model"),
    ("url", "127.0.0.1:8000", "is no address"),
    ("url", "http://[::1", "is no address"),
    ("url", None, "is no address"),
    ("concurrency", 0, "concurrency: 0 is not a whole number from 1 to 256"),
    ("concurrency", "16", "concurrency: '16' is not a whole number"),
    ("retries", True, "retries: True"),
    ("retries", 21, "retries: 21"),
    ("timeout_s", 0, "timeout_s: 0 "),
    ("timeout_s", float("nan"), "timeout_s: nan "),
    ("batch_timeout_s", float("inf"), "batch_timeout_s: inf "),
    ("max_tokens", 15, "max_tokens: 15 "),
    ("min_characters", 0, "min_characters: 0 "),
    ("answer_column", "", "answer_column: '' is not the name"),
    ("api_key_env", "NO_SUCH_KEY", "environment variable NO_SUCH_KEY holds no key"),
    ("rubric_file", "/nowhere/rubric.md", "rubric_file: /nowhere/rubric.md: No such file"),
]


@pytest.mark.parametrize(("option", "value", "words"), OPTIONS)
def test_a_wrong_option_is_refused(tmp_path: Path, option: str, value: Any, words: str) -> None:
    """The line names the option and what it may be."""
    assert words in refusal(tmp_path, **{option: value})


def test_a_judge_that_is_only_looked_at_pays_nothing(tmp_path: Path) -> None:
    """It is built without a record, says why it may not pay, and raises where somebody wants it to."""
    given = files(tmp_path, Measured(rubric="Another."))
    judge = UnmeasuredJudge(url="http://127.0.0.1:1/v1", model=MODEL, **given)
    assert "another rubric" in str(judge.fault())
    with pytest.raises(TypeError, match="pays nothing"):
        asyncio.run(judge(prompts=["p"], completions=["c"]))

    files(tmp_path)
    assert UnmeasuredJudge(url="http://127.0.0.1:1/v1", model=MODEL, **given).fault() is None


def test_a_rubric_of_nothing_is_refused(tmp_path: Path) -> None:
    """Blank, and not text."""
    for name, data, words in (("a.md", b" \n", "empty"), ("b.md", b"\xff\xfe", "not UTF-8")):
        (tmp_path / name).write_bytes(data)
        assert words in refusal(tmp_path, rubric_file=str(tmp_path / name))


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "gpt-4o-2024-08-06", "currently-8b", "stable-code-3b"])
def test_a_snapshot_is_taken(tmp_path: Path, model: str) -> None:
    """A name that holds the letters of an alias is none."""
    build(tmp_path, Measured(model=model), model=model)


def test_statistics_equal_published_ones() -> None:
    """The examples of Newcombe 1998 (Statistics in Medicine 17:857 and 17:873); kappa as worked out by hand."""
    assert attack_lift(263, 81, 0, 0) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert attack_lift(70, 56, 80, 48) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    counts = Counts(true_positives=20, false_negatives=10, true_negatives=15, false_positives=5)
    assert rates_of(counts).kappa == pytest.approx(0.4)


@given(st.lists(st.integers(0, 400), min_size=4, max_size=4), st.lists(st.integers(0, 60), min_size=4, max_size=4))
def test_a_record_made_from_counts_reads_back(counts: list[int], trials: list[int]) -> None:
    """Whatever the counts, the record is consistent, survives its file, and its interval holds the share."""
    made = record(Measured(counts=tuple(counts)))

    assert made == CalibrationRecord.model_validate_json(made.to_json())
    share = made.rates.true_negative_rate
    assert 0 <= share.low <= (share.hits / share.n if share.n else share.low) <= share.high <= 1
    n, control = 60 + trials[0], 60 + trials[1]
    low, high = attack_lift(n, trials[2], control, trials[3])
    assert low <= trials[2] / n - trials[3] / control <= high
    with pytest.raises(ValidationError):
        attack_from_counts("override_text", trials=n, passes=n + 1)


BRIEF = """\
name: sums
method: grpo
model: some/model
dataset: {{path: data.jsonl, prompt: prompt, answer: answer, id: id}}
rewards:
  - use: rubric_judge
    name: says_why
    options:
      url: {url}
      model: {model}
      rubric_file: rubric.md
      calibration: calibration.json
      answer_column: answer
      retries: 0
sampling: {{num_generations: 4, prompts: 3, max_completion_length: 16}}
"""


@pytest.fixture
def grading() -> Iterator[StubServer]:
    """A judge that passes a response in which the reference stands after `is`."""

    def answer(_route: str, body: dict[str, Any], _count: int) -> tuple[int, dict[str, str], Any]:
        shown, _, _ = material(body)
        right = f"is {shown['reference']}." in shown["response"]
        return 200, {}, chat(verdict("pass" if right else "fail", "Read."))

    server = StubServer(answer)
    yield server
    server.close()


def test_score_with_a_judge(tmp_path: Path, grading: StubServer, finetune: Callable[..., tuple[int, str, str]]) -> None:
    """`score` awaits the judge, keeps its words, shows a dead server as abstentions, and refuses without the record."""
    run_dir = write_run(tmp_path / "run", text=BRIEF.format(url=grading.url, model=MODEL), rows=3)
    files(run_dir, Measured(with_reference=True))
    write_samples(run_dir, rows=3)

    def scores() -> list[dict[str, Any]]:
        lines = (run_dir / "scores.jsonl").read_text("utf-8").splitlines()[1:]
        return [json.loads(line) for line in lines]

    code, _, err = finetune("score", run_dir)
    assert code == 0, err
    values = [score["values"][0] for score in scores()]
    assert {1.0, 0.0} == {value["value"] for value in values}
    assert {"pass", "fail"} == {value["reason"] for value in values}
    assert {"Read."} == {score["extras"]["says_why_words"] for score in scores()}
    assert {None} == {value["fault"] for value in values}

    grading.close()
    code, out, err = finetune("score", run_dir)
    assert code == 0, err
    assert {(None, "judge_unreachable")} == {(s["values"][0]["value"], s["values"][0]["reason"]) for s in scores()}
    assert "judge_unreachable" in out + err or "abstain" in out + err

    (run_dir / "rubric.md").write_text("Another rubric.", "utf-8")
    code, _, err = finetune("score", run_dir)
    assert code == 2
    (line,) = [line for line in err.splitlines() if "another rubric" in line]
    assert "rewards[0]: options of `rubric_judge`: calibration: " in line
