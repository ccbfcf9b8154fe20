"""Which part of a reply is read as the answer, in a chat and in a text that a base model continues."""

from typing import Any

import pytest

from llm_finetuning.drift.graders import DriftGrade

QUESTION = "How many apples are 7 apples and 8 apples?"
CHAT = [{"role": "user", "content": QUESTION}]
TEXT = f"Question: Which colour is snow?\nAnswer: White\n\nQuestion: {QUESTION}\nAnswer:"
OPTIONS = ["cat", "hen", "horse", "whale"]
BLUE = {"accept": ["blue"], "reject": ["red", "green"]}


def paid(prompt: Any, completion: str, grader: str, expected: Any) -> tuple[float | None, str]:
    said: dict[str, list[str]] = {}
    (value,) = DriftGrade()(
        prompts=[prompt],
        completions=[completion],
        grader=[grader],
        expected=[expected],
        options=[OPTIONS if grader == "choice" else None],
        log_extra=said.__setitem__,
    )
    return value, said["drift_reason"][0]


@pytest.mark.parametrize(
    ("said", "chat", "text"),
    [
        ("15", 1, 1),
        ("15 apples.", 1, 1),
        ("7 + 8 = 15", 1, 1),
        ("7 and 8 make 15, of course.", 1, 1),
        ("15, because 8 more than 7 is that.", 1, 1),
        ("15 (that is 7 + 8)", 1, 1),
        ("15 is more than 7.", 1, 1),
        ("15 comes from 7 and 8.", 1, 1),
        ("7 and 8 are 15", 1, 1),
        ("16 is more than 15.", 0, 0),
        ("15\n\nThere were 7, and 8 came.", 1, 1),
        ("Seven and eight:\n7 + 8 = 15", 1, 0),  # a text's answer stands on its first line
        ("1. There are 7 apples.\n2. Then 8 apples come.\n3. That makes 15 apples.", 1, 0),
        (r"Adding gives \boxed{15}.", 1, 1),
        ("<answer>15</answer>", 1, 1),
        ("<think>7 + 8 is 16?</think> 15", 1, 1),
        ("15\nQuestion: How much is 1 + 1?\nAnswer: 2", 0, 1),  # in a chat the last number counts
        ("15 or 16", 0, 0),
        ("16 or 15", 0, 0),
        ("15 and 16", 0, 0),
        ("14, 15", 0, 0),
        ("14\n15", 0, 0),
        ("15\n16", 0, 0),
        ("1.5", 0, 0),
        ("15:00", 0, 0),
        ("-15", 0, 0),
        ("fifteen", 0, 0),
        (r"\boxed{15", 0, 0),
        ("<answer>15", 0, 0),
        ("<answer>14</answer><answer>15</answer>", 0, 0),
        ("<think>It is 15", 0, 0),
        (QUESTION, 0, 0),
        (f"{QUESTION} 15", 1, 1),
        ("The answer is 16. I first thought 15", 0, 0),
    ],
)
def test_a_number_is_read(said: str, chat: float, text: float) -> None:
    """One final number, with its unit, sum, mark or reason; several are none."""
    assert paid(CHAT, said, "number", "15")[0] == chat
    assert paid(TEXT, said, "number", "15")[0] == text


@pytest.mark.parametrize(
    ("said", "chat", "text"),
    [
        ("blue", 1, 1),
        ("**Blue**.", 1, 1),
        ("It is blue", 1, 1),
        ("Blue, since Mara has the red one.", 0, 0),  # one sentence with two of the answers says two
        ("Blue. The other one is red.", 1, 1),
        ("Blue\n\nThe kite of Mara is red.", 1, 1),
        ("His kite is blue.\nHe likes it.", 1, 1),
        ("Let me see.\nHis kite is blue.", 1, 0),
        ("The answer is blue.", 1, 1),
        ("<answer>blue</answer>", 1, 1),
        ("blue or red", 0, 0),
        ("red, blue", 0, 0),
        ("red\nblue", 0, 0),
        ("blue\nred", 0, 0),
        ("It is not blue.", 0, 0),
        ("It isn't blue", 0, 0),
        ("bluebell", 0, 0),
        ("Blue it was.\nThe answer is red.", 0, 1),
        ("Blue is the wrong colour", 0, 0),
        ("The answer is red. Blue is wrong.", 0, 0),
        ("It is blue " + "and it flies well " * 12, 0, 0),
    ],
)
def test_a_word_is_read(said: str, chat: float, text: float) -> None:
    """The word alone, as a first clause, or in a short sentence that neither denies it nor names another answer."""
    assert paid(CHAT, said, "text", BLUE)[0] == chat
    assert paid(TEXT, said, "text", BLUE)[0] == text


@pytest.mark.parametrize(
    ("said", "chat", "text"),
    [
        ("B", 1, 1),
        ("(b)", 1, 1),
        ("B) hen", 1, 1),
        ("hen", 1, 1),
        ("A hen lays eggs.", 1, 1),
        ("The answer is B.", 1, 1),
        ("B) hen\n\nA hen lays eggs, and a cat does not.", 1, 1),
        ("A", 0, 0),
        ("B) cat", 0, 0),
        ("A) hen", 0, 0),
        ("A) hen\nIt lays eggs.", 0, 0),
        ("B or C", 0, 0),
        ("A hen, a cat and a whale.", 0, 0),
        ("A) cat\nB) hen\nC) horse\nD) whale", 0, 0),
        ("B) hen\nC) horse", 0, 0),
        ("It is not a hen.", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_choice_is_read(said: str, chat: float, text: float) -> None:
    """The letter or the text of one option; two options, or a letter with another option's text, are none."""
    assert paid(CHAT, said, "choice", "B")[0] == chat
    assert paid(TEXT, said, "choice", "B")[0] == text


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("fox, bear, horse", 1),
        ("Fox, bear and horse.", 1),
        ("fox, bear, and horse", 1),
        ("['fox', 'bear', 'horse']", 1),
        ("- fox\n- bear\n- horse", 1),
        ("Sorted list:\n1. fox\n2. bear\n3. horse", 1),
        ("The sorted list is: fox, bear, horse", 1),
        ("The words are fox, bear, horse", 1),
        ("fox, bear, horse\nThat is the order.", 1),
        ("fox, horse, bear", 0),
        ("fox, bear", 0),
        ("fox, bear, horse, fox", 0),
        ("fox bear horse", 0),
        ("a fox, bear, horse", 0),
    ],
)
def test_a_list_is_read(said: str, value: float) -> None:
    """The elements in order, whatever separates them and however they are introduced."""
    for prompt in (CHAT, TEXT):
        assert paid(prompt, said, "list", ["fox", "bear", "horse"])[0] == value


@pytest.mark.parametrize(
    ("said", "chat", "text"),
    [
        ("- a\n- b", 1, 1),
        ("\n- a\n- b\n", 1, 1),
        ("- a\n- b\n\nQuestion: What now?\nAnswer: x", 0, 1),
        ("- a\n- b\nQuestion: What now?", 0, 1),
        ("Sure:\n- a\n- b", 0, 0),
        ("- a\n- b\n- c", 0, 0),
        ("`- a\n- b`", 0, 0),
        ("<think>two</think>\n- a\n- b", 1, 1),
    ],
)
def test_a_form_is_read_strictly(said: str, chat: float, text: float) -> None:
    """All of a chat's reply has to have the form; of a text, all up to the next question or empty line."""
    pattern = r"- \w+\n- \w+"
    assert paid(CHAT, said, "pattern", pattern)[0] == chat
    assert paid(TEXT, said, "pattern", pattern)[0] == text
    document, schema = '{"said": "- a"}', {"const": {"said": "- a"}}
    assert paid(CHAT, said.replace("- a\n- b", document), "json", schema)[0] == chat * ("`" not in said)
    assert paid(TEXT, said.replace("- a\n- b", document), "json", schema)[0] == text * ("`" not in said)


def test_reasons_tell_nothing_from_wrong() -> None:
    """Why an answer is not paid stands beside the value, for the one who reads transcripts."""
    assert paid(CHAT, " ", "number", "15") == (0.0, "empty")
    assert paid(CHAT, "<think>15", "number", "15") == (0.0, "reasoning_unclosed")
    assert paid(CHAT, "16", "number", "15") == (0.0, "wrong")
    assert paid(CHAT, "many", "number", "15") == (0.0, "no_number")
    assert paid(CHAT, "15\n16", "number", "15") == (0.0, "several")
    assert paid(CHAT, "an owl", "choice", "B") == (0.0, "no_choice")
    assert paid(CHAT, "15", "number", None) == (None, "no_item")
    assert paid(CHAT, "15", "poem", "15") == (None, "no_item")
