"""The commands in what findings say: each can be pasted once RUN is the run's name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_finetuning import findings, stages
from llm_finetuning.findings.again import with_commands
from llm_finetuning.findings.success import for_run

MODULES = [path for room in (findings, stages) for path in sorted(Path(str(room.__file__)).parent.glob("*.py"))]
COMMAND = re.compile(r"`(finetune [a-z][^`]*)`")


def literals(path: Path) -> Iterator[str]:
    """Yield every text of a module that is no docstring, the parts of an f-string joined with a mark between."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | bare):
            yield node.value


def commands() -> list[tuple[str, str]]:
    return [(path.name, found) for path in MODULES for text in literals(path) for found in COMMAND.findall(text)]


def test_every_command_names_the_run_or_how_it_does_without() -> None:
    """A verb alone is refused: `Missing argument 'RUN_DIR'`."""
    listed = commands()

    assert len(listed) > 5
    assert {"readings.py", "success.py"} <= {name for name, _ in listed}
    wanting = [(name, line) for name, line in listed if not re.search(r"\s(RUN\b|NEXT\b|--\w|\{\})", line)]
    assert wanting == []


@pytest.mark.parametrize("code", ["false-pass", "false-fail", "readers-disagree"])
def test_a_slip_of_the_reader_is_mended_by_two_commands(code: str) -> None:
    """How a label is given again, in the page and by a table, and that the gate is all that has to be asked then."""
    action = for_run(with_commands("read 3/1", code, last="gate"), "my run")

    assert "RUN" not in action
    assert "`finetune review 'my run'` and key `k` back" in action
    assert "`finetune review 'my run' --import labels.csv --reader NAME`" in action
    assert "then `finetune gate 'my run'`" in action


def test_no_other_action_speaks_of_labels() -> None:
    """A broken reward is no slip of the reader."""
    assert "review" not in with_commands("fix `r`", "reward-nan", last="gate")
