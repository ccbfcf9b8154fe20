"""Suites: honest programs pass whatever form the tests have, and no object or trick of a program makes a test hold."""

from typing import Any

import pytest
from honest_suites import HONEST
from unconfined import run

from llm_finetuning.sandbox.box import scope
from llm_finetuning.sandbox.jobs import Outcome, Suite


def suite(
    code: str, source: str, names: tuple[str, ...] = (), entry_points: tuple[str, ...] = (), **more: Any
) -> Outcome:
    return run(code, Suite(source, names, entry_points), **more)


@pytest.mark.parametrize("case", HONEST)
def test_honest_programs_pass(case: str) -> None:
    """Whatever the tests do with what the program gives them, as they do with it in one process."""
    outcome = suite(*HONEST[case])
    assert (outcome.status, outcome.detail) == ("passed", "")
    assert outcome.passed == outcome.total >= 1


PYTEST = """\
import pytest
@pytest.mark.parametrize('x,y', [(1, 1), pytest.param(3, 9, id='z')])
@pytest.mark.parametrize('k', [0, 1])
def test_many(x, y, k): assert f(x) + k == y + k
def test_near(): assert f(0.1) == pytest.approx(0.01) and [f(0.1)] == pytest.approx([0.01])
def test_wrong(): assert f(2) == 5
def test_skips(): pytest.skip('not today')
@pytest.mark.skip(reason='no')
def test_skipped(): pass
def test_exits(): f(1); raise SystemExit(0)
def test_hides():
    try: f('x')
    except BaseException: pass
class TestAll:
    def setup_method(self): self.k = 2
    def test_in_class(self): assert f(self.k) == 4
async def test_later(): assert f(3) == 9
"""
UNITTEST = """\
import unittest
class T(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.base = 1
    def setUp(self): self.v = self.base + 2
    def test_equal(self): self.assertEqual(f(self.v), 9)
    def test_raises(self):
        with self.assertRaises(TypeError): f()
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i): self.assertEqual(f(i), i * i if i < 2 else 0)
    @unittest.skip('no')
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.assertEqual(f(1), 2)
    def test_exits(self): raise SystemExit(0)
class Lazy(unittest.TestCase):
    def run(self, result=None): pass
    def test_nothing(self): self.assertEqual(f(1), 2)
"""


@pytest.mark.parametrize(
    ("source", "names", "held"),
    [
        (PYTEST, ["test_many", "test_near", "TestAll.test_in_class", "test_later", "test_hides"], True),
        (PYTEST, ["test_wrong", "test_skips", "test_skipped", "test_exits"], False),
        (UNITTEST, ["T.test_equal", "T.test_raises"], True),
        (UNITTEST, ["T.test_parts", "T.test_skipped", "T.test_expected", "T.test_exits", "Lazy.test_nothing"], False),
    ],
)
def test_functions_and_cases_are_each_one_test(source: str, names: list[str], held: bool) -> None:
    """A skip, an expected failure and an exit are no pass, and stop no other."""
    for name in names:
        outcome = suite("def f(x):\n    return x * x\n", source, (name,))
        assert (outcome.status, outcome.passed) == (("passed", 1) if held else ("failed", 0)), name
    outcome = suite("def f(x):\n    return x * x\n", source, tuple(names))
    assert (outcome.passed, outcome.total) == (len(names) if held else 0, len(names))


@pytest.mark.parametrize(
    ("source", "status", "passed", "detail"),
    [
        (
            "assert f(1) == 1\nassert f(1) == 2\nassert f(2) == 2\n",
            "failed",
            2,
            "assert f(1) == 2: AssertionError (line 2",
        ),
        ("x = f(1)\nf(1, 2)\nassert x == 1\nassert f(2) == 2\n", "failed", 0, "TypeError"),
        ("assert f(1) == 1\nimport sys\nsys.exit(0)\nassert f(2) == 2\n", "failed", 1, "SystemExit"),
        ("assert f(1) == 1\nraise KeyboardInterrupt\nassert f(2) == 2\n", "failed", 1, "KeyboardInterrupt"),
        ("assert f(1) == 1\nassert g(2) == 2\n", "error", 1, "the program defines no `g`"),
        ("from solution import g\nassert g(2) == 2\n", "error", 0, "the program defines no `g`"),
        ("assert f(1) == 1\nimport os\nos._exit(0)\nassert f(1) == 2\n", "error", 1, "the tests"),
        ("assert f(1) == 1\nwhile True: pass\nassert f(1) == 2\n", "timeout", 1, "the tests"),
    ],
)
def test_tests_that_are_not_reached_failed(source: str, status: str, passed: int, detail: str) -> None:
    """The number of tests is what was declared; what stands alone and raises stops what follows from it."""
    outcome = suite("def f(x):\n    return x\n", source, cpu_s=0.5)
    assert (outcome.status, outcome.passed, outcome.total) == (status, passed, scope.count(source))
    assert detail in outcome.detail


@pytest.mark.parametrize(
    ("source", "names", "entry_points"),
    [
        ("assert f(1) ==\n", (), ()),
        ("import no_such_library\nassert f(1) == 1\n", (), ()),
        ("assert f(1) == 1\nassert slove(1) == 1\n", (), ("f",)),
        ("def test_a():\n    assert f(1) == undefined\n", ("test_a",), ("f",)),
        ("def test_a():\n    assert f(1) == 1\n", ("test_a", "test_b"), ()),
        ("assert 1 == 1\n", (), ()),
        ("import os\nos._exit(0)\nassert f(1) == 1\n", (), ()),
        ("while True: pass\nassert f(1) == 1\n", (), ()),
        ("a = []\na.append(a)\nassert f(a) == 1\n", (), ()),
    ],
    ids=["syntax", "import", "name", "name in a test", "no such test", "no call", "exit", "hang", "argument"],
)
def test_a_fault_of_the_tests_is_not_the_program_s(
    source: str, names: tuple[str, ...], entry_points: tuple[str, ...]
) -> None:
    """It is infrastructure, and says that it lies in the tests."""
    outcome = suite("def f(x):\n    return x\n", source, names, entry_points, cpu_s=0.5)
    assert (outcome.status, outcome.passed) == ("infrastructure", 0)
    assert outcome.detail.startswith("tests: ")


AT_FIND = (
    "import time\nfrom llm_finetuning.sandbox.box.candidate import Candidate\nown, seen = Candidate.perform, []\n"
    "def perform(self, op, args):\n"
    "    seen.append(op)\n"
    "    if seen.count('find') == {time} and op == 'find': {does}\n"
    "    return own(self, op, args)\n"
    "Candidate.perform = perform\n"
    "def f(x): return 0\n"
)
NEST = "def f(x):\n    r = []\n    for _ in range(98): r = [r]\n    return r\n"
DODGES = {
    "names refused": (AT_FIND.format(time=1, does="raise ValueError"), "assert f(2) == 4\nassert [f(3)] == [9]\n"),
    "an import refused": (AT_FIND.format(time=2, does="raise AttributeError"), "from solution import f\nassert f(2)\n"),
    "an import that hangs": (AT_FIND.format(time=2, does="time.sleep(60)"), "from solution import f\nassert f(2)\n"),
    "a list in itself": ("def f(x): x.append(x)\n", "a = [1]\nf(a)\nf(a)\nassert a == [1, 1]\n"),
    "a deep result": (NEST + "def g(x): return 0\n", "assert g([f(1)]) == 5\n"),
    "large results": ("def f(x): return 'a' * (5 << 20)\ndef g(*a): return 0\n", "assert g(f(1), f(2)) == 5\n"),
    "a missing module": ("def f(x): raise ImportError(name='f')\n", "assert f(2) == 4\n"),
    "a missing name": ("def f(x): raise NameError(name='f')\n", "assert f(2) == 4\n"),
}


@pytest.mark.parametrize("dodge", DODGES)
def test_no_program_makes_its_failure_a_fault_of_the_tests(dodge: str) -> None:
    """Whatever it says when names are looked up, and whatever it gives the tests to hand back to it."""
    outcome = suite(*DODGES[dodge], wall_s=4.0)
    assert outcome.status in {"failed", "forgery", "timeout"}
    assert outcome.passed == 0


MAGIC = """\
class {name}:
    def __init__(self, *a): pass
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = lambda s, *a: True
    __ne__ = lambda s, o: False
    __sub__ = __rsub__ = __mod__ = __abs__ = __round__ = lambda s, *a: 0
    __truediv__ = __rtruediv__ = __len__ = __index__ = lambda s, *a: 1
    __and__ = __rand__ = __or__ = __ror__ = __add__ = __radd__ = __mul__ = __rmul__ = lambda s, o: o
    __xor__ = __rxor__ = lambda s, o: set()
    __float__ = lambda s: 0.0
    __hash__ = lambda s: hash(20)
    __class__ = property(lambda s: int)
    __repr__ = __str__ = lambda s: "0"
"""
MAGICIANS = {
    "an object": MAGIC.format(name="E") + "def f(x):\n    return E()\n",
    "a class as the function": MAGIC.format(name="f"),
    "a method that lies of its bases": MAGIC.format(name="E")
    + "import llm_finetuning.sandbox.box.peer as p\nold = p.Peer._tell\n"
    "def tell(self, kind):\n    told = old(self, kind)\n"
    "    return told[:3] + [list(range(9))] if len(told) > 1 else told\n"
    "p.Peer._tell = tell\ndef f(x):\n    return E()\n",
    "None": "def f(x):\n    return None\n",
    "a skip": "import unittest\ndef f(x):\n    raise unittest.SkipTest('passed')\n",
    "an end of iteration": "def f(x):\n    raise StopIteration\n",
    "an asynchronous end of iteration": "def f(x):\n    raise StopAsyncIteration\n",
    "an exit": "def f(x):\n    raise SystemExit(0)\n",
}
ASSERTIONS = [
    "assert f(1) == 20",
    "assert abs(f(1) - 20) < 1e-6",
    "assert abs(20 - f(1)) < 1e-6",
    "assert 20 in f(1)",
    "assert 20 <= f(1) <= 20",
    "assert f(1) & {20} == {20}",
    "assert not f(1) ^ {20}",
    "assert f(1) / 20 == 1",
    "assert f(1) % 20 == 0 and f(1) > 1",
    "assert f(1) in {20}",
    "assert f(1) in [20]",
    "assert [f(1)] == [20]",
    "assert {20: True}[f(1)]",
    "assert max(f(1), 20) == 20 == min(f(1), 20)",
    "assert all(f(x) == 20 for x in [1, 2])",
    "assert all(map(lambda x: f(x) == 20, [1, 2]))",
    "assert isinstance(f(1), int) and f(1) == 20",
    "import math\nassert math.isclose(f(1), 20)",
    "import pytest\nassert f(1) == pytest.approx(20)",
    "import pytest\nassert pytest.approx(20) == f(1)",
    "import pytest\nwith pytest.raises(ValueError):\n    assert f(1) == 20\n",
    "import numpy as np\nassert np.allclose(f(1), 20)",
    "import numpy as np\nassert (np.array([20]) == f(1)).all()",
    "import numpy as np\nnp.testing.assert_equal(f(1), 20)",
    "import numpy as np\nnp.testing.assert_allclose(f(1), [20])",
    "import unittest\nunittest.TestCase().assertEqual(f(1), 20)",
    "import unittest\nunittest.TestCase().assertAlmostEqual(f(1), 20)",
    "import unittest\nunittest.TestCase().assertIn(20, f(1))",
    "import unittest\nunittest.TestCase().assertCountEqual(f(1), [20])",
]


@pytest.mark.parametrize("magician", MAGICIANS)
def test_no_object_makes_an_assertion_hold(magician: str) -> None:
    """Not by comparing, calculating, containing, hashing, converting, raising, or lying about its class."""
    forged = [
        source for source in ASSERTIONS if suite(MAGICIANS[magician], source).status in {"passed", "infrastructure"}
    ]
    assert forged == []


INSIDER = """\
import llm_finetuning.sandbox.box.proxies as p
def f(x, own):
    peer = p.peer_of(own)
    for mark in {marks}:
        try:
            kind = x if p.is_proxy(x) and mark == p.mark_of(x) else peer._proxy(mark, [-1, 'k', ['__call__'], []])
            lies = {{'__eq__': lambda *a: True, '__hash__': lambda *a: 1}}
            return peer.ask('call', peer.ask('call', kind, ('X', (), lies), {{}}), (), {{}})
        except BaseException: pass
    return 0
"""
INSIDERS = {
    "a class made by a metaclass that it was handed": (INSIDER.format(marks="[p.mark_of(x)]"), "class K(type): pass\n"),
    "a class made by a type that it was told of": (INSIDER.format(marks="range(40)"), "class K: pass\n"),
    "an object made by a class that it was told of": (
        INSIDER.format(marks="range(40)").replace(
            "return peer.ask('call', peer", "peer.ask('call', kind, (), {}); return 20 #"
        ),
        "K = 1\n",
    ),
    "an object of the tests in place of a result": ("def f(x, own):\n    return own\n", "K = 1\n"),
    "a changed argument": ("def f(x, own):\n    own.value = 20\n    return own.value + 1\n", "K = 1\n"),
}


@pytest.mark.parametrize("insider", INSIDERS)
def test_the_tests_process_makes_nothing_for_the_candidate(insider: str) -> None:
    """A program that speaks the protocol itself gets no class, and no object of its own making, into the tests."""
    code, handed = INSIDERS[insider]
    outcome = suite(code, handed + "class Own:\n    value = 1\nassert f(K, Own()) == 20\n")
    assert outcome.status in {"failed", "forgery", "error"}
    assert outcome.passed == 0


CALCULATIONS = [
    "assert abs(F(1) - 20) < 1e-6", "assert not 20 - F(1)", "assert F(1) / 20 == 1", "assert int(20 / F(1)) == 1",
    "assert F(1) % 20 == 0", "assert not F(1) ^ {20}", "assert len(F(1) - {20}) == 0",
    "assert round(F(1) - 20, 3) == 0", "assert (F(1) - 20) ** 2 < 1e-6", "assert (F(1) - 20) * (F(1) - 20) == 0",
    "assert 0 + (F(1) - 20) == 0",
    "import unittest\nunittest.TestCase().assertAlmostEqual(F(1), 20)",
]  # fmt: skip


@pytest.mark.parametrize("value", ["0 if n in ('sub', 'mod', 'xor') else 1", "s"])
def test_what_was_subtracted_from_expected_data_is_no_number(value: str) -> None:
    """Not even for a class that the tests name: neither as a number at once, nor as an object that becomes one."""
    names = ("sub", "rsub", "truediv", "rtruediv", "mod", "rmod", "xor", "rxor")
    code = "class F:\n    def __init__(self, x): pass\n" + "".join(
        f"    __{name}__ = lambda s, o, n={name[-3:]!r}: {value}\n" for name in names
    )
    zeros = ("abs", "round", "len", "float", "neg", "pow", "mul", "rmul", "radd")
    code += "".join(f"    __{name}__ = lambda s, *a: 0\n" for name in zeros)
    code += "    __bool__ = lambda s: False\n    __int__ = __index__ = lambda s: 1\n"
    held = [source for source in CALCULATIONS if suite(code, source).status != "failed"]
    assert held == []


PEEKS = [
    "fn.__globals__", "fn.__closure__", "fn.__code__", "fn.__self__",
    "obj.secret.__globals__", "obj._hidden", "obj.__dict__", "obj.module", "obj.case.expected", "mock.return_value",
    "type(obj).__dict__['secret'].__globals__", "list(gen.gi_frame.f_locals)", "gen.gi_frame",
]  # fmt: skip


@pytest.mark.parametrize("peek", PEEKS)
def test_what_the_tests_hand_over_shows_nothing_else(peek: str) -> None:
    """A function is called, a public attribute of the tests' own object is read; nothing leads on to the tests."""
    code = (
        "def f(fn, obj, gen, mock):\n"
        f"    try: found = {peek}\n"
        "    except (AttributeError, TypeError, KeyError): return 'hidden'\n    return repr(found)\n"
    )
    source = (
        "import sys, unittest\nfrom unittest.mock import Mock\nEXPECTED = 'hidden'\n"
        "class TestIt(unittest.TestCase):\n    expected = 20\n"
        "class Own:\n    _hidden = 1\n    module = sys\n    case = TestIt()\n    def secret(self): return 1\n"
        "def helper(): return EXPECTED\n"
        "assert f(helper, Own(), (x for x in [EXPECTED]), Mock(return_value=3)) == EXPECTED\n"
    )
    outcome = suite(code, source)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os\ndef f(x): os._exit(0)\n", "error"),
        ("def f(x):\n    while True: pass\n", "timeout"),
        ("import time\ndef f(x): time.sleep(60)\n", "timeout"),
        ("def f(x): raise MemoryError\n", "memory"),
        ("def f(x):\n    while True: print('x' * 1000)\n", "output_limit"),
        ("import os\ndef f(x): os.kill(os.getpid(), 31)\n", "refused"),
        (("import os, stat\nfor fd in range(3, 64):\n"
            "    try: os.write(fd, b'\\x05\\0\\0\\0[1,2]')\n    except OSError: pass\n"
         "def f(x): return x\n"), "forgery"),
        (("import os\ndef f(x):\n    for fd in range(3, 64):\n        try: os.write(fd, b'\\x05\\0\\0\\0[1,2]')\n"
         "        except OSError: pass\n    return x\n"), "forgery"),
        ("import sys\ndef f(x):\n    a = []\n    a.append(a)\n    return a\n", "failed"),
        ("def f(:\n", "error"),
    ],
    ids=["exit", "loop", "sleep", "memory", "flood", "refused", "early frame", "frame", "cycle", "syntax"],
)  # fmt: skip
def test_every_end_of_the_candidate_has_its_status(code: str, status: str) -> None:
    """Even where the tests swallow every exception: the candidate's end ends the suite."""
    source = "assert True or f(0)\ntry:\n    f(1)\nexcept BaseException:\n    pass\nassert f(1) == 1\n"
    outcome = suite(code, source, cpu_s=0.5, wall_s=2.0)
    assert outcome.status == status
    assert outcome.passed <= 1
    assert outcome.total == 2


@pytest.mark.parametrize("body", ["import os; os._exit(0)", "import os; os.closerange(0, 99)"])
def test_swallowing_the_candidate_s_end_is_no_pass(body: str) -> None:
    """A test that catches everything does not hold once the candidate is gone."""
    source = "try:\n    f(1)\n    assert True\nexcept BaseException:\n    assert True\n"
    outcome = suite(f"def f(x):\n    {body}\n", source)
    assert (outcome.status, outcome.passed) == ("error", 0)


def test_an_exit_of_the_candidate_is_an_error_to_the_tests() -> None:
    """It ends nothing, and is caught as an error of its name."""
    source = "try:\n    f(1)\n    assert False\nexcept Exception as e:\n    assert type(e).__name__ == 'SystemExit'\n"
    assert suite("def f(x):\n    raise SystemExit(0)\n", source).status == "passed"


FRAME = """\
import json, os, stat, sys
def frame(value):
    data = json.dumps(value).encode()
    return len(data).to_bytes(4, "little") + data
def write(data):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, data)
        except OSError: pass
"""


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    for n in range(9): write(frame([n, '0', 'v', 20, None, None]))\n    return 20\n",
        (
            "here = sys._getframe()\nwhile 'first' not in here.f_locals: here = here.f_back\n"
            "token = here.f_locals['first']['token']\n"
            "write(frame([0, token, 'v', None, None]) + frame([1, '0', 'v', 20, None, None]))\ndef f(x): return 20\n"
        ),
    ],
    ids=["during a call", "in place of being ready"],
)
def test_answers_that_nobody_asked_for_are_forgery(code: str) -> None:
    """Though they are well formed."""
    assert suite(FRAME + code, "assert f(1) == 20\nassert f(2) == 20\n").status == "forgery"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("assert f(1)\n", 1),
        ("x = f(1)\nassert x\nassert x\n", 2),
        ("def check(c):\n    assert c(1)\n    assert c(2)\ncheck(f)\n", 1),
        ("def a():\n    assert f(1)\ndef b(): a()\nb()\na()\n", 2),
        ("for x in [1, 2]:\n    assert f(x)\nif f(1):\n    y = 1\n", 1),
        ("import numpy as np\nnp.testing.assert_allclose(f(1), 2)\n", 1),
        ("f(1)\n", 1),
        ("", 1),
    ],
)
def test_a_text_of_statements_is_as_many_tests_as_it_asserts(source: str, count: int) -> None:
    """A definition is none, a call of one that asserts is."""
    assert scope.count(source) == count
