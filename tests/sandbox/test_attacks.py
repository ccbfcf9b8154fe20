"""Hostile programs score nothing and harm nothing, honest ones pass, at every level, as root and as a user."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import levels_here
import pytest
import simulated_host

HERE = Path(__file__).parent
CORPORA = [str(HERE / "attacks"), *(f"{cases}/attacks" for cases in filter(None, [os.environ.get("FINETUNE_CASES")]))]
"""The programs of this repository, and a folder of the same form where there is one."""

MOST_GROWTH_MB = 48  # of the process that owns the pool, over a corpus


def cases(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(folder) / "index.json").read_text("utf-8"))
    return found


def test_the_corpus_is_whole() -> None:
    """Every program is listed once, of every kind there are some, and there are honest ones to fail by mistake."""
    listed = cases(str(HERE / "attacks"))
    assert sorted(case["file"] for case in listed) == sorted(path.name for path in (HERE / "attacks").glob("*.py"))
    kinds = Counter(case["category"] for case in listed)
    assert kinds["honest"] >= 12
    assert sum(kinds.values()) - kinds["honest"] >= 40
    assert set(kinds) == {
        *("forge-exit", "forge-object", "forge-patch", "forge-channel", "introspect", "state-leak", "secrets"),
        *("network", "write", "resources", "process", "honest"),
    }


def test_the_simulated_host_sees_harm() -> None:
    """Without a sandbox the same programs read, write, connect, forge and stay: the tests below can fail."""
    names = ["exit_in_call", "read_keys", "daemon", "tcp", "abstract_socket", "leave_files", "change_metadata"]
    report = levels_here.run_on_host(
        uid=levels_here.users()[-1],
        level=simulated_host.BARE,
        mode="suite",
        corpora=CORPORA[:1],
        workers=1,
        chunk=1,
        mix=[["h_memo"], names],
        count=3 * len(names),
    )
    seen = "\n".join(report["harms"])
    for words in (
        "read_keys leaked",
        "checkpoint.bin",
        "left_by_candidate",
        "HARM:tcp",
        "HARM:unix",
        "is left",
    ):
        assert words in seen, (words, seen)
    assert [end["status"] for end in report["ends"] if end["name"] == "exit_in_call"] == ["passed"]


@pytest.mark.parametrize("mode", ["calls", "suite"])
@pytest.mark.parametrize("level", levels_here.offered())
@pytest.mark.parametrize("uid", levels_here.users(), ids=lambda uid: "root" if uid == 0 else f"user{uid}")
def test_attacks_earn_nothing_and_leave_no_trace(uid: int, level: str, mode: str) -> None:
    """Score zero for each attack by its own fault, full marks for each honest program, and an unharmed machine."""
    report = levels_here.run_on_host(uid=uid, level=level, mode=mode, corpora=CORPORA, workers=2, chunk=32)

    ends = report["ends"]
    assert [end for end in ends if end["kind"] == "attack" and end["status"] in ("passed", "infrastructure")] == []
    assert [end for end in ends if end["kind"] == "honest" and end["status"] != "passed"] == []
    assert report["harms"] == []
    assert report["growth_mb"] < MOST_GROWTH_MB
    assert len(ends) >= 52
