"""Which tests are too weak to be paid for: those that a program passes that does nothing.

Cheats are run in the sandbox as programs of a model are, so that what is found here is what training would pay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_finetuning.sandbox.jobs import Calls, Exchanges, Limits, Program, Suite, Tests

if TYPE_CHECKING:
    from llm_finetuning.sandbox.pool import Pool

_STUB = "def {name}(*args, **kwargs):\n    return None\n"
_EQUAL_CLASS = """\
class _Equal:
    def _true(self, *others, **more):
        return True

    def _self(self, *others, **more):
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _true
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _self
    __mod__ = __rmod__ = __pow__ = __neg__ = __abs__ = __round__ = __getitem__ = __getattr__ = __call__ = _self

    def __hash__(self):
        return 0

    def __len__(self):
        return 1

    def __iter__(self):
        return iter([self])

    def __index__(self):
        return 1

    __int__ = __index__

    def __float__(self):
        return 1.0

    def __str__(self):
        return ""


"""
_EQUAL = "def {name}(*args, **kwargs):\n    return _Equal()\n"
_ECHO = "import sys\nsys.stdout.write(sys.stdin.read())\n"
_LIMITS = Limits(cpu_s=2.0, wall_s=10.0)


@dataclass(frozen=True, slots=True)
class Lint:
    """What was found of one row's tests."""

    passed_by: tuple[str, ...]  # cheats that pass all of them: `stub`, `always_equal`, `silent`, `echo`
    tried: int  # how many cheats ended by their own fault or passed; the sandbox's own failures do not count

    @property
    def weak(self) -> bool:
        """Whether a program that does nothing would be paid."""
        return bool(self.passed_by)


def cheats(tests: Tests) -> Mapping[str, str]:
    """Return the programs that no test worth paying for lets pass, by name."""
    if isinstance(tests, Exchanges):
        return {"silent": "pass\n", "echo": _ECHO}
    names = sorted({call.function for call in tests.calls} if isinstance(tests, Calls) else _names(tests))
    return {
        "stub": "\n".join(_STUB.format(name=name) for name in names),
        "always_equal": _EQUAL_CLASS + "\n".join(_EQUAL.format(name=name) for name in names),
    }


def lint(rows: Sequence[Tests], pool: "Pool") -> list[Lint]:
    """Return what each row's tests are worth, in order: every cheat of every row is run in the pool."""
    tried = [(place, name, code) for place, tests in enumerate(rows) for name, code in cheats(tests).items()]
    outcomes = pool.run([Program(code=code, tests=rows[place], limits=_LIMITS) for place, _, code in tried])
    passed: list[list[str]] = [[] for _ in rows]
    counted = [0] * len(rows)
    for (place, name, _), outcome in zip(tried, outcomes, strict=True):
        counted[place] += outcome.status != "infrastructure"
        if outcome.status == "passed":
            passed[place].append(name)
    return [Lint(tuple(names), count) for names, count in zip(passed, counted, strict=True)]


def _names(tests: Suite) -> set[str]:
    return {name.partition(".")[0] for name in tests.entry_points}
