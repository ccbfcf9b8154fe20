"""Which names a text of tests takes from the candidate; read by its own scopes, never run."""

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from llm_finetuning.sandbox.box import scope

_BUILTINS = frozenset(dir(builtins)) | {"__file__"}
_WRAPPERS = frozenset(
    re.findall(
        r"\w+",
        "abs all any bool callable dict float frozenset hasattr int isinstance iter len list range repr round set "
        "sorted str tuple type",
    )
)
_RUNNERS = ("pytest", "unittest")  # pytest is answered for by the tester
# Modules whose `import *` is looked up here; they do nothing when imported.
_STARRED = frozenset(
    re.findall(
        r"\w+",
        "bisect collections copy datetime decimal fractions functools heapq itertools math operator random re "
        "statistics string typing",
    )
)


@dataclass(slots=True)
class Imported:
    """What a text imports from the candidate."""

    names: dict[str, str] = field(default_factory=dict)  # as the text calls it -> as the candidate does
    modules: set[str] = field(default_factory=set)  # names that stand for the candidate as a whole


def undefined(source: str, tree: ast.Module) -> set[str]:
    """Return the names that a text uses and neither binds nor finds among the builtins, nor behind an `import *`."""
    return scope.undefined(source) - _starred(tree)


def imported(tree: ast.Module, entry_point: str | None, others: Collection[str]) -> Imported:
    """Return what a text imports from the candidate: from a module that stands for it, or from one of unknown name.

    A module of unknown name stands for the candidate if the `entry_point` is taken from it, or if there are no `others`
    that the text takes from anywhere else.
    """
    found = Imported()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.modules |= {
                alias.asname or alias.name for alias in node.names if alias.name in scope.CANDIDATE_MODULES
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            taken = {alias.asname or alias.name: alias.name for alias in node.names if alias.name != "*"}
            unknown = node.module not in sys.stdlib_module_names and "." not in node.module
            theirs = unknown and (entry_point in taken.values() or not (others or entry_point))
            if node.module in scope.CANDIDATE_MODULES or (theirs and node.module not in _RUNNERS):
                found.names |= taken
    return found


def taken_from(tree: ast.Module, modules: Collection[str]) -> set[str]:
    """Return the names that a text takes from modules by attribute."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    }


def bound(tree: ast.Module) -> set[str]:
    """Return the names that a text binds anywhere: what is in it is not the candidate's."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def uses(tree: ast.Module, dotted: str) -> bool:
    """Tell whether a text reads a name, or the first part of a dotted one."""
    name = dotted.partition(".")[0]
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def tested_builtins(tree: ast.Module) -> set[str]:
    """Return the builtins that assertions compare the results of: a candidate may be named `sum`, as in MBPP.

    Those that tests wrap around a result, as `sorted` in `sorted(f(x)) == [1]`, are never what is tested.
    """
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert):
            continue
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else [test]
        found |= {
            side.func.id
            for side in sides
            if isinstance(side, ast.Call) and isinstance(side.func, ast.Name) and side.func.id in _BUILTINS - _WRAPPERS
        }
    return found


def missing_module(tree: ast.Module, packages: Collection[str], theirs: Imported) -> tuple[int, str] | None:
    """Return line and name of the first import that a test process could not make; None if all are there."""
    known = sys.stdlib_module_names | {*packages, *_RUNNERS} | scope.CANDIDATE_MODULES
    for node in ast.walk(tree):
        for name in _modules_of(node, theirs):
            if name.partition(".")[0] not in known:
                return getattr(node, "lineno", 1), name
    return None


def _modules_of(node: ast.AST, theirs: Imported) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not all(
        (part.asname or part.name) in theirs.names for part in node.names
    ):
        yield "." * node.level + (node.module or "")


def _starred(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(name), names=[ast.alias(name="*")]) if name in _STARRED:
                module = importlib.import_module(name)
                found |= set(getattr(module, "__all__", dir(module)))
    return found
