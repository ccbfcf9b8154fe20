"""`unit_tests`: a program that passes the row's tests, run in the sandbox.

Method: facts measured on hostile and honest programs; see docs/benchmarks.md. Precedents: HumanEval (Chen et al., 2021,
arXiv:2107.03374), MBPP (Austin et al., 2021, arXiv:2108.07732), APPS (Hendrycks et al., 2021, arXiv:2105.09938).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.rewards.code_text import POLICIES, extract_code, with_prefix
from llm_finetuning.rewards.contract import Judgement, LogExtra, report, text_of
from llm_finetuning.sandbox.jobs import Limits, Outcome, Program, Suite, Tests
from llm_finetuning.sandbox.shared import PoolSettings, pool_for
from llm_finetuning.types import Text

DETAIL_SUFFIX = "_detail"
LANGUAGES = ("python",)

_MEMORY_MB = (64, 1 << 20)
_CPU_S = (0.1, 3600.0)
# A wall limit below this many times the CPU limit would fail honest programs on a busy machine.
_WALL_PER_CPU = 4.0

GOOD_PROGRAM = Program(
    code="def add(a, b):\n    return a + b\n",
    tests=Suite(source="assert add(2, 3) == 5\nassert add('a', 'b') == 'ab'\n", entry_points=("add",)),
)
"""What every sandbox must pass."""

BAD_PROGRAM = Program(
    code="class Any:\n    def __eq__(self, other):\n        return True\n\ndef add(a, b):\n    return Any()\n",
    tests=GOOD_PROGRAM.tests,
)
"""What no sandbox may pass: a result that says it equals anything."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What is said of one completion."""

    judgement: Judgement
    detail: str = ""


class UnitTests:
    """Pays 1.0 for a program that passes all of its tests, else 0.0; abstains where the program is not at fault.

    Options: `tests_column` and `entry_point_column`, where the tests and the name of the tested function stand;
    `prefix_column`, code of the prompt that the completion goes on from; `extract`, one of `code_text.POLICIES`;
    `partial`, whether the share of passed tests is paid; `level`, the isolation wanted, and `boundary`, an outside
    boundary by name; `workers`, how many programs run at once; `cpu_s`, `wall_s` and `memory_mb`, the limits of a
    program; `packages`, what it may import beside the standard library; `language`.
    """

    range = (0.0, 1.0)
    rooms = ("sandbox",)  # code outside the rewards' own room that decides what is paid

    def __init__(
        self,
        *,
        tests_column: str = "tests",
        entry_point_column: str | None = None,
        prefix_column: str | None = None,
        extract: str = "last_fence",
        partial: bool = False,
        level: str | None = None,
        boundary: str | None = None,
        workers: int | None = None,
        cpu_s: float = 5.0,
        wall_s: float | None = None,
        memory_mb: int = 1024,
        packages: Sequence[str] = ("numpy",),
        language: str = "python",
    ) -> None:
        """Take the options of the brief; raises ValueError for one that does not fit, and starts nothing."""
        if extract not in POLICIES:
            raise ValueError(f"extract: {extract!r} is not one of {', '.join(POLICIES)}")
        if language not in LANGUAGES:
            raise ValueError(f"language: {language!r} is not one of {', '.join(LANGUAGES)}")
        if workers is not None and workers < 1:
            raise ValueError("workers is at least 1")
        if not _CPU_S[0] <= cpu_s <= _CPU_S[1]:
            raise ValueError(f"cpu_s is a number of seconds between {_CPU_S[0]:g} and {_CPU_S[1]:g}")
        if wall_s is not None and wall_s < cpu_s:
            raise ValueError("wall_s is at least cpu_s: a program that computes needs both")
        if not _MEMORY_MB[0] <= memory_mb <= _MEMORY_MB[1]:
            raise ValueError(f"memory_mb is between {_MEMORY_MB[0]} and {_MEMORY_MB[1]}")
        if isinstance(packages, str) or not all(isinstance(name, str) and name.isidentifier() for name in packages):
            raise ValueError("packages is a list of module names, as in [numpy]")
        self.__name__ = "unit_tests"
        self._tests_column = tests_column
        self._entry_point_column = entry_point_column
        self._prefix_column = prefix_column
        self._policy = extract
        self._partial = partial
        self._language = language
        self._limits = Limits(
            cpu_s=cpu_s, wall_s=wall_s or max(Limits().wall_s, cpu_s * _WALL_PER_CPU), memory_mb=memory_mb
        )
        self._settings = PoolSettings(workers=workers, level=level, packages=tuple(packages), boundary=boundary)
        _check_level(level)

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if a column that an option names is not there at all."""
        tasks = self._tasks(completions, columns)
        ended = self._run([task for task in tasks if isinstance(task, Program)])
        findings = [ended[_key(task)] if isinstance(task, Program) else task for task in tasks]
        if log_extra is not None:
            log_extra(self.__name__ + DETAIL_SUFFIX, [finding.detail for finding in findings])
        return report(log_extra, self.__name__, [finding.judgement for finding in findings])

    def ready(self) -> str:
        """Return the isolation level that programs will run at.

        Raises MachineryFailure, which ends a command with exit code 4, where the machine offers none that is allowed.
        """
        from llm_finetuning.sandbox.levels import NoLevel

        try:
            return pool_for(self._settings).level.name
        except NoLevel as refusal:
            raise MachineryFailure(f"reward `{self.__name__}`: {_one_line(refusal)}") from None

    def rehearse(self) -> tuple[Outcome, Outcome]:
        """Return how a known-good and a known-bad program end under this reward's own limits and in its own pool."""
        import dataclasses

        programs = [dataclasses.replace(program, limits=self._limits) for program in (GOOD_PROGRAM, BAD_PROGRAM)]
        good, bad = pool_for(self._settings).run(programs)
        return good, bad

    def _tasks(self, completions: Sequence[Text], columns: Mapping[str, Any]) -> list[Program | _Finding]:
        """Return for each completion what is to be run, or why nothing is."""
        cells = columns[self._tests_column]
        nothing: list[Any] = [None] * len(completions)
        entry_points = columns[self._entry_point_column] if self._entry_point_column else nothing
        prefixes = columns[self._prefix_column] if self._prefix_column else nothing
        read: dict[str, Tests | str] = {}  # a group has one cell
        return [
            self._task(text_of(completion), cell, entry_point or None, prefix or "", read)
            for completion, cell, entry_point, prefix in zip(completions, cells, entry_points, prefixes, strict=True)
        ]

    def _task(
        self, text: str, cell: Any, entry_point: str | None, prefix: str, read: dict[str, Tests | str]
    ) -> Program | _Finding:
        key = repr((entry_point, cell))
        if key not in read:
            read[key] = self._read(cell, entry_point)
        tests = read[key]
        if isinstance(tests, str):
            return _Finding(Judgement(None, "tests_unreadable"), tests)
        found = extract_code(self._policy, text)
        if found.code is None:
            return _Finding(Judgement(0.0, found.reason))
        code = with_prefix(prefix, found.code, entry_point) if self._prefix_column else found.code
        return Program(code=code, tests=tests, limits=self._limits, language=self._language)

    def _read(self, cell: Any, entry_point: str | None) -> Tests | str:
        """Return the tests of a cell, or in words why there are none."""
        from llm_finetuning.sandbox.tasks import Unreadable, read_tests

        try:
            return read_tests(cell, entry_point=entry_point, packages=self._settings.packages).tests
        except Unreadable as fault:
            place = f"line {fault.line}: " if fault.line is not None else ""
            return f"{place}{fault.reason}"

    def _run(self, programs: Sequence[Program]) -> Mapping[tuple[str, int], _Finding]:
        """Run each different program once; identical completions of a group share what is found."""
        from llm_finetuning.sandbox.levels import NoLevel

        distinct = {_key(program): program for program in programs}
        if not distinct:
            return {}
        try:
            outcomes = pool_for(self._settings).run(list(distinct.values()))
        except NoLevel as refusal:
            return dict.fromkeys(distinct, _Finding(Judgement(None, "no_sandbox"), _one_line(refusal)))
        return {key: self._finding(outcome) for key, outcome in zip(distinct, outcomes, strict=True)}

    def _finding(self, outcome: Outcome) -> _Finding:
        if outcome.status == "passed":
            return _Finding(Judgement(1.0, outcome.status))
        counted = f"{outcome.passed} of {outcome.total} tests passed" if outcome.total else ""
        detail = "; ".join(part for part in (counted, outcome.detail) if part)
        if outcome.status == "infrastructure":
            return _Finding(Judgement(None, outcome.status), detail)
        # Who tampers, or does what is not allowed, earns nothing for the tests before it.
        counts = self._partial and outcome.total and outcome.status not in ("forgery", "refused")
        return _Finding(Judgement(outcome.passed / outcome.total if counts else 0.0, outcome.status), detail)


def _check_level(level: str | None) -> None:
    """Raise ValueError for a level that no machine has; whether this one has it is asked when a program is run."""
    from llm_finetuning.sandbox.levels import LEVELS

    if level is not None and level not in LEVELS:
        raise ValueError(f"level: {level!r} is not one of {', '.join(LEVELS)}")


def _key(program: Program) -> tuple[str, int]:
    # The tests of a group are one object, made from one cell.
    return program.code, id(program.tests)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
