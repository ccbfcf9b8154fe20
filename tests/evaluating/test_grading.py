"""What grades the held-out rows, and what of the brief makes whose numbers stale."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evaluations
import judge_records
import runs
from engines.endpoint_stub import Answer, StubServer
from llm_finetuning import artifact, brief, lineage
from llm_finetuning.evaluating import text
from llm_finetuning.types import Evaluation

Finetune = Callable[..., tuple[int, str, str]]

GRADED = "evaluation:\n  graders: [{file: graders.py:right, name: right}]\n"
GRADERS = "def right(completions, answer, **_):\n    return [float(a in c) for c, a in zip(completions, answer)]\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose held-out rows, twenty sums, are graded by a file of its own."""
    folder = evaluations.write_run(tmp_path / "run", evaluations.BRIEF + GRADED)
    (folder / "graders.py").write_text(GRADERS)
    return folder


def rewrite(folder: Path, old: str, new: str) -> None:
    """Change the brief; what is replaced has to be there."""
    text = (folder / "brief.yaml").read_text()
    assert old in text
    (folder / "brief.yaml").write_text(text.replace(old, new, 1))


def evaluated(run: Path, finetune: Finetune, *options: str, name: str = "base") -> Evaluation:
    code, _, err = finetune("evaluate", run, "--suite", "goldens", "--name", name, *options)
    assert code == 0, err
    return artifact.read_json(run / "eval" / f"{name}.json", Evaluation).records[0]


def test_success_is_the_graders_and_the_reward_is_scored_beside(run: Path, finetune: Finetune) -> None:
    """A reward that pays for anything is full, and success is what it was."""
    (run / "graders.py").write_text(GRADERS + "def anything(completions, **_):\n    return [1.0] * len(completions)\n")
    rewrite(run, "  - use: exact_answer\n    options: {extract: last_number}", "  - file: graders.py:anything")
    evaluations.write_transcripts(run, "base", lambda i, index: i < 5, general=None)
    found = evaluated(run, finetune)
    assert (found.passes["1"].value, found.graders, found.success_threshold) == (0.25, ["right"], 0.5)
    assert found.reward is not None
    assert (found.reward.value, found.components["anything"].value, found.components["right"].value) == (1, 1, 0.25)
    out = " ".join(finetune("evaluate", run, "--suite", "goldens")[1].split())
    assert "reward 1 1 to 1 anything 1 1 to 1 right (grader) 0.25" in out


def test_graders_alone_measure_a_method_without_rewards(run: Path, finetune: Finetune) -> None:
    """What they give is then the reward too."""
    columns = "path: data.jsonl, prompt: prompt, completion: answer, id: id, evaluation: held.jsonl"
    text = f"name: s\nmethod: sft\nmodel: some/model\ndataset: {{{columns}}}\n{GRADED}"
    (run / "brief.yaml").write_text(text)
    (run / "graders.py").write_text("def right(completions, level, **_):\n    return [float(n < 5) for n in level]\n")
    evaluations.write_transcripts(run, "base", lambda *_: True, general=None)
    found = evaluated(run, finetune)
    assert (found.passes["1"].value, found.graders, list(found.components)) == (0.25, ["right"], ["right"])
    assert found.items[0].grades == found.items[0].rewards == [1.0] * found.samples


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("graders.py:right, name: right", "graders.py:wrong"), "evaluation.graders[0]: {run}/graders.py has no fun"),
        (("file: graders.py:right", "use: exact_anser"), "evaluation.graders[0]: no reward `exact_anser` in the lib"),
        (("name: right", "name: exact_answer"), "evaluation.graders[0]: is named `exact_answer`, as one of the rew"),
        (("name: right", "name: right, weight: 0"), "evaluation.graders: all weights are 0, so that nothing decides"),
        (("evaluation:\n", "evaluation:\n  success: 2\n"), "evaluation.success: 2 cannot be told apart; what grades"),
        (("evaluation:\n", "evaluation:\n  bucket: topci\n"), "no column `topci` (`evaluation.bucket` names it)"),
        (("evaluation:\n", "evaluation:\n  source: levle\n"), "names it); did you mean `level`?"),
        (("file: graders.py:right", "use: rubric_judge"), "evaluation.graders[0]: `rubric_judge` needs the option"),
    ],
    ids=["function", "library", "same name", "no weight", "threshold", "bucket", "source", "judge"],
)
def test_a_fault_is_one_line_before_anything_is_sampled(
    run: Path, finetune: Finetune, change: tuple[str, str], words: str
) -> None:
    """It names the key of the brief; no engine is asked for."""
    rewrite(run, *change)
    code, _, err = finetune("evaluate", run, "--python", "/no/such/python")
    assert code == 2
    assert words.format(run=run) in err
    assert len(err.strip().splitlines()) == 1
    assert not (run / "eval").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ((("name: right", "name: correct")), "evaluation.graders of brief.yaml"),
        ((("evaluation:\n", "evaluation:\n  success: 0.9\n")), "success threshold"),
        ((("evaluation:\n", "evaluation:\n  bucket: level\n")), "evaluation.bucket of brief.yaml"),
        ((("evaluation:\n", "evaluation:\n  source: level\n")), "evaluation.source of brief.yaml"),
        ((("evaluation:\n", "evaluation:\n  gain: 0.2\n  drift: 0.3\n")), None),
        ((("model: some/model\n", "model: some/model\ngate: {success: 0.9}\n")), None),
    ],
    ids=["graders", "success", "bucket", "source", "what is wanted", "the gate's threshold"],
)
def test_only_what_decides_the_numbers_makes_them_stale(
    run: Path, finetune: Finetune, change: tuple[str, str], named: str | None
) -> None:
    """What is wanted of a candidate is asked of numbers that are there; the gate's threshold is the rewards' alone."""
    evaluations.write_transcripts(run, "base", lambda i, _: i < 5, general=None)
    evaluated(run, finetune)
    rewrite(run, *change)
    code, _, err = finetune("evaluate", run, "--suite", "goldens")
    assert code == (2 if named else 0)
    assert ("differs in" in err) == bool(named)
    if named:
        assert f"differs in {named}, and is never overwritten" in err
        assert "scored anew" in err


def test_a_grader_that_fails_is_named_by_its_line(run: Path, finetune: Finetune) -> None:
    """Nothing is written, and what was drawn is graded once it is mended."""
    evaluations.write_transcripts(run, "base", lambda i, _: i < 5, general=None)
    (run / "graders.py").write_text(GRADERS.replace("float(a in c)", "1 / (a not in c)"))
    code, _, err = finetune("evaluate", run, "--suite", "goldens", "--python", "/no/such/python")
    assert code == 2
    assert f"{run}/graders.py:2: reward `right`: ZeroDivisionError" in err
    assert "mend it and evaluate again: the completions are kept" in err
    assert len(err.strip().splitlines()) == 2  # the first says what these rows can show
    assert not (run / "eval" / "base.json").exists()
    (run / "graders.py").write_text(GRADERS)
    assert evaluated(run, finetune).passes["1"].value == 0.25


def test_an_edited_grader_is_another_grader(run: Path, finetune: Finetune) -> None:
    """Its source is a parent, as a reward's is."""
    evaluations.write_transcripts(run, "base", lambda i, _: i < 5, general=None)
    evaluated(run, finetune)
    (run / "graders.py").write_text(GRADERS + "# laxer\n")
    assert "differs in graders.py, and" in finetune("evaluate", run, "--suite", "goldens")[2]


def test_nothing_of_the_evaluation_is_part_of_the_objective(tmp_path: Path) -> None:
    """Samples, scores, audit, probe, gate and build depend on none of it."""
    folder = runs.write_run(tmp_path / "run")
    runs.write_samples(folder)
    runs.examine(folder)
    makers = (lineage.of_audit, lineage.of_samples, lineage.of_scores, lineage.of_probe, lineage.of_gate)
    before = [made(brief.load(folder)) for made in (*makers, lineage.of_build)]
    (folder / "graders.py").write_text(GRADERS)
    with (folder / "brief.yaml").open("a") as stream:
        stream.write(GRADED + "  success: 0.9\n  bucket: level\n  source: level\n  gain: 0.1\n  drift: 0.2\n")
    assert [made(brief.load(folder)) for made in (*makers, lineage.of_build)] == before


def test_evaluations_on_other_goldens_are_named(run: Path, finetune: Finetune) -> None:
    """Each of them, and no other; the fingerprint is that of ids, prompts and columns."""
    for name, model in (("base", None), ("old", "some/old")):
        evaluations.write_transcripts(run, name, lambda *_: True, model=model, general=None)
        evaluated(run, finetune, *(["--model", model] if model else []), name=name)
    assert "on other held-out rows" not in finetune("evaluate", run, "--suite", "goldens")[1]
    (run / "held.jsonl").write_text((run / "held.jsonl").read_text().replace('"level": 0', '"level": 50'))
    evaluations.write_transcripts(run, "new", lambda *_: True, model="some/new", general=None)
    code, out, _ = finetune("evaluate", run, "--suite", "goldens", "--model", "some/new")
    assert code == 0
    assert "note: on other held-out rows than this, and not to be compared with it: base, old\n" in out
    facts = json.loads(finetune("evaluate", run, "--suite", "goldens", "--model", "some/new", "--json")[1])
    assert facts["notes"] == ["on other held-out rows than this, and not to be compared with it: base, old"]
    assert not facts["power"]["is_measured"]  # the base's counts are those of other rows
    assert facts["fingerprint"] != artifact.read_json(run / "eval" / "base.json", Evaluation).records[0].fingerprint


def test_a_run_says_first_what_gain_it_can_show(run: Path, finetune: Finetune) -> None:
    """From a guess while nothing is measured, from the base's own counts afterwards; `evaluation.gain` is the wish."""
    rewrite(run, "evaluation:\n", "evaluation:\n  gain: 0.3\n")
    code, _, err = finetune("evaluate", run, "--python", "/no/such/python")
    assert code == 2
    assert "upper guess, before answers are paired: 20 rows with 4 completions each show a gain of " in err
    assert "from a base guessed at 0.5 in four of five tries" in err
    assert "the wanted 0.3 (evaluation.gain)" in err
    evaluations.write_transcripts(run, "base", lambda i, index: index < i % 3, general=None)
    facts = json.loads(finetune("evaluate", run, "--suite", "goldens", "--json")[1])["power"]
    assert (facts["items"], facts["completions"], facts["is_measured"]) == (20, 4, True)
    assert facts["base"] == pytest.approx(sum(i % 3 for i in range(20)) / 80)
    assert 0 < facts["gain_shown"] < 0.5
    assert (facts["items_needed"] <= 20) == (facts["gain_shown"] <= 0.3)
    evaluations.write_transcripts(run, "top", lambda *_: True, model="some/top", general=None)
    _, out, err = finetune("evaluate", run, "--suite", "goldens", "--model", "some/top")
    assert f"from the base's {facts['base']:.3f}" in err
    assert "power: estimate from the base alone, before answers are paired: 20 rows" in out


def test_a_base_near_the_top_leaves_no_room_for_the_gain(run: Path, finetune: Finetune) -> None:
    """Then no number of rows is named."""
    evaluations.write_transcripts(run, "base", lambda *_: True, general=None)
    _, out, _ = finetune("evaluate", run, "--suite", "goldens")
    assert "show no gain at all from the base's 1.000" in out
    assert "the wanted 0.05 (evaluation.gain) is more than that leaves" in out
    facts = json.loads(finetune("evaluate", run, "--suite", "goldens", "--json")[1])["power"]
    assert (facts["gain_shown"], facts["items_needed"]) == (None, None)


@pytest.fixture
def judging() -> Iterator[str]:
    """The address of a judge that passes what ends with an even number."""

    def answer(_route: str, body: dict[str, Any], _: int) -> Answer:
        said = judge_records.material(body)[0]
        passes = str(said["response"]).rstrip().endswith(("0", "2", "4", "6", "8"))
        return 200, {}, judge_records.chat(judge_records.verdict("pass" if passes else "fail"))

    server = StubServer(answer)
    yield server.url
    server.close()


@pytest.mark.parametrize(
    ("also", "corrects"),
    [("", True), (", weight: 2", True), (", length_penalty: {from_tokens: 1, to_tokens: 9, share: 0.5}", False)],
    ids=["judge", "weighted", "with a length penalty"],
)
def test_a_judge_that_alone_decides_is_corrected_by_its_record(
    run: Path, finetune: Finetune, judging: str, also: str, *, corrects: bool
) -> None:
    """Where its verdict is the success; a second grader, or one that shortens what it pays, is another matter."""
    named = judge_records.files(run)
    options = {"url": judging, "model": judge_records.MODEL, **named}
    entry = "{use: rubric_judge" + also + f", options: {json.dumps(options)}" + "}"
    rewrite(run, "{file: graders.py:right, name: right}", entry)
    evaluations.write_transcripts(run, "base", lambda i, _: i < 10, general=None)
    found = evaluated(run, finetune)
    assert found.passes["1"].value == 0.5  # a right sum is odd, so it says fail
    assert (found.corrected is not None) == corrects
    out = finetune("evaluate", run, "--suite", "goldens")[1]
    assert ("corrected for the judge" in out) == corrects
    if corrects:
        assert found.corrected is not None
        assert found.corrected.value == pytest.approx((0.5 + 39 / 40 - 1) / (38 / 40 + 39 / 40 - 1))
        # A second grader that decides too leaves nothing to correct; one that only watches does not.
        for weight, corrected in ((1, False), (0, True)):
            beside = f", {{file: graders.py:right, name: right{weight}, weight: {weight}}}]"
            rewrite(run, entry + "]", entry + beside)
            (run / "eval" / "base.json").unlink()
            assert (evaluated(run, finetune).corrected is not None) == corrected
            rewrite(run, beside, "]")


def test_parts_stand_in_text_and_file(run: Path, finetune: Finetune) -> None:
    """With their number of rows; a row without a value is a part of its own."""
    lines = [json.loads(line) for line in (run / "held.jsonl").read_text().splitlines()]
    for place, line in enumerate(lines):
        line["topic"] = None if place >= 15 else "carry" if place % 2 else "plain"
    (run / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rewrite(run, "evaluation:\n", "evaluation:\n  bucket: topic\n  source: id\n")
    evaluations.write_transcripts(run, "base", lambda i, _: i < 15 and i % 2 == 0, general=None)
    found = evaluated(run, finetune)
    assert {name: (share.value, share.n) for name, share in found.buckets.items()} == {
        "carry": (0.0, 7),
        "plain": (1.0, 8),
        "(none)": (0.0, 5),
    }
    assert found.items[3].source == "h3"
    out = finetune("evaluate", run, "--suite", "goldens")[1]
    assert "    plain                    1.000   0.631 to 1.000   8 rows\n" in out
    assert "    (none)                   0.000   0.000 to 0.522   5 rows\n" in out


def test_a_rate_of_no_item_is_no_number() -> None:
    """Where no item has four graded completions pass@4 is not 0, which would stand below pass@1."""
    lines = text.lines_of(evaluations.of_rewards([[1.0, 1.0, 0.0, None]] * 3))
    told = {line.split()[0]: line.split()[1] for line in lines if line.startswith("  pass@")}
    assert told == {"pass@1": "0.667", "pass@2": "1.000", "pass@4": "-"}
