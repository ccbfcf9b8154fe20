"""Test code as data sets write it, made into a suite: what counts as one test, and what it takes from the candidate."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from llm_finetuning.sandbox.box import scope

CHECK = "check"
"""HumanEval's test function: it is called with the candidate."""

_CASES = ("TestCase", "unittest.TestCase", "IsolatedAsyncioTestCase", "unittest.IsolatedAsyncioTestCase")


class Unreadable(Exception):  # noqa: N818  the data set's fault, told by its line
    """A text that cannot be a test of anything."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        """Take what is wrong and the line of the text, from 1."""
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion that stands alone, with the test that it belongs to."""

    test: str  # "" for the text's own statements
    node: ast.Assert | ast.Call  # an assert, or a call of `self.assertEqual` and its like


def without_start(source: str, tree: ast.Module) -> tuple[str, ast.Module]:
    """Leave out what only starts the tests: `unittest.main()` or a main block. Lines keep their numbers."""
    lines = source.splitlines()
    starts = [statement for statement in tree.body if _starts(statement)]
    for statement in starts:
        lines[statement.lineno - 1 : statement.end_lineno] = [""] * ((statement.end_lineno or 0) - statement.lineno + 1)
    if not starts:
        return source, tree
    source = "\n".join(lines) + "\n"
    return source, ast.parse(source)


def _starts(statement: ast.stmt) -> bool:
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()])):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="unittest" | "pytest"), attr="main"))):
            return True
    return False


def test_names(tree: ast.Module) -> list[str]:
    """Return the test functions and the methods of test classes, in order.

    None where the text itself calls one of them with arguments: then its statements are the tests. Raises Unreadable
    for a test that takes what nobody gives it.
    """
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            if _needs_arguments(node, of_class=False):
                if _is_called(tree, node.name):
                    return []
                raise Unreadable(f"`{node.name}` takes arguments; fixtures are not run here", node.lineno)
            found.append(node.name)
        elif isinstance(node, ast.ClassDef) and is_test_class(node):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name.startswith("test"):
                    if _needs_arguments(method, of_class=True):
                        raise Unreadable(f"`{method.name}` takes arguments; fixtures are not run here", method.lineno)
                    found.append(f"{node.name}.{method.name}")
    return found


def is_test_class(node: ast.ClassDef) -> bool:
    """Tell whether a class holds tests: one of unittest's, or pytest's `class TestSomething` without a base."""
    return is_unittest(node) or (node.name.startswith("Test") and not node.bases)


def is_unittest(node: ast.ClassDef) -> bool:
    """Tell whether a class names unittest's base."""
    return any(ast.unparse(base) in _CASES for base in node.bases)


def _needs_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef, *, of_class: bool) -> bool:
    if node.decorator_list:  # parametrize and patch give them
        return False
    taken = [*node.args.posonlyargs, *node.args.args]
    return len(taken) - len(node.args.defaults) - of_class > 0 or None in node.args.kw_defaults


def _is_called(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for part in ast.walk(statement)
    )


def check_function(tree: ast.Module) -> ast.FunctionDef | None:
    """Return HumanEval's `def check(candidate)`, if it is there."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == CHECK and len(node.args.args) == 1:
            return node
    return None


def check_call(tree: ast.Module) -> ast.Expr | None:
    """Return a statement `check(name)` of the text itself, if it is there."""
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[ast.Name()], keywords=[])) if name == CHECK:
                return node
    return None


def asserting(tree: ast.Module) -> int:
    """Return how many top-level statements assert something: the tests of a text of statements."""
    return sum(asserts for _, asserts in scope.groups(tree))


def assertions(tree: ast.Module) -> Iterator[Assertion] | None:
    """Return the assertions of a text that consists of nothing else but harmless lines; None for any other.

    Harmless are documentation, imports, `pass`, and constants: an assertion that names one is no plain call.
    """
    found: list[Assertion] = []
    return iter(found) if _collect(tree.body, "", found) else None


def _collect(body: Collection[ast.stmt], test: str, found: list[Assertion]) -> bool:
    for statement in body:
        match statement:
            case ast.Assert():
                found.append(Assertion(test, statement))
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name()], value=value) if _is_constant(value):
                pass  # HumanEval's METADATA
            case ast.FunctionDef(name=name, body=inner, decorator_list=[]) if not test and name.startswith("test"):
                if not _collect(inner, name, found):
                    return False
            case ast.ClassDef(name=name, body=inner, decorator_list=[]) if not test and is_unittest(statement):
                if not _collect_methods(name, inner, found):
                    return False
            case _:
                return False
    return True


def _collect_methods(case: str, body: Collection[ast.stmt], found: list[Assertion]) -> bool:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name, body=inner, decorator_list=[]) if name.startswith("test"):
                for line in inner:
                    match line:
                        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"))) as call):
                            found.append(Assertion(f"{case}.{name}", call))
                        case _:
                            if not _collect([line], f"{case}.{name}", found):
                                return False
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                return False
    return True


def _is_constant(node: ast.expr) -> bool:
    return all(
        isinstance(
            part,
            ast.Constant | ast.List | ast.Tuple | ast.Set | ast.Dict | ast.UnaryOp | ast.expr_context | ast.unaryop,
        )
        for part in ast.walk(node)
    )
