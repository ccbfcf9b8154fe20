"""Golds that are themselves an integral, a limit or a sum: compared by Math-Verify in a process that can be killed."""

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.rewards.math_answer import MathAnswer
from llm_finetuning.rewards.maths import symbolic
from llm_finetuning.rewards.maths.symbolic import Comparer, SymbolicError

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PRIMITIVE = r"\int_0^x e^{-t^2} dt"
ENDLESS = r"\int_0^{\infty} \frac{\sin(x^9)\ln(x)}{x^{7}+e^{x}} dx"


@pytest.fixture(scope="module")
def reward() -> MathAnswer:
    return MathAnswer()


def judged(reward: MathAnswer, gold: str, answer: str) -> tuple[float | None, str]:
    told: dict[str, list[Any]] = {}
    (value,) = reward(completions=[rf"So \boxed{{{answer}}}."], answer=[gold], log_extra=told.__setitem__)
    return value, told["math_answer_reason"][0]


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        (PRIMITIVE, r"\int_0^x e^{-u^2} du", (1.0, "correct")),
        (PRIMITIVE, r"\int_0^x e^{-u^3} du", (0.0, "wrong")),
        (PRIMITIVE, PRIMITIVE, (1.0, "correct")),
        (r"\int_0^1 x dx", r"\frac{1}{2}", (1.0, "correct")),
        (r"\int_0^1 x dx", "0.5000001", (0.0, "wrong")),
        (r"\lim_{x\to 0}\frac{\sin x}{x}", "1", (1.0, "correct")),
        (r"\lim_{x\to 0}\frac{\sin x}{x}", "0", (0.0, "wrong")),
        (r"\int_0^1 x dx", r"1/2 \text{ or } 1/3", (0.0, "opaque")),
        (r"\int_0^1 x dx", r"\foo{1}", (0.0, "opaque")),
        (r"\int_0^1 x dx", r"1/2}} \boxed{\boxed{1/2", (0.0, "unreadable")),
    ],
)
def test_the_gold_decides_that_an_integral_is_evaluated(
    reward: MathAnswer, gold: str, answer: str, expected: tuple[float | None, str]
) -> None:
    """Equal by meaning is paid, near is not, and what is guessed at is not asked about."""
    value, reason = judged(reward, gold, answer)
    assert value == expected[0]
    assert reason == expected[1] or (value == 0.0 and expected[1] in ("opaque", "unreadable"))


def test_restating_the_problem_is_not_paid() -> None:
    """A gold that is a number is never compared with an integral, and no process is started for it."""
    fresh = MathAnswer()
    assert judged(fresh, r"\frac{1}{2}", r"\int_0^1 x dx") == (0.0, "opaque")
    assert fresh._symbolic._process is None


def test_an_endless_comparison_ends_and_the_next_one_works() -> None:
    """The kernel ends the worker; another takes its place."""
    comparer = Comparer()
    begun = time.monotonic()
    assert comparer.same(ENDLESS, r"9^{9^{9^{9}}}") is None
    assert time.monotonic() - begun < symbolic._START_S
    assert comparer.same(r"\int_0^1 x dx", "1/2") is True
    comparer.close()


def test_threads_share_one_worker() -> None:
    """Off the main thread the answers are the same."""
    comparer, found = Comparer(), []
    pairs = [(r"\int_0^1 x dx", "1/2"), (r"\int_0^1 x dx", "1/3")] * 4
    threads = [threading.Thread(target=lambda p=pair: found.append((p[1], comparer.same(*p)))) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([("1/2", True), ("1/3", False)] * 4)
    comparer.close()


def test_the_reward_can_be_sent_to_another_process() -> None:
    """A trainer that scores in worker processes pickles its rewards."""
    reward = MathAnswer()
    assert judged(reward, r"\int_0^1 x dx", "1/2") == (1.0, "correct")
    assert judged(pickle.loads(pickle.dumps(reward)), r"\int_0^1 x dx", "1/2") == (1.0, "correct")  # noqa: S301


def test_a_missing_checker_abstains(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not the model's fault is no zero."""
    monkeypatch.setattr(symbolic, "_LOADER", "raise SystemExit(1)")
    with pytest.raises(SymbolicError, match="math-verify"):
        Comparer().same(r"\int_0^1 x dx", "1/2")
    assert judged(MathAnswer(), r"\int_0^1 x dx", "1/2") == (None, "not_installed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_rank_gets_its_own_worker() -> None:
    """A child must not read what its parent asked."""
    program = (
        "import os\n"
        "from llm_finetuning.rewards.maths.symbolic import Comparer\n"
        "comparer = Comparer()\n"
        r"assert comparer.same(r'\int_0^1 x dx', '1/2') is True" + "\n"
        "first = comparer._process.pid\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        r"    good = comparer.same(r'\int_0^1 x dx', '1/3') is False and comparer._process.pid != first" + "\n"
        "    comparer.close()\n"
        "    os._exit(0 if good else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        r"assert comparer.same(r'\int_0^1 x dx', '1/2') is True" + "\n"
        "assert comparer._process.pid == first\n"
        "comparer.close()\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=SCRIPTS, check=True, timeout=120)


def test_the_trainer_process_never_holds_sympy() -> None:
    """Neither sympy nor Math-Verify is imported where the reward is called."""
    program = (
        "import sys\n"
        "from llm_finetuning.rewards.math_answer import MathAnswer\n"
        r"assert MathAnswer()(completions=[r'\boxed{1/2}'], answer=[r'\int_0^1 x dx']) == [1.0]" + "\n"
        "assert not {'sympy', 'math_verify'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=SCRIPTS, check=True, timeout=120)


def test_what_is_left_of_a_batch_is_abstained_from_after_its_limit() -> None:
    """A flood of slow answers holds a step no longer than the limit and one answer."""
    told: dict[str, list[Any]] = {}
    slow = [rf"\boxed{{\sum_{{n=1}}^{{9999}} \sin(n+{k})}}" for k in range(60)]
    begun = time.monotonic()
    values = MathAnswer(batch_limit_s=0.05)(completions=slow, answer=["5"] * 60, log_extra=told.__setitem__)
    assert time.monotonic() - begun < 10.0
    assert values[0] == 0.0
    assert values[-1] is None
    assert told["math_answer_reason"][-1] == "out_of_time"
    with pytest.raises(ValueError, match="batch_limit_s"):
        MathAnswer(batch_limit_s=0)
