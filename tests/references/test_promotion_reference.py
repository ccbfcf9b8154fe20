"""What the skill says of a promotion is what the code finds, in the order in which it decides."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from llm_finetuning import comparing
from llm_finetuning.stages.promote import ORDER

PAGE = Path(__file__).resolve().parents[2] / "skills" / "eval-harness-first" / "references" / "promotion.md"
WEIGHTS = {"reject": "blocks", "are wanting": "insufficient", "warn": "warns", "are fine": "fine"}


def given() -> Iterator[tuple[str, str]]:
    """Yield each code with its weight, as the modules give them to findings."""
    for path in Path(comparing.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                weight = ast.literal_eval(named["weight"])
                parts = (
                    [named["code"].body, named["code"].orelse]
                    if isinstance(named["code"], ast.IfExp)
                    else [named["code"]]
                )
                yield from ((ast.literal_eval(part), weight) for part in parts)


def told() -> Iterator[tuple[str, str]]:
    """Yield each code of the page with the weight that its heading says."""
    for section in PAGE.read_text("utf-8").split("\n## Findings that ")[1:]:
        weight = next(weight for words, weight in WEIGHTS.items() if section.startswith(words))
        yield from ((code, weight) for code in re.findall(r"^\| `([a-z-]+)`", section, re.MULTILINE))


def test_every_finding_is_explained_under_its_weight() -> None:
    """A code that is new has a row; one that is gone has none."""
    assert sorted(told()) == sorted(set(given()))


def test_what_keeps_a_candidate_back_has_a_place_in_the_order_and_stands_in_it() -> None:
    """The order gives the reason and the next action, so none may be missing from it."""
    deciding = [code for code, weight in told() if weight in ("blocks", "insufficient")]
    assert tuple(deciding) == ORDER
