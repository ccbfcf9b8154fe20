"""The part of this package that a run needs: what its programs import, and what that imports, read and never run.

Imports inside functions count, since they run one day. What is imported by a computed name is not seen: the reward
library is looked up by name, so its rooms are taken whole.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

ROOMS = ("rewards", "sandbox")
"""Rooms whose digests stand in the gate: each is taken whole, with its data files."""


def imported(path: Path) -> frozenset[str]:
    """Return the dotted names that a file imports; of `from a import b` both `a` and `a.b`, one of which is a module.

    A file of somebody's own that does not parse names nothing. Raises ValueError for a relative import of this package,
    which uses none.
    """
    if path.is_relative_to(PACKAGE):
        return _imported_by_ours(path)
    try:
        return frozenset(_names(path))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()


@functools.cache
def _imported_by_ours(path: Path) -> frozenset[str]:
    return frozenset(_names(path))


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and path.is_relative_to(PACKAGE):
            raise ValueError(f"{path}:{node.lineno}: a relative import")


def closure(programs: Iterable[Path], rooms: Iterable[str] = ROOMS) -> list[Path]:
    """Return the files of this package that the programs and the rooms need, relative to it, sorted.

    Beside modules these are the data files of the rooms, and those that carry the name of a module
    (`trl_options.json` beside `trl_options.py`).
    """
    found: set[Path] = set()
    waiting = list(programs)
    for room in rooms:
        of_room = list(_files(PACKAGE / room))
        found.update(of_room)
        waiting += [path for path in of_room if path.suffix == ".py"]
    while waiting:
        for module in _modules(waiting.pop()):
            if module not in found:
                waiting.append(module)
                found.update(_files(module.parent, f"{module.stem}.*") if module.stem != "__init__" else [module])
    return sorted(path.relative_to(PACKAGE) for path in found)


def _modules(path: Path) -> Iterator[Path]:
    """Yield the files of this package that Python runs for a file's imports: modules, and the packages they are in."""
    for name in imported(path):
        first, *parts = name.split(".")
        if first != PACKAGE.name:
            continue
        for depth in range(len(parts) + 1):
            place = PACKAGE.joinpath(*parts[:depth])
            module = place / "__init__.py" if place.is_dir() else place.with_name(f"{place.name}.py")
            if module.is_file():
                yield module


def _files(folder: Path, pattern: str | None = None) -> Iterator[Path]:
    """Yield the files of a folder (all below it without a pattern), less what Python compiled."""
    for path in folder.rglob("*") if pattern is None else folder.glob(pattern):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path


def outside(files: Iterable[Path]) -> set[str]:
    """Return the first part of every module name that files of this package import from elsewhere."""
    names = {name.partition(".")[0] for path in files if path.suffix == ".py" for name in imported(PACKAGE / path)}
    return names - {PACKAGE.name}
