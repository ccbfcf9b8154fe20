"""What a text of tests is made of: its statements, what counts as one test, and the names it takes from elsewhere."""

import ast
import builtins
import importlib.util
import symtable
import sys
from collections.abc import Iterator

CANDIDATE_MODULES = frozenset(
    "solution candidate submission main your_module your_code code_under_test module_under_test answer program".split()  # noqa: SIM905  words read best so
)
"""Module names by which tests import from the candidate, as data sets write them."""


def count(source: str) -> int:
    """Return how many tests a text of statements is: its top-level statements that assert, or one for the whole.

    A definition asserts nothing; a call of a function of the text that asserts does. Raises SyntaxError.
    """
    return max(1, sum(asserts for _, asserts in groups(ast.parse(source))))


def groups(tree: ast.Module) -> list[tuple[list[ast.stmt], bool]]:
    """Return the statements in order: one that asserts stands alone, the others are together."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    found: list[tuple[list[ast.stmt], bool]] = []
    for statement in tree.body:
        if _asserts(statement, functions):
            found.append(([statement], True))
        elif found and not found[-1][1]:
            found[-1][0].append(statement)
        else:
            found.append(([statement], False))
    return found


def _asserts(statement: ast.stmt, functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> bool:
    seen: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        for node in _executed(waiting.pop()):
            if isinstance(node, ast.Assert):
                return True
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assert"):
                return True
            if isinstance(node.func, ast.Name) and node.func.id in functions and node.func.id not in seen:
                seen.add(node.func.id)
                waiting.extend(functions[node.func.id].body)
    return False


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, but not what is inside a definition: that runs only when it is called."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield current
        waiting.extend(ast.iter_child_nodes(current))


def undefined(source: str) -> set[str]:
    """Return the names that a text uses and neither binds nor finds among the builtins."""
    table = symtable.symtable(source, "tests", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    waiting = list(table.get_children())
    while waiting:
        scope = waiting.pop()
        waiting.extend(scope.get_children())
        for symbol in scope.get_symbols():
            if symbol.is_global():
                (bound if symbol.is_assigned() else used).add(symbol.get_name())
    known = vars(builtins)  # asked for each name: to walk all of them would copy the memory that they are in
    return {name for name in used - bound if name not in known and name not in {"__file__", "__name__"}}


def library_modules(tree: ast.Module, names: set[str]) -> set[str]:
    """Return which of the names are used as a module of the library would be: `math.pi`, never `math(...)`."""
    known = {name for name in names if name in sys.stdlib_module_names}
    if not known:
        return known
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return known - called


def unknown_modules(tree: ast.Module, entry_points: set[str]) -> set[str]:
    """Return the modules that are not there and that only the candidate's names are taken from."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and "." not in node.module:
            taken = {alias.name for alias in node.names}
            theirs = taken <= entry_points or taken == {"*"} or not entry_points
            if theirs and not _is_there(node.module):
                found.add(node.module)
    return found


def _is_there(module: str) -> bool:
    if module in sys.modules or module in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
