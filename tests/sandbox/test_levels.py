"""Which level is taken, and that below the last one nothing runs: each on a machine that is made to lack something."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import levels_here
import pytest

from llm_finetuning.sandbox import levels

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

# Chooses in a process that its own seccomp filter keeps from some calls, as a container's profile would.
CHOOSE = """
import json, os, sys
sys.path[:0] = [SCRIPTS]
from llm_finetuning.sandbox import levels
from llm_finetuning.sandbox.box import seccomp, syscalls
from llm_finetuning.sandbox.jobs import Call, Calls, Program, Suite
if DENIED:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    rules = dict.fromkeys(DENIED, seccomp._refuse())
    seccomp.Filter(seccomp._program(rules, seccomp._end(seccomp._ALLOW))).install()
try:
    level = levels.choose(WANTED, BOUNDARY)
except levels.NoLevel as none:
    print(json.dumps({"none": str(none)}))
else:
    from llm_finetuning.sandbox.worker import Worker
    test = Calls([Call("f()", "f", expected=1)])
    with Worker(level, ()) as worker:
        status = worker.run(Program("def f(): return 1", test)).status
        apart = worker.run(Program("def f(): return __import__('os').getcwd()", Suite(APART))).status
    print(json.dumps({"name": level.name, "boundary": level.boundary, "status": status, "apart": apart}))
"""

APART = """
import os
open("mine", "w").close()
try:
    apart = not os.listdir(f())
except OSError:
    apart = True
assert apart and os.listdir(".") == ["mine"]
"""

NAMESPACES = ["unshare"]
LANDLOCK = ["landlock_create_ruleset"]
SECCOMP = ["seccomp"]
BOUNDARY = "docker: a container for this alone"


def choose(denied: list[str], wanted: str | None = None, boundary: str | None = None) -> dict[str, Any]:
    names = {"SCRIPTS": str(SCRIPTS), "DENIED": denied, "APART": APART, "WANTED": wanted, "BOUNDARY": boundary}
    head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    done = subprocess.run([sys.executable, "-c", head + CHOOSE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.skipif("namespaces" not in levels_here.offered(), reason="this machine has no namespaces to lose")
@pytest.mark.parametrize(
    ("denied", "wanted", "boundary", "taken"),
    [
        ([], None, None, "namespaces"),
        ([], None, BOUNDARY, "namespaces"),
        ([], "landlock", None, "landlock"),
        ([], "declared", BOUNDARY, "declared"),
        (LANDLOCK, None, None, "namespaces"),
        (NAMESPACES, None, None, "landlock"),
        (NAMESPACES, None, BOUNDARY, "landlock"),
        (NAMESPACES + LANDLOCK, None, BOUNDARY, "declared"),
    ],
)
def test_the_strongest_level_that_holds_is_taken(
    denied: list[str], wanted: str | None, boundary: str | None, taken: str
) -> None:
    """Strongest first; a boundary is used only where nothing of our own holds; what is taken runs a program."""
    expected = {
        "name": taken,
        "boundary": boundary if taken == "declared" else "",
        "status": "passed",
        "apart": "passed",
    }
    assert choose(denied, wanted, boundary) == expected


@pytest.mark.parametrize(
    ("denied", "wanted", "boundary", "said"),
    [
        (NAMESPACES + LANDLOCK, None, None, ["namespaces: ", "unshare", "landlock: ", "declared: no outside boundary"]),
        (NAMESPACES, "namespaces", BOUNDARY, ["namespaces: ", "sysctl"]),
        (LANDLOCK, "landlock", BOUNDARY, ["landlock: the kernel has no Landlock", "to mend: boot a kernel"]),
        ([], "declared", None, ["declared: no outside boundary is named", "boundary="]),
        ([], "declared", "  ", ["declared: no outside boundary is named"]),
    ],
)
def test_below_the_floor_it_refuses(
    denied: list[str], wanted: str | None, boundary: str | None, said: list[str]
) -> None:
    """Without a level nothing runs; the refusal says for each level why, and what would mend it."""
    told = choose(denied, wanted, boundary).get("none", "")
    assert [part for part in said if part not in told] == []


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_refused(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS and Windows the reason is the system itself, even with a boundary."""
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(levels.NoLevel, match=f"needs Linux, and this is {platform}"):
        levels.choose(None, BOUNDARY)


def test_an_unknown_level_is_an_error() -> None:
    """A level is named by one of the known words."""
    with pytest.raises(ValueError, match="no isolation level 'docker'; there are namespaces, landlock, declared"):
        levels.choose("docker")


def test_choosing_again_costs_nothing() -> None:
    """What was found out once is not tried again in the same process."""
    first = levels.choose(None, BOUNDARY)
    begun = time.process_time()
    assert levels.choose(None, BOUNDARY) == first
    assert time.process_time() - begun < 0.005


def test_a_self_test_that_finds_an_opening_stops_the_box(tmp_path: Path) -> None:
    """A box whose confinement does not hold is not used: the probe names what it could do."""
    (tmp_path / "file").write_text("x")
    target = {"files": [str(tmp_path / "file")], "folders": [(str(tmp_path), "file")], "pid": os.getpid()}
    script = (
        f"import sys, json; sys.path[:0] = [{str(SCRIPTS)!r}]; from llm_finetuning.sandbox.box import probe; "
        f"print(json.dumps(probe.attempt({target!r})))"
    )
    folder = tmp_path / "in"
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False,
                          start_new_session=True)  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"fork", "exec", "socket", "a signal to the trainer", "reading /etc/passwd", f"listing {tmp_path}"} <= {
        *found["open"]
    }
    assert found["broken"] == []
