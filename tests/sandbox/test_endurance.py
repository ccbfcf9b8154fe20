"""Thousands of programs in one pool, a third of them hostile: none lost, none wrong, nothing left behind."""

import os
import sys
from pathlib import Path

import levels_here
import pytest

HERE = Path(__file__).parent
COUNT = int(os.environ.get("FINETUNE_ENDURANCE", "600"))
"""Executions at each level; the benchmark's figure is 10,000."""

QUICK_ATTACKS = (
    *("metaclass_equal", "exit_in_call", "int_subclass", "write_everywhere", "read_keys", "leave_files", "daemon"),
    *("kill_all", "patch_unittest", "gc_hunt", "tcp", "close_all", "stop_iteration", "spawned"),
)
HONEST = ("h_even_squares", "h_memo", "h_counter", "h_raises", "h_in_place", "h_generator", "h_float", "h_files")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["calls", "suite"])
@pytest.mark.parametrize("level", levels_here.offered())
def test_many_executions(level: str, mode: str) -> None:
    """Every execution ends as its program must, and the machine is as it was: processes, files, mounts, memory."""
    report = levels_here.run_on_host(
        uid=levels_here.users()[0],
        level=level,
        mode=mode,
        corpora=[str(HERE / "attacks")],
        workers=2,
        chunk=200,
        count=COUNT,
        mix=[list(HONEST), list(QUICK_ATTACKS)],
        timeout=3500,
    )

    ends = report["ends"]
    hostile = [end for end in ends if end["kind"] == "attack"]
    assert len(ends) == COUNT
    assert len(hostile) == COUNT // 3
    assert [end for end in hostile if end["status"] in ("passed", "infrastructure")] == []
    assert [end for end in ends if end["kind"] == "honest" and end["status"] != "passed"] == []
    assert report["harms"] == []
    assert report["growth_mb"] < 32
    rate = COUNT / report["seconds"]
    sys.stdout.write(f"\n{COUNT} executions at {level}, {mode}: {rate:.0f}/s, {report['growth_mb']:+.1f} MB\n")
