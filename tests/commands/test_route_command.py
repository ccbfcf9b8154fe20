"""`finetune route`: answers from options, a file and a terminal; one method, one way out, or the open questions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_review_terminal import Terminal

from llm_finetuning.stages import route as stage

Finetune = Callable[..., tuple[int, str, str]]

GRPO = {
    "teach": "stable-skill",
    "evaluation": "yes",
    "base_success": "sometimes",
    "images": "no",
    "signal": "checker",
    "rows": stage.ENOUGH,
}


def options(answers: dict[str, str]) -> list[str]:
    return [word for key, value in answers.items() for word in ("--answer", f"{key}={value}")]


def written(path: Path, answers: Any) -> Path:
    path.write_text(answers if isinstance(answers, str) else json.dumps(answers), "utf-8")
    return path


def test_a_method_comes_with_reasons_and_the_next_command(finetune: Finetune) -> None:
    """What was answered, why it leads there, what would lead elsewhere, and what to type."""
    code, out, err = finetune("route", *options(GRPO))

    assert (0, "") == (code, err)
    assert out.startswith(
        "method: grpo (group relative policy optimization)\nbecause: a program can check success and "
    )
    assert "  base_success (sometimes now): never: sft; always: nothing-to-train; not-measured: measure-first\n" in out
    assert "  signal (checker now): pairs: more questions; thumbs: kto; demonstrations: sft; rubric: dpo;" in out
    assert out.endswith("\nnext: finetune new RUN --method grpo\n")


@pytest.mark.parametrize("name", stage.OUTCOMES)
def test_every_outcome_is_shown(finetune: Finetune, name: str) -> None:
    """Text and JSON say the same of each leaf, and an off-ramp is an answer: exit code 0."""
    asked = [question for question in stage.QUESTIONS if question.key != "rows"]
    answers = next(found for found in _ways(asked, {"rows": stage.ENOUGH}) if found[1] == name)[0]
    code, out, _ = finetune("route", *options(answers))
    as_json, facts, _ = finetune("route", *options(answers), "--json")

    outcome, read = stage.OUTCOMES[name], json.loads(facts)
    assert code == as_json == 0
    assert f"{outcome.kind}: {name} ({outcome.title})" in out
    assert out.splitlines()[-1] == f"next: {outcome.next_command or outcome.next_action}"
    assert (read["method"], read["off_ramp"]) == ((name, None) if outcome.kind == "method" else (None, name))
    assert (read["next"], read["next_action"]) == (outcome.next_command, outcome.next_action)
    assert all(f"because: {reason}\n" in out for reason in read["reasons"])
    assert f"note: {read['note']}\n" in out


def _ways(asked: list[stage.Question], answers: dict[str, str]) -> list[tuple[dict[str, str], str]]:
    """Return one list of answers for each way through the tree, with its outcome."""
    found = stage.route(answers)
    if found.outcome:
        return [(answers, found.outcome.name)]
    question = found.open_questions[0]
    return [way for value in question.values for way in _ways(asked, {**answers, question.key: value})]


def test_json_names_what_was_not_needed(finetune: Finetune) -> None:
    """An answer that changes nothing is said, so that nobody thinks it decided."""
    code, out, _ = finetune("route", *options({**GRPO, "memory": "tight"}), "--json")
    facts = json.loads(out)

    assert code == 0
    assert facts["method"] == "grpo"
    assert facts["unused"] == ["memory"]
    assert facts["open_questions"] == []
    assert {"question": "base_success", "value": "never", "outcome": "sft"} in facts["would_change"]


def test_without_a_terminal_the_open_questions_are_printed(finetune: Finetune) -> None:
    """Nobody is there to answer: each question that may matter with each value, and exit code 3."""
    code, out, _ = finetune("route", "--answer", "teach=stable-skill", "--answer", "evaluation=yes")

    assert code == 3
    assert out.splitlines()[1].startswith("  base_success: ")
    assert "    not-measured\n" in out
    assert "  teach: " not in out
    assert out.splitlines()[-1] == (
        "next: answer base_success: --answer base_success=never|sometimes|always|not-measured"
    )


def test_open_questions_as_json(finetune: Finetune) -> None:
    """An agent gets the keys and values to answer with."""
    code, out, _ = finetune("route", *options({**GRPO, "signal": "pairs"}), "--json")
    facts = json.loads(out)

    assert code == 3
    assert (facts["method"], facts["off_ramp"], facts["next"]) == (None, None, None)
    assert [one["key"] for one in facts["open_questions"]] == ["sft_checkpoint", "memory", "length_bias", "sweep"]
    assert facts["open_questions"][1]["values"] == {"fits": "or LoRA is used, which needs no copy", "tight": ""}
    assert facts["answers"]["signal"] == "pairs"


def test_a_file_and_options_go_together(finetune: Finetune, tmp_path: Path) -> None:
    """An option wins over the file, so that one answer can be tried otherwise."""
    path = written(tmp_path / "answers.json", GRPO)

    assert "method: grpo" in finetune("route", "--answers", path)[1]
    code, out, _ = finetune("route", "--answers", path, "--answer", "base_success = never")
    assert code == 0
    assert "method: sft" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evalution=yes"], "--answer `evalution`: no such question; did you mean `evaluation`? known are teach,"),
        (["BASE-SUCCESS=never"], "did you mean `base_success`?"),
        (["signal=cheker"], "--answer `signal`: no answer `cheker`; did you mean `checker`? known are checker, pairs"),
        (["rows=30"], f"--answer `rows`: no answer `30`; known are {stage.FEW}, {stage.ENOUGH}"),
        (["signal"], "--answer `signal`: write KEY=VALUE, as in signal=checker"),
        (["signal=checker", "signal=pairs"], "--answer `signal`: answered twice, checker and pairs; keep one"),
        (["=yes"], "--answer ``: no such question; known are teach"),
    ],
)
def test_a_wrong_answer_is_one_line(finetune: Finetune, arguments: list[str], words: str) -> None:
    """It says which, and the nearest right one."""
    code, out, err = finetune("route", *(part for one in arguments for part in ("--answer", one)))

    assert (2, "") == (code, out)
    assert words in err
    assert len(err.splitlines()) == 1


def test_all_wrong_answers_are_said_at_once(finetune: Finetune, tmp_path: Path) -> None:
    """One call is enough to mend them all."""
    path = written(tmp_path / "a.json", {"sweeep": "yes", "images": True})
    code, _, err = finetune("route", "--answers", path, "--answer", "memory=full", "--answer", "x")

    assert code == 2
    assert [line.partition("; ")[0].removeprefix("finetune: ") for line in err.splitlines()] == [
        f"{path}: `sweeep`: no such question",
        f"{path}: `images`: no answer `true`",
        "--answer `x`: write KEY=VALUE, as in signal=checker",
        "--answer `memory`: no answer `full`",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ":1: no JSON: "),
        ('["checker"]', ": one JSON object is wanted; write "),
        ('{"signal": "checker", "signal": "pairs"}', ": `signal` is answered twice; keep one"),
        ('{"signal": ["checker"]}', ': `signal`: no answer `["checker"]`; '),
        ('{"signal": null}', ": `signal`: no answer `null`; "),
    ],
)
def test_a_wrong_file_is_one_line(finetune: Finetune, tmp_path: Path, text: str, words: str) -> None:
    """The path comes first, then what is wrong with it."""
    path = written(tmp_path / "answers.json", text)
    code, out, err = finetune("route", "--answers", path)

    assert (2, "") == (code, out)
    assert f"finetune: {path}{words}" in err
    assert len(err.splitlines()) == 1


def test_a_missing_or_binary_file_is_one_line(finetune: Finetune, tmp_path: Path) -> None:
    """As any file of a user's."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{}")
    for name, words in (("none.json", "No such file or directory"), ("bytes", "no JSON in UTF-8"), (".", "directory")):
        code, _, err = finetune("route", "--answers", tmp_path / name)
        assert code == 2
        assert words in err
        assert len(err.splitlines()) == 1


def test_a_terminal_is_asked_one_question_at_a_time() -> None:
    """Numbers, words and beginnings of words count; what cannot matter any more is not asked; `b` goes back."""
    terminal = Terminal("route", "--answer", "evaluation=yes")
    assert "What should the model have" in terminal.until("answer: ")
    terminal.press("4\n")
    assert "How often does the base model succeed" in terminal.until("answer: ")
    terminal.press("maybe\n")
    assert "`maybe` is none of them" in terminal.until("answer: ")
    terminal.press("n\n")
    assert "`n` is none of them" in terminal.until("answer: ")
    terminal.press("SOME\n")
    assert "look at images" in terminal.until("answer: ")
    terminal.press("b\n")
    assert "How often does the base model succeed" in terminal.until("answer: ")
    terminal.press("never\n")
    terminal.until("answer: ")
    terminal.press("no\n")
    terminal.until("answer: ")
    terminal.press("1\n")
    assert "How many of those" in terminal.until("answer: ")
    terminal.press("2\n")
    shown = terminal.until("next: finetune new RUN --method sft")
    assert "answer: " not in shown
    assert "RL learns nothing" in shown
    assert terminal.end() == 0


def test_the_first_question_has_none_before_it() -> None:
    """`b` there is a wrong word, and the end of input ends the call without a traceback."""
    terminal = Terminal("route")
    assert "for the question before" not in terminal.until("answer: ")
    terminal.press("b\n")
    terminal.until("`b` is none of them")
    terminal.until("answer: ")
    terminal.press("\x04")
    terminal.until("interrupted")
    assert terminal.end() == 130


def test_json_asks_nothing_in_a_terminal() -> None:
    """Who wants an object gets one."""
    terminal = Terminal("route", "--json")
    terminal.until('"unused": []')
    assert terminal.end() == 3
