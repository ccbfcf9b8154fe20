"""The drift suite: its items are true, unlike each other and frozen, and each takes right answers and no other."""

import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning import drift, overlap
from llm_finetuning.drift.graders import GRADERS
from llm_finetuning.drift.phrasing import number_in, words
from llm_finetuning.drift.readings import asked
from llm_finetuning.rewards.schemas import schema_of
from llm_finetuning.types import Row

ITEMS_SHA256 = "0532313c4f6614cde0a254d598663e4859aa3cf6a83ad2bfa2cc0b86e937721d"

CHAT = drift.rows(chat=True)
PLAIN = drift.rows(chat=False)
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines())
}
BY_ID = {row.prompt_id: row for row in CHAT}
FORMS = pytest.mark.parametrize("rows", [CHAT, PLAIN], ids=["chat", "text"])
PROGRAM = re.compile(r"```python\n(.*)\n```", re.DOTALL)


def grade(row: Row, completion: Any) -> float | None:
    columns = {name: [value] for name, value in row.columns.items()}
    (value,) = drift.component().function(prompts=[row.prompt], completions=[completion], **columns)
    return value


def right(row: Row) -> list[str]:
    """Return at least two wordings of an item's answer that a model may use."""
    expected, own = row.columns["expected"], CASES.get(row.prompt_id, {}).get("right", [])
    match row.columns["grader"]:
        case "number":
            return [expected, f"{expected}.", f"The answer is {expected}.", f"It is **{expected}**", *own]
        case "text":
            told = [f"{answer}." for answer in expected["accept"]]
            best = expected["accept"][0]
            return [*expected["accept"], *told, best.upper(), f"The answer is: {best}", f'"{best}"', *own]
        case "choice":
            option = row.columns["options"]["ABCD".index(expected)]
            return [expected, f"({expected})", f"{expected}) {option}", f"The answer is {expected}.", option, *own]
        case "list":
            quoted = ", ".join(f"'{element}'" for element in expected)
            numbered = "\n".join(f"{place}. {element}" for place, element in enumerate(expected, 1))
            return [", ".join(expected), f"[{quoted}]", "\n".join(expected), numbered, *own]
        case _:
            return list(own)


def wrong(row: Row) -> list[str]:
    """Return plausible wrong answers to an item, and all of its answers at once."""
    expected, own = row.columns["expected"], CASES.get(row.prompt_id, {}).get("wrong", [])
    match row.columns["grader"]:
        case "number":
            near = [int(expected) - 1, int(expected), int(expected) + 1]
            listings = [
                sep.join(map(str, order)) for sep in (", ", " or ", "\n") for order in (near, near[::-1], near[:2])
            ]
            return [str(near[0]), f"The answer is {near[2]}.", f"{expected}0", *listings, *own]
        case "text":
            everything = [*expected["accept"][:1], *expected["reject"]]
            listings = [sep.join(order) for sep in (", ", " or ", "\n") for order in (everything, everything[::-1])]
            return [*expected["reject"], f"The answer is {expected['reject'][0]}.", *listings, *own]
        case "choice":
            options = row.columns["options"]
            others = [letter for letter in "ABCD" if letter != expected]
            lines = [f"{letter}) {option}" for letter, option in zip("ABCD", options, strict=True)]
            told = [option for letter, option in zip("ABCD", options, strict=True) if letter != expected]
            return [*others, *told, "A, B, C, D", "A or B", "\n".join(lines), ", ".join(options), *own]
        case "list":
            return [", ".join(expected[:-1]), ", ".join([*expected, expected[0]]), ", ".join(expected[::-1]), *own]
        case _:
            return list(own)


def test_the_suite_is_frozen() -> None:
    """The items of a published suite never change: a change is a new version of the suite, with a new name."""
    assert drift.SUITE == "drift/1"
    found = hashlib.sha256(drift.ITEMS.read_bytes()).hexdigest()
    assert found == ITEMS_SHA256, "a change of an item is a new version of the suite: raise SUITE, then pin the digest"


def test_kinds_are_balanced_and_ids_say_them() -> None:
    """Each of nine kinds has thirty-six items, numbered within the kind, so that no kind decides the whole."""
    assert Counter(row.columns["kind"] for row in CHAT) == dict.fromkeys(drift.KINDS, 36)
    assert len(BY_ID) == len(CHAT) == 324
    for kind in drift.KINDS:
        assert {f"{kind}-{place:02d}" for place in range(1, 37)} <= set(BY_ID)
    letters = Counter(row.columns["expected"] for row in CHAT if row.columns["grader"] == "choice")
    assert set(letters) == set("ABCD")
    assert max(letters.values()) <= 10  # one letter for all is no way to pass


def test_rows_are_the_same_items_in_both_forms() -> None:
    """A chat prompt is one user message; a text one ends where the answer begins, after an answered question."""
    for number, (chat, plain) in enumerate(zip(CHAT, PLAIN, strict=True), 1):
        assert (chat.row, chat.prompt_id, chat.columns) == (plain.row, plain.prompt_id, plain.columns)
        assert chat.row == number
        assert isinstance(chat.prompt, list)
        assert [message["role"] for message in chat.prompt] == ["user"]
        question = chat.prompt[0]["content"]
        assert question == question.strip()
        assert "Question:" not in question
        assert asked(chat.prompt) == asked(plain.prompt) == question
        assert isinstance(plain.prompt, str)
        assert plain.prompt.endswith(f"Answer: Green\n\nQuestion: {question}\nAnswer:")


def test_no_item_is_equal_or_near_another() -> None:
    """Two items of one wording would count one ability twice."""
    texts = [overlap.folded(asked(row.prompt)) for row in CHAT]
    assert overlap.same(texts) == []
    found = overlap.near(texts)
    assert found.complete
    assert found.groups == []


def graded_otherwise(rows: list[Row], value: float, tried: Callable[[Row], Iterable[Any]]) -> list[tuple[str, Any]]:
    """Return every answer that is not graded as it should be, so that all faults are seen at once."""
    return [(row.prompt_id, said) for row in rows for said in tried(row) if grade(row, said) != value]


@FORMS
def test_right_answers_are_paid(rows: list[Row]) -> None:
    """Every item takes its answer in at least two natural wordings, with white space or a closed thought around it."""
    assert [row.prompt_id for row in rows if len(set(right(row))) < 2] == []
    assert graded_otherwise(rows, 1.0, right) == []
    assert graded_otherwise(rows, 1.0, lambda row: [f" {said}\n" for said in right(row)]) == []
    assert graded_otherwise(rows, 1.0, lambda row: [f"<think>3, B or no?</think>\n{said}" for said in right(row)]) == []
    assert graded_otherwise(rows, 1.0, lambda row: [[{"role": "assistant", "content": right(row)[0]}]]) == []


@FORMS
def test_wrong_answers_are_not_paid(rows: list[Row]) -> None:
    """No item takes a plausible wrong answer, all answers at once, nothing, or an answer inside open reasoning."""
    assert [row.prompt_id for row in rows if not wrong(row)] == []
    assert graded_otherwise(rows, 0.0, wrong) == []
    assert graded_otherwise(rows, 0.0, lambda row: ["", " \n", None, "I am not sure.", f"<think>{right(row)[0]}"]) == []


@FORMS
def test_an_echo_of_the_prompt_is_not_paid(rows: list[Row]) -> None:
    """The prompt said again, whole or some of its lines, answers nothing; an answer after it does."""
    assert graded_otherwise(rows, 0.0, echoes) == []
    assert graded_otherwise(rows, 1.0, lambda row: [f"{asked(row.prompt)}\n{right(row)[0]}"]) == []


def echoes(row: Row) -> list[str]:
    question = asked(row.prompt)
    lines = question.split("\n")
    parts = ["\n".join(lines[a:b]) for a in range(len(lines)) for b in range(a + 1, len(lines) + 1)]
    framed = [f"Question: {question}\nAnswer:", f"Answer: {question}", question.replace("\n", " ")]
    # One option alone is an answer, wherever it comes from.
    alone = [part for part in parts if re.match(r"[A-D]\)", part) and not re.search(r"\n[A-D]\)", part)]
    asking = [part for part in parts if part not in alone]
    return [*asking, *framed, f"{question}\n{question}"]


def test_what_follows_the_answer_of_a_text_does_not_count() -> None:
    """A base model goes on with questions of its own: they are not read, nor is what follows an empty line."""
    more = ("\nQuestion: What is 1 + 1?\nAnswer: 2", "\n\nQuestion: Why?\nAnswer: B", "\n\nI like it.")
    assert graded_otherwise(PLAIN, 1.0, lambda row: [said + rest for said in right(row) for rest in more]) == []
    later = "{}\n\nQuestion: {}\nAnswer: {}"
    assert (
        graded_otherwise(PLAIN, 0.0, lambda row: [later.format(wrong(row)[0], asked(row.prompt), right(row)[0])]) == []
    )


def test_programs_print_what_is_expected() -> None:
    """Every program of an item is run; what it prints is graded right."""
    programs = {row.prompt_id: PROGRAM.search(asked(row.prompt)) for row in CHAT if row.columns["kind"] == "code"}
    for name, program in programs.items():
        assert program is not None, name
        done = subprocess.run([sys.executable, "-I", "-c", program[1]], capture_output=True, text=True, check=True)
        assert grade(BY_ID[name], done.stdout) == 1.0, (name, done.stdout)


def test_what_can_be_computed_is_computed() -> None:
    """Sums, sorted lists and counts are computed again by an expression beside the item; each is graded right."""
    expressions = {name: case["computed"] for name, case in CASES.items() if "computed" in case}
    computed_kinds = {row.prompt_id for row in CHAT if row.columns["kind"] in ("arithmetic", "lists")}
    numbers = {row.prompt_id for row in CHAT if row.columns["grader"] == "number" and row.columns["kind"] != "code"}
    assert computed_kinds | numbers <= set(expressions)
    program = f"import json\nprint(json.dumps([eval(one) for one in {list(expressions.values())!r}]))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    for name, value in zip(expressions, json.loads(done.stdout), strict=True):
        said = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        assert grade(BY_ID[name], said) == 1.0, (name, said)


def test_an_expression_speaks_of_its_item() -> None:
    """The numbers and words of a computed expression stand in the item, so that it computes what is asked."""
    constants = {"100", "60"}  # of percent and of minutes
    for name, expression in ((name, case["computed"]) for name, case in CASES.items() if "computed" in case):
        question = asked(BY_ID[name].prompt)
        spoken = re.findall(r"'([A-Za-z]+)'", expression)
        numbers = set(re.findall(r"\d{2,}", re.sub(r"'[^']*'", "", expression))) - constants
        assert [one for one in (*spoken, *numbers) if not re.search(rf"\b{one}\b", question)] == [], name


def test_answers_of_a_passage_stand_in_it() -> None:
    """What a passage is asked for is a word of it, and so are the wrong answers that a sentence must not hold."""
    for row in CHAT:
        if row.columns["kind"] == "reading":
            passage = f" {words(asked(row.prompt))} "
            expected = row.columns["expected"]
            assert f" {words(expected['accept'][0])} " in passage, row.prompt_id
            assert any(f" {words(answer)} " in passage for answer in expected["reject"]), row.prompt_id


def test_schemas_and_patterns_are_sound() -> None:
    """Every schema compiles and every form is one that some grader knows."""
    for row in CHAT:
        assert row.columns["grader"] in GRADERS
        if row.columns["grader"] in ("json", "json_block"):
            assert schema_of(row.columns["expected"]).problem is None, row.prompt_id
        if row.columns["grader"] == "number":
            assert number_in(asked(row.prompt)) != row.columns["expected"], row.prompt_id


ANYTHING = st.one_of(
    st.none(),
    st.text(),
    st.lists(st.fixed_dictionaries({"role": st.just("assistant"), "content": st.one_of(st.none(), st.text())})),
)


@given(row=st.sampled_from([*CHAT, *PLAIN]), completion=ANYTHING)
def test_no_reply_makes_a_grader_raise_or_abstain(row: Row, completion: Any) -> None:
    """Whatever a model says is graded, half surrogate pairs and messages without content too."""
    assert grade(row, completion) in (0.0, 1.0)


@pytest.mark.parametrize(
    "part", ["9", "9,", "1 ", "\n", " ", "a ", "A) ", "[", "{{", "- a\n", "is ", "<answer>", "\\boxed{"]
)
def test_a_long_reply_is_graded_at_once(part: str) -> None:
    """A reply of a hundred thousand characters of one thing costs no more than a moment with each grader."""
    rows = {(row.columns["grader"], row in CHAT): row for row in (*CHAT, *PLAIN)}.values()
    long = 100_000 // len(part)
    begun = time.process_time()
    assert graded_otherwise([*rows], 0.0, lambda _: [part * long, f"x{part * long}x", f"9{part * long},"]) == []
    assert time.process_time() - begun < 0.2 * len(rows)


def test_the_digest_covers_items_and_graders() -> None:
    """Numbers graded by other items or other graders are told apart."""
    assert re.fullmatch(r"[0-9a-f]{64}", drift.digest())
    assert drift.digest() == drift.digest()


def test_the_component_is_a_reward_in_trls_form() -> None:
    """One component named `drift` pays from 0 to 1, with the reason in TRL's log, and abstains on no item."""
    component = drift.component()
    assert (component.name, component.low, component.high, component.weight) == ("drift", 0.0, 1.0, 1.0)
    rows = CHAT[:2]
    said: dict[str, list[str]] = {}
    values = component.function(
        prompts=[rows[0].prompt, rows[1].prompt, rows[0].prompt],
        completions=["15", "no idea", "15"],
        grader=["number", "number", "other"],
        expected=["15", "27", "15"],
        options=[None] * 3,
        kind=["arithmetic"] * 3,
        log_extra=said.__setitem__,
    )
    assert values == [1.0, 0.0, None]
    assert said == {"drift_reason": ["correct", "no_number", "no_item"]}


def test_rewards_know_nothing_of_the_suite() -> None:
    """The suite grades with the library; the library names no suite."""
    library = Path(drift.__file__).parents[1] / "rewards"
    for path in library.rglob("*.py"):
        assert "llm_finetuning.drift" not in path.read_text("utf-8"), path
        assert "import drift" not in path.read_text("utf-8"), path
