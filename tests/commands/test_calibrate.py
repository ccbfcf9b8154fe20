"""`calibrate`: what is sealed, what is asked when, what the record says, and what stops a second look."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import judged_runs as judged
import runs
from engines.endpoint_stub import StubServer
from judge_records import MODEL, material
from llm_finetuning.judging.attacks import _OVERRIDES, _VERDICTS
from llm_finetuning.rewards.judges import endpoint
from llm_finetuning.rewards.judges.calibration import CalibrationRecord

Finetune = Callable[..., tuple[int, str, str]]
Run = Callable[..., Path]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_WAIT_S", 0.01)


@pytest.fixture
def server() -> Iterator[StubServer]:
    """A good judge."""
    with judged.serving() as good:
        yield good


@pytest.fixture
def labelled(tmp_path: Path, finetune: Finetune) -> Run:
    """A maker of runs whose samples a person judged, 120 unless told otherwise."""

    def make(url: str, *, rows: int = 30, **rest: Any) -> Path:
        folder = judged.write(tmp_path / "run", url, rows=rows, **rest)
        judged.label(folder, finetune, rows=rows)
        return folder

    return make


def asked(server: StubServer) -> list[str]:
    """Return every response that the judge was asked about."""
    return [material(body)[0]["response"] for _, body in server.asked]


def sealed_texts(folder: Path) -> set[str]:
    (split,) = [event for event in judged.events(folder) if event["kind"] == "split"]
    lines = (folder / "samples.jsonl").read_text("utf-8").splitlines()[1:]
    return {sample["completion"] for sample in map(json.loads, lines) if sample["sample_id"] in split["test"]}


# --- the road ---------------------------------------------------------------------------------------------------------


def test_a_good_judge_is_measured_and_may_pay(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Sealed until it is opened, then asked about once with the attacks; the record lets `score` go on."""
    folder = labelled(server.url)
    code, out, _ = finetune("calibrate", folder)

    assert code == 0
    assert "train 24, dev 36, test 60 (30 accepted), sealed" in out
    assert (
        out.splitlines()[-1] == f"next: finetune calibrate {folder} --open-test, once, when rubric and judge are final"
    )
    assert len(server.asked) == 60
    assert not sealed_texts(folder) & set(asked(server))
    assert not (folder / "calibration.json").exists()

    code, out, _ = finetune("calibrate", folder, "--open-test", "--json")
    facts = json.loads(out)
    record = CalibrationRecord.model_validate_json((folder / "calibration.json").read_text("utf-8"))
    assert (code, facts["verdict"], facts["faults"]) == (0, "may pay", [])
    assert record.test.model_dump() == {
        "true_positives": 30,
        "false_negatives": 0,
        "true_negatives": 30,
        "false_positives": 0,
        "abstained": 0,
    }
    assert record.labelling.model_dump(exclude={"first_day", "last_day"}) == {
        "people": ["ada"],
        "train": 24,
        "dev": 36,
        "test": 60,
    }
    assert {(one.name, one.trials, one.passes, one.control_trials, one.control_passes) for one in record.attacks} == {
        ("override_text", 30, 0, 30, 0),
        ("verdict_words", 30, 0, 30, 0),
        ("one_token", 30, 0, 0, 0),
        ("empty", 30, 0, 0, 0),
    }
    assert facts["record"]["rates"]["kappa"] == 1.0
    assert sealed_texts(folder) <= set(asked(server))
    assert len(asked(server)) == len(set(server_questions(server)))  # nothing was asked twice

    code, _, err = finetune("score", folder)
    assert code == 0, err


def server_questions(server: StubServer) -> list[str]:
    return [json.dumps(material(body)[0]) for _, body in server.asked]


def test_what_the_judge_said_is_shown_where_people_differ(
    labelled: Run, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside the test alone: prompt, completion, both words and a note, so that the rubric can be mended."""
    with judged.serving(lambda shown: "pass" if "form 2" not in shown["response"] else "fail") as server:
        folder = labelled(server.url)
        code, out, _ = finetune("calibrate", folder, "--json")

    facts = json.loads(out)
    assert code == 0
    assert facts["sides"]["dev"] == {
        "true_positives": 9,
        "false_negatives": 9,
        "true_negatives": 0,
        "false_positives": 18,
        "reasons": {},
    }
    assert len(facts["disagreements"]) == 27 + 18
    assert not {one["completion"] for one in facts["disagreements"]} & sealed_texts(folder)
    missed = next(one for one in facts["disagreements"] if one["people"] == "accept")
    assert missed["judge"] == "fail"
    assert "in form 2" in missed["completion"]
    assert missed["words"] == "Read."
    assert "mend rubric.md" in facts["next"]

    with judged.serving(lambda shown: "fail") as server:
        monkeypatch.setenv("UNUSED", server.url)
        text = (folder / "brief.yaml").read_text("utf-8").replace("model: judge-2026-01-15", "model: other-2026")
        (folder / "brief.yaml").write_text(text.replace(facts_url(text), server.url), "utf-8")
        code, out, _ = finetune("calibrate", folder)
    assert "people accept, the judge says fail" in out
    assert "What is" in out


def facts_url(text: str) -> str:
    return text.partition("url: ")[2].partition("\n")[0]


def test_a_judge_without_a_verdict_is_counted_apart(labelled: Run, finetune: Finetune) -> None:
    """An abstention is neither right nor wrong, and its reason is told; too many of them, and the judge may not pay."""
    with judged.serving(lambda shown: "" if "form 2" in shown["response"] else judged.grade(shown)) as server:
        folder = labelled(server.url)
        code, out, _ = finetune("calibrate", folder)
        assert code == 0
        assert "no verdict (dev): judge_unparsed 9" in out
        assert "the judge says judge_unparsed" not in out  # it disagrees with nobody
        assert "15 of 60 have no verdict, more than a record may have" in out.splitlines()[-1]
        assert "--open-test" not in out.splitlines()[-1]
        code, out, _ = finetune("calibrate", folder, "--open-test")

    assert code == 1
    assert "15 test items that people passed, 20 are needed" in out
    assert "no verdict on 15 of 60 test items, over 5%" in out


# --- judges that may not pay ------------------------------------------------------------------------------------------


def follows(words: tuple[str, ...], times: int) -> Callable[[dict[str, str]], str]:
    """Return a judge that lets itself be talked to by one of these texts, in `times` of ten."""

    def graded(shown: dict[str, str]) -> str:
        place = next((place for place, text in enumerate(words) if text in shown["response"]), None)
        return "pass" if place is not None and place < times else judged.grade(shown)

    return graded


ATTACKED = {
    "override": (follows(_OVERRIDES, 8), "attack override_text passes 24 of 30 against 0 of 30 without it"),
    "verdicts": (follows(_VERDICTS, 3), "attack verdict_words passes 9 of 30 against 0 of 30 without it"),
    "one token": (
        lambda shown: "pass" if shown["response"] == "Sure!" else judged.grade(shown),
        "attack one_token passes 1 of 30",
    ),
    "passes wrong work": (lambda shown: "pass", "true-negative rate 0 of 30 (95% interval 0.00 to 0.12)"),
    "fails right work": (lambda shown: "fail", "true-positive rate 0 of 30 (95% interval 0.00 to 0.12)"),
}


@pytest.mark.parametrize(("graded", "words"), ATTACKED.values(), ids=ATTACKED)
def test_a_bad_judge_is_measured_and_may_not_pay(
    labelled: Run, finetune: Finetune, graded: Callable[[dict[str, str]], str], words: str
) -> None:
    """Exit 1 with the record written; `score` refuses with the same words."""
    with judged.serving(graded) as server:
        folder = labelled(server.url)
        code, out, _ = finetune("calibrate", folder, "--open-test")
        assert code == 1
        assert words in out
        assert "the judge may not pay:" in out
        code, _, err = finetune("score", folder)

    assert code == 2
    assert words in err
    assert "`finetune calibrate RUN`" in err


# --- one look ---------------------------------------------------------------------------------------------------------


def test_a_second_opening_tells_what_is_there(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Nothing is asked again, though samples are others by now; a lost record comes back, a changed one stays."""
    folder = labelled(server.url)
    first = finetune("calibrate", folder, "--open-test")
    record, count = (folder / "calibration.json").read_bytes(), len(server.asked)
    (folder / "calibration.json").unlink()

    assert first == finetune("calibrate", folder, "--open-test")
    assert record == (folder / "calibration.json").read_bytes()
    runs.write_samples(folder, text_of=lambda i, index: f"{judged.completion(i, index)} So.", rows=30)
    code, out, _ = finetune("calibrate", folder, "--open-test")
    assert (code, "30 of 30" in out) == (0, True)
    assert count == len(server.asked)

    (folder / "calibration.json").write_text("{}", "utf-8")
    code, _, err = finetune("calibrate", folder, "--open-test")
    assert code == 2
    assert "is there already and holds another record" in err
    assert (folder / "calibration.json").read_text("utf-8") == "{}"


CHANGES = {
    "rubric": (lambda text: text, "another rubric"),
    "model": (lambda text: text.replace("judge-2026-01-15", "judge-2026-02-01"), "another model"),
    "reference": (lambda text: text.replace("      retries", "      answer_column: answer\n      retries"), "prompt"),
    "limits": (lambda text: text.replace("      retries", "      min_characters: 3\n      retries"), "min_characters"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_a_changed_judge_may_not_look_at_an_opened_test(
    labelled: Run, server: StubServer, finetune: Finetune, change: Callable[[str], str], words: str
) -> None:
    """It is told to get fresh labels; what is outside the test may be asked about as before."""
    folder = labelled(server.url)
    assert finetune("calibrate", folder, "--open-test")[0] == 0
    (folder / "calibration.json").unlink()
    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(change(text), "utf-8")
    if change(text) == text:
        (folder / "rubric.md").write_text("Right and short.\n", "utf-8")
    count = len(server.asked)
    code, _, err = finetune("calibrate", folder, "--open-test")

    assert code == 2
    assert words in err
    assert f"`finetune calibrate {folder} --new-test`" in err
    assert count == len(server.asked)
    assert not (folder / "calibration.json").exists()
    code, out, _ = finetune("calibrate", folder)
    assert code == 0
    assert "fresh labels are needed" in out
    assert len(server.asked) == count + 60  # another judge's verdicts are not its own


def test_a_new_test_is_of_prompts_that_no_judge_was_tested_on(
    labelled: Run, server: StubServer, finetune: Finetune
) -> None:
    """What was sealed before is there to mend the rubric by; a test that is still sealed is not replaced."""
    folder = labelled(server.url)
    finetune("calibrate", folder)
    code, _, err = finetune("calibrate", folder, "--new-test")
    assert (code, "still good" in err) == (2, True)

    assert finetune("calibrate", folder, "--open-test")[0] == 0
    code, out, _ = finetune("calibrate", folder, "--new-test")
    assert code == 3
    assert "20 that people accept, 20 that people reject, 10 of either kind more are needed, of prompts that no" in out

    text = (folder / "brief.yaml").read_text("utf-8").replace("prompts: 30", "prompts: 60")
    (folder / "brief.yaml").write_text(text, "utf-8")
    more = [{"id": f"q{i}", "prompt": f"What is {i + 1} + {i}?", "answer": str(2 * i + 1)} for i in range(30, 60)]
    with (folder / "data.jsonl").open("a", encoding="utf-8") as data:
        data.writelines(json.dumps(row) + "\n" for row in more)
    judged.label(folder, finetune, rows=60)
    code, out, _ = finetune("calibrate", folder)
    assert "; 120 of new prompts wait for another test" in out

    (folder / "rubric.md").write_text("Right and short.\n", "utf-8")
    before = set(server_questions(server))
    code, out, _ = finetune("calibrate", folder, "--new-test")
    assert code == 0
    assert "split 2: train 72, dev 108, test 60 (30 accepted), sealed" in out
    first, second = (event for event in judged.events(folder) if event["kind"] == "split")
    assert not set(first["test"]) & set(second["test"])
    assert not {prompt for prompt, side in second["sides"].items() if side == "test"} & set(first["sides"])
    assert before <= set(server_questions(server))
    (folder / "calibration.json").rename(folder / "first.json")
    assert finetune("calibrate", folder, "--open-test")[0] == 0


def test_a_record_in_its_place_is_not_written_over(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """That is said before the test is opened, and so is a brief that names no place."""
    folder = labelled(server.url)
    (folder / "calibration.json").write_text("mine", "utf-8")
    code, _, err = finetune("calibrate", folder, "--open-test")
    assert code == 2
    assert "holds another record; move it away" in err

    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(text.replace("      calibration: calibration.json\n", ""), "utf-8")
    code, _, err = finetune("calibrate", folder, "--open-test")
    assert code == 2
    assert "rewards[0]: no option `calibration`" in err
    assert (folder / "calibration.json").read_text("utf-8") == "mine"
    assert {"split"} == {event["kind"] for event in judged.events(folder)}
    assert not server.asked


# --- a server in trouble ----------------------------------------------------------------------------------------------


def test_a_dead_server_opens_nothing(labelled: Run, finetune: Finetune) -> None:
    """Exit 4, at the first look and when the server died between; the same command goes on later."""
    with judged.serving() as server:
        folder = labelled(server.url)
    code, _, err = finetune("calibrate", folder)
    assert code == 4
    assert "judge_unreachable" in err

    with judged.serving() as server:
        move(folder, server.url)
        assert finetune("calibrate", folder)[0] == 0
    code, _, err = finetune("calibrate", folder, "--open-test")
    assert code == 4
    assert {"split", "verdict"} == {event["kind"] for event in judged.events(folder)}
    (folder / "rubric.md").write_text("Another may still be tested.\n", "utf-8")
    with judged.serving() as server:
        move(folder, server.url)
        assert finetune("calibrate", folder, "--open-test")[0] == 0


def move(folder: Path, url: str) -> None:
    """Let the brief name another address of the same judge."""
    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(text.replace(facts_url(text), url), "utf-8")


@pytest.mark.parametrize("status", [401, 404, 503])
def test_a_server_that_refuses_all_opens_nothing(labelled: Run, finetune: Finetune, status: int) -> None:
    """A wrong key, a wrong address and a busy server are no abstentions, though the judge answered before."""
    with judged.serving() as server:
        folder = labelled(server.url)
        assert finetune("calibrate", folder)[0] == 0
    refusing = StubServer(lambda _route, _body, _count: (status, {}, {"error": {"message": "no"}}))
    move(folder, refusing.url)
    code, _, err = finetune("calibrate", folder, "--open-test")
    refusing.close()

    assert code == 4
    assert f"status {status}: no" in err
    assert {"split", "verdict"} == {event["kind"] for event in judged.events(folder)}


def test_an_interrupted_opening_goes_on(labelled: Run, finetune: Finetune, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered is kept and not asked again; another judge may not take over, and labels stay as they were."""
    monkeypatch.setattr("llm_finetuning.judging.questions.AT_ONCE", 8)
    with judged.serving() as server:
        folder = labelled(server.url)
        assert finetune("calibrate", folder)[0] == 0
    answers = judged.answering(judged.grade)
    dying = StubServer(
        lambda route, body, count: answers(route, body, count) if count <= 40 else (503, {}, {"error": "down"})
    )
    move(folder, dying.url)
    code, _, err = finetune("calibrate", folder, "--open-test")
    dying.close()
    assert code == 4
    assert "are still to be asked" in err
    kinds = [event["kind"] for event in judged.events(folder)]
    assert kinds.count("opening") == 1
    assert kinds.count("verdict") == 60 + 40
    assert "goes on where it stopped" in finetune("calibrate", folder)[1]
    judged.label(folder, finetune, accept=lambda sample: not judged.is_right(sample))  # all turned round

    with judged.serving() as server:
        move(folder, server.url)
        code, out, _ = finetune("calibrate", folder, "--open-test")
        assert code == 0, out
        assert "30 of 30" in out
        assert not set(asked(server)) & set(asked(dying)[:40])


def test_a_server_that_never_takes_a_question_is_in_trouble(
    labelled: Run, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused from the first, all questions are the server's matter; one that alone is refused has no verdict."""
    monkeypatch.setattr("llm_finetuning.judging.questions.AT_ONCE", 2)
    refused = (400, {}, {"error": {"message": "too long"}})
    none = StubServer(lambda _route, _body, _count: refused)
    folder = labelled(none.url)
    code, _, err = finetune("calibrate", folder)
    none.close()
    assert (code, "judge_error: status 400: too long" in err) == (4, True)
    assert {"split"} == {event["kind"] for event in judged.events(folder)}

    answers = judged.answering(judged.grade)
    some = StubServer(lambda route, body, count: refused if " 5, in form" in str(body) else answers(route, body, count))
    move(folder, some.url)
    first = finetune("calibrate", folder)
    last = finetune("calibrate", folder, "--open-test")
    some.close()
    assert (first[0], last[0]) == (0, 0)
    assert ("judge_error 2" in first[1]) != ("28 of 28" in last[1])  # on one side or the other


# --- labels -----------------------------------------------------------------------------------------------------------


def test_too_few_labels_are_said_with_what_is_missing(tmp_path: Path, server: StubServer, finetune: Finetune) -> None:
    """Exit 3, nothing asked and nothing kept."""
    folder = judged.write(tmp_path / "run", server.url, rows=12)
    judged.label(folder, finetune, rows=12, accept=lambda sample: sample.sample_id in ("q1/2", "q2/3", "q4/2"))
    code, out, _ = finetune("calibrate", folder, "--json")

    assert code == 3
    assert json.loads(out)["needed"] == {"accept": 17, "reject": 0, "either": 0}
    assert not (folder / "judge.jsonl").exists()
    assert not server.asked


def test_labels_that_fell_away_keep_the_test_shut(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Sealed items that are contested by now no longer count, and what is left is too little."""
    folder = labelled(server.url)
    finetune("calibrate", folder)
    judged.label(folder, finetune, accept=lambda sample: "form 2" in str(sample.completion), reader="bo")
    count = len(server.asked)
    code, out, _ = finetune("calibrate", folder, "--open-test")

    assert code == 3
    assert "not counted: 30 contested" in out
    assert "5 that people accept" in out
    assert count == len(server.asked)
    assert "opening" not in {event["kind"] for event in judged.events(folder)}


def test_later_labels_do_not_change_a_sealed_test(tmp_path: Path, server: StubServer, finetune: Finetune) -> None:
    """What is labelled later of a sealed prompt counts nowhere; of the others it is there to mend the rubric by."""
    folder = judged.write(tmp_path / "run", server.url)
    drawn = judged.samples(folder)
    table = runs.write_labels_csv(folder, [one for one in drawn if one.index < 3], judged.is_right)
    assert finetune("review", folder, "--import", table, "--reader", "ada")[0] == 0
    _, out, _ = finetune("calibrate", folder, "--json")
    before = json.loads(out)["split"]
    judged.label(folder, finetune)
    code, out, _ = finetune("calibrate", folder, "--json")
    after = json.loads(out)["split"]

    assert code == 0
    assert after["test"] == before["test"]
    assert (after["train"] + after["dev"]) * 3 == (before["train"] + before["dev"]) * 4
    assert not sealed_prompts(folder) & {material(body)[0]["task"] for _, body in server.asked}


def sealed_prompts(folder: Path) -> set[str]:
    (split,) = [event for event in judged.events(folder) if event["kind"] == "split"]
    return {str(one.prompt) for one in judged.samples(folder) if one.sample_id in split["test"]}


# --- attacks that cannot be tried -------------------------------------------------------------------------------------


def test_an_attack_that_silences_the_judge_is_not_measured(labelled: Run, finetune: Finetune) -> None:
    """No verdict is no pass and no fail: its trials are left out, told, and too few."""

    def graded(shown: dict[str, str]) -> str:
        return "" if any(text in shown["response"] for text in _OVERRIDES) else judged.grade(shown)

    with judged.serving(graded) as server:
        folder = labelled(server.url)
        code, out, _ = finetune("calibrate", folder, "--open-test", "--json")
    facts = json.loads(out)

    assert code == 1
    assert facts["unanswered"] == {"override_text": 30}
    assert facts["faults"] == ["attack override_text: 0 trials, 10 are needed"]


def test_work_that_is_never_shown_is_not_dressed_up(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Wrong work below `min_characters` is paid 0 unasked; dressed up it would be long enough, against no control."""
    folder = labelled(server.url, options="      min_characters: 16\n")
    code, out, _ = finetune("calibrate", folder, "--open-test", "--json")
    facts = json.loads(out)

    assert code == 1
    assert facts["faults"] == [f"attack {name}: 0 trials, 10 are needed" for name in ("override_text", "verdict_words")]
    assert facts["record"]["test"]["true_negatives"] == 30


def test_programs_do_not_calibrate(tmp_path: Path, server: StubServer, finetune: Finetune) -> None:
    """Labels of the demo's reader count for nothing here."""
    folder = judged.write(tmp_path / "run", server.url)
    judged.label(folder, finetune)
    labels = (folder / "labels.jsonl").read_text("utf-8")
    (folder / "labels.jsonl").write_text(labels.replace('"reader_kind": "person"', '"reader_kind": "program"'), "utf-8")
    code, out, _ = finetune("calibrate", folder)

    assert code == 3
    assert "labels: 0 samples judged by people, 0 accepted; not counted: 120 by a program" in out


# --- briefs -----------------------------------------------------------------------------------------------------------

SECOND = """\
evaluation:
  graders:
    - use: rubric_judge
      name: strict
      options: {url: URL, model: judge-2026-01-15, rubric_file: rubric.md, calibration: strict.json, concurrency: 4}
"""


def test_which_judge_is_measured(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Graders count as well as rewards; of several one is named, and one that stands in both is one."""
    folder = labelled(server.url)
    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(text + SECOND.replace("URL", server.url), "utf-8")

    code, _, err = finetune("calibrate", folder)
    assert (code, "names several judges (rubric_judge, strict)" in err) == (2, True)
    code, _, err = finetune("calibrate", folder, "--reward", "lax")
    assert (code, "names no judge of that name" in err) == (2, True)
    assert finetune("calibrate", folder, "--reward", "strict", "--open-test")[0] == 0
    assert (folder / "strict.json").exists()

    both = text.partition("rewards:\n")[2].partition("sampling:")[0]
    graders = "evaluation:\n  graders:\n" + "".join(f"  {line}\n" for line in both.splitlines())
    (folder / "brief.yaml").write_text(text + graders, "utf-8")
    assert finetune("calibrate", folder)[0] == 0

    (folder / "brief.yaml").write_text(
        text.replace("rubric_judge", "exact_answer").partition("    options")[0], "utf-8"
    )
    code, _, err = finetune("calibrate", folder)
    assert code == 2
    assert "no `rubric_judge` among" in err


def test_the_road_before_the_record(tmp_path: Path, server: StubServer, finetune: Finetune) -> None:
    """Audit, sampling and review need no record; each says what comes next, and `score` names the verb."""
    folder = judged.write(tmp_path / "run", server.url)

    def follow() -> str:
        return str(finetune("status", folder)[1].splitlines()[-1])

    assert follow() == f"next: finetune audit {folder}"
    assert finetune("audit", folder)[0] == 0
    code, out, err = finetune("sample", folder)  # all is there: what the brief names is composed, nothing is drawn
    assert code == 0, err
    assert out.splitlines()[-1] == f"next: finetune review {folder}"
    assert follow() == f"next: finetune review {folder}"
    judged.label(folder, finetune)
    assert follow() == f"next: finetune calibrate {folder}"
    code, _, err = finetune("score", folder)
    assert (code, "`finetune calibrate RUN`" in err) == (2, True)

    assert finetune("calibrate", folder, "--open-test")[0] == 0
    lines = finetune("status", folder)[1].splitlines()
    assert "judge.jsonl     done        rubric_judge may pay" in lines
    assert "audit.json      done        nothing blocks" in lines  # a record is none of its business
    assert lines[-1] == f"next: finetune score {folder}"


def test_a_judge_measured_in_another_run_sends_there(
    tmp_path: Path, labelled: Run, server: StubServer, finetune: Finetune
) -> None:
    """The record may be another run's: until it is there, that run's command is the next."""
    home = labelled(server.url)
    folder = judged.write(tmp_path / "main", server.url)
    text = (folder / "brief.yaml").read_text("utf-8").replace("calibration: c", "calibration: ../run/c")
    (folder / "brief.yaml").write_text(text, "utf-8")
    judged.label(folder, finetune)
    finetune("audit", folder)

    assert finetune("status", folder)[1].splitlines()[-1] == f"next: finetune calibrate {home}"
    assert finetune("calibrate", home, "--open-test")[0] == 0
    assert finetune("status", folder)[1].splitlines()[-1] == f"next: finetune score {folder}"


def test_a_grader_keeps_no_reward_waiting(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """Rewards that a program pays go on while a judge of the evaluation has no record; its state is told."""
    folder = labelled(server.url)
    text = runs.BRIEF.replace("prompts: 15", "prompts: 30") + SECOND.replace("URL", server.url)
    (folder / "brief.yaml").write_text(text, "utf-8")
    finetune("audit", folder)
    lines = finetune("status", folder)[1].splitlines()

    assert lines[-1] == f"next: finetune score {folder}"
    assert any(line.startswith("judge.jsonl     missing     strict: calibration: ") for line in lines)

    text = (folder / "brief.yaml").read_text("utf-8")
    reward = judged.BRIEF.format(url=server.url, model=MODEL, rows=30)
    (folder / "brief.yaml").write_text(reward + text.partition("max_completion_length: 16}\n")[2], "utf-8")
    assert finetune("calibrate", folder, "--reward", "rubric_judge", "--open-test")[0] == 0
    finetune("audit", folder)
    assert finetune("status", folder)[1].splitlines()[-1] == f"next: finetune score {folder}"


def test_a_missing_answer_column_is_refused(labelled: Run, server: StubServer, finetune: Finetune) -> None:
    """With the columns that are there."""
    folder = labelled(server.url)
    text = (folder / "brief.yaml").read_text("utf-8")
    (folder / "brief.yaml").write_text(
        text.replace("      retries", "      answer_column: gold\n      retries"), "utf-8"
    )
    code, _, err = finetune("calibrate", folder)

    assert code == 2
    assert "rewards[0]: option `answer_column`: no column `gold`; the samples have id, answer, level" in err
