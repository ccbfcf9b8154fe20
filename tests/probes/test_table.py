"""The table of families is whole: every family is there, fits some task and is documented."""

from importlib import import_module
from pathlib import Path

import probe_runs
import pytest

from llm_finetuning import brief, lineage
from llm_finetuning.commands import probe
from llm_finetuning.probes import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "skills/grpo-rlvr-training/references/probes.md"

TASKS = {"choices": "choice_answer", "boxed": "math_answer", "documents": "json_schema", "calls": "tool_call"}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The families that found something to try on four tasks; programs are tried elsewhere."""
    found = {"forged_tests", "program_layout"}
    for task, use in TASKS.items():
        options = "\n    options: {schema: {type: object}}" if use == "json_schema" else ""
        run_dir = probe_runs.scored_run(tmp_path_factory.mktemp(task) / "run", task, f"  - use: {use}{options}")
        probe.run(run_dir)
        results = lineage.current_probe(brief.load(run_dir)).results
        found |= {result.probe.family for result in results}
        broken_documents = {"json_values"}  # a schema says nothing of values
        found |= broken_documents if use == "json_schema" else set()
    return found


def test_every_family_finds_something_to_try(tried: set[str]) -> None:
    """A family that fits no task is dead."""
    assert set(FAMILIES) <= tried


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_its_module_and_its_row(name: str) -> None:
    """One file a family, and the reference says what it tries."""
    module, kind, what = FAMILIES[name]
    assert callable(import_module(f"llm_finetuning.probes.{module}").attempts)
    assert f"| `{name}` | {kind} | {what} |" in REFERENCE.read_text("utf-8")
