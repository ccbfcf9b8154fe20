"""`math_answer` and `choice_answer`: the right answer is paid, near ones and tricks are not, and a reason says why."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning.rewards.choice_answer import ChoiceAnswer
from llm_finetuning.rewards.extraction import POLICIES
from llm_finetuning.rewards.math_answer import MathAnswer

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).parent / "answer_cases.jsonl"
HANDED = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases")) / "math_cases.jsonl"


def judged(text: Any, gold: Any, **options: Any) -> tuple[float | None, str]:
    """Return the value and the reason of one completion."""
    told: dict[str, list[Any]] = {}
    (value,) = MathAnswer(**options)(completions=[text], answer=[gold], log_extra=told.__setitem__)
    return value, told["math_answer_reason"][0]


def disagreements(path: Path) -> list[tuple[Any, ...]]:
    """Return the cases of a file that are judged otherwise than expected."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        (row["gold"], row["completion"], row["expected"], judged(row["completion"], row["gold"]))
        for row in rows
        if row["expected"] is not None and (judged(row["completion"], row["gold"])[0] == 1.0) != row["expected"]
    ]


def test_own_cases() -> None:
    """A thousand cases by kind, right and wrong."""
    assert disagreements(OWN) == []


@pytest.mark.skipif(not HANDED.is_file(), reason=f"{HANDED} is not there; set FINETUNE_CASES")
def test_handed_cases() -> None:
    """The project's cases, gathered from failures of other verifiers."""
    assert disagreements(HANDED) == []


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        (r"\boxed{5}", "5", (1.0, "correct")),
        (r"\boxed{6}", "5", (0.0, "wrong")),
        (r"\boxed{5", "5", (0.0, "unclosed")),
        (r"<think>\boxed{5}", "5", (0.0, "reasoning_unclosed")),
        (r"<think>\boxed{5}</think>", "5", (0.0, "no_answer")),
        (r"\boxed{9}^2", "9", (0.0, "unclear")),
        (r"not \boxed{9}", "9", (0.0, "negated")),
        (r"\boxed{9} or 10", "9", (0.0, "conflicting")),
        ("\\boxed{5}\n\nAnswer: 6", "5", (0.0, "conflicting")),
        (r"\boxed{5+}", "5", (0.0, "unreadable")),
        (r"\boxed{\frac{1}{0}}", "5", (0.0, "undefined")),
        (r"\boxed{9^{9^{9^9}}}", "5", (0.0, "too_large")),
        (r"\boxed{5}", "", (None, "gold_unreadable")),
        (r"\boxed{5}", None, (None, "gold_unreadable")),
        (r"\boxed{5}", r"\frac{5}{", (None, "gold_unreadable")),
        (None, "5", (0.0, "no_answer")),
        ([], "5", (0.0, "no_answer")),
    ],
)
def test_reason(text: Any, gold: Any, expected: tuple[float | None, str]) -> None:
    """Every verdict says why, in one word that can be counted."""
    assert expected == judged(text, gold)


def test_tolerance_only_when_asked() -> None:
    """A rounded answer is wrong until the brief says how far off is near."""
    assert judged(r"\boxed{3.14}", r"\pi")[0] == 0.0
    assert judged(r"\boxed{3.14}", r"\pi", absolute_tolerance=0.01)[0] == 1.0
    assert judged(r"\boxed{3.14}", r"\pi", relative_tolerance=1e-6)[0] == 0.0


@pytest.mark.parametrize("options", [{"extract": "boxd"}, {"relative_tolerance": -1}, {"absolute_tolerance": -0.1}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    """Told when the brief is read, not in the first step."""
    with pytest.raises(ValueError, match=next(iter(options))):
        MathAnswer(**options)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\pi", r"\pi+10^{-60}"),
        (r"\sqrt{2}", r"\sqrt{2}+10^{-200}"),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
        (r"e", r"e+\frac{1}{10^{300}}"),
        ("x", r"x+10^{-80}"),
        ("1", "1.0000000000000000000000000000000000000000000000001"),
    ],
)
def test_far_out_differences_are_seen(gold: str, answer: str) -> None:
    """The precision follows the literals of both sides."""
    assert judged(rf"\boxed{{{answer}}}", gold) == (0.0, "wrong")
    assert judged(rf"\boxed{{{gold}}}", answer)[0] == 0.0


FORMULAS = st.text(alphabet="0123456789xyie+-*/^_{}()[]|,.=<>$ %!\\", max_size=40) | st.lists(
    st.sampled_from(
        [
            r"\frac",
            r"\sqrt",
            "{",
            "}",
            "(",
            ")",
            "x",
            "2",
            "^",
            "_",
            r"\pi",
            r"\cup",
            r"\in",
            "or",
            "<",
            "=",
            ",",
            r"\pm",
            r"\sin",
            r"\log",
            "!",
            "|",
            r"\sum_{k=1}^{3}",
            r"\text{cm}",
            r"\%",
            r"\boxed{",
            r"\begin{pmatrix}",
            "&",
            r"\\",
            "</think>",
            "<answer>",
            "</answer>",
            "####",
            "the answer is ",
            r"\infty",
            r"\{",
            r"\}",
            ":",
            r"\pmod{5}",
        ]
    ),
    max_size=20,
).map("".join)


@given(text=st.text() | FORMULAS, gold=st.text() | FORMULAS, policy=st.sampled_from(sorted(POLICIES)))
def test_any_text_gives_a_value_in_range_or_an_abstention(text: str, gold: str, policy: str) -> None:
    """No completion and no gold makes a reward raise, in text or in chat form."""
    for reward in (MathAnswer(extract=policy), ChoiceAnswer(extract=policy)):
        for wrapped in (text, rf"\boxed{{{text}}}"):
            plain = reward(completions=[wrapped], answer=[gold])
            assert plain[0] in (0.0, 1.0, None)
            assert plain == reward(completions=[[{"role": "assistant", "content": wrapped}]], answer=[gold])


def test_scores_follow_their_completions() -> None:
    """Permuting or splitting a batch permutes or splits its scores."""
    rows = [json.loads(line) for line in OWN.read_text("utf-8").splitlines()]
    draw = random.Random(3)
    draw.shuffle(rows)
    texts, golds = [row["completion"] for row in rows], [row["gold"] for row in rows]
    together = MathAnswer()(completions=texts, answer=golds)

    assert together[::-1] == MathAnswer()(completions=texts[::-1], answer=golds[::-1])
    assert together[:100] == MathAnswer()(completions=texts[:100], answer=golds[:100])


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        ("The answer is (B).", "B", 1.0),
        (r"\boxed{\text{B}}", "B", 1.0),
        (r"\boxed{B) Paris}", "B", 1.0),
        ("I think a good pick is D", "A", 0.0),
        ("A/B/C", "B", 0.0),
        ("The answer is A or B.", "B", 0.0),
        (r"\boxed{\text{Rome}}", "B", 1.0),
        (r"\boxed{\text{Paris}}", "B", 0.0),
        (r"\boxed{B) Paris}", 1, 0.0),
        (r"\boxed{B}", 1, 1.0),
        (r"\boxed{B}", "Rome", 1.0),
        (r"\boxed{E}", "B", 0.0),
        (r"\boxed{B}", "Atlantis", None),
        (r"\boxed{B}", 9, None),
    ],
)
def test_choice(text: str, gold: Any, expected: float | None) -> None:
    """One option, by its letter or its text; a hedge or a contradiction is none."""
    options = ["Paris", "Rome", "Berlin", "Oslo"]
    if text == r"\boxed{B) Paris}" and gold == "B":
        options = ["Rome", "Paris", "Berlin", "Oslo"]
    reward = ChoiceAnswer(choices_column="choices", letters="ABCD")

    assert [expected] == reward(completions=[text], answer=[gold], choices=[options])


def test_import_is_quick() -> None:
    """The package costs under 0.15 s of CPU and loads neither sympy nor mpmath."""
    code = (
        "import sys, time; t = time.process_time(); import llm_finetuning.rewards.math_answer as m; "
        "m.MathAnswer(); s = time.process_time() - t; "
        "print(s, any(n in sys.modules for n in ('sympy', 'mpmath', 'math_verify')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True, timeout=60
    )
    seconds, heavy = run.stdout.split()

    assert float(seconds) < 0.15
    assert heavy == "False"
