"""What a program in a box can do to this machine: nothing, at each level, as root and as an ordinary user."""

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import confined
import escapes
import levels_here
import pytest

from llm_finetuning.sandbox import worker as worker_module
from llm_finetuning.sandbox.box import landlock
from llm_finetuning.sandbox.jobs import Call, Calls, Limits, Outcome, Program, Suite
from llm_finetuning.sandbox.levels import LEVELS
from llm_finetuning.sandbox.worker import Worker, WorkerFailure

LEVELS_HERE = levels_here.offered()
USERS = levels_here.users()
SECRET = "CANARY-secret"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of an ordinary user, where this is root, or of the tests' own user."""
    options = {"user": USERS[-1]} if os.getuid() == 0 else {}
    with subprocess.Popen(["sleep", "600"], **options) as process:  # type: ignore[call-overload]
        yield process
        process.kill()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that everybody may read and write, in a folder that everybody may use."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    file = tmp_path / "canary"
    file.write_text(SECRET, "utf-8")
    file.chmod(0o666)
    return file


@pytest.mark.parametrize("uid", USERS, ids=lambda uid: "root" if uid == 0 else "user")
@pytest.mark.parametrize(
    ("level", "at_most"),
    [(level, None) for level in LEVELS_HERE]
    + [("landlock", version) for version in range(1, landlock.version()) if "landlock" in LEVELS_HERE],
)
def test_every_attempt_is_refused(
    level: str, at_most: int | None, uid: int, canary: Path, victim: subprocess.Popen[bytes]
) -> None:
    """Each attempt to reach out fails with an error that the program sees, and the host is as it was."""
    tries = escapes.programs(
        {
            "FILE": repr(str(canary)),
            "FOLDER": repr(str(canary.parent)),
            "SOCKET": repr(str(canary.parent / "socket")),
            "VICTIM": str(victim.pid),
        }
    )
    before = canary.stat()

    outcomes = confined.run_as(uid, level, list(tries.values()), at_most)

    told = {name: outcome for name, outcome in zip(tries, outcomes, strict=True) if outcome["status"] != "passed"}
    assert told == {}
    assert canary.read_text("utf-8") == SECRET
    assert (canary.stat().st_mtime_ns, canary.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert [path.name for path in canary.parent.iterdir()] == ["canary"]
    assert victim.poll() is None


def test_the_attempts_work_where_nothing_is_confined(tmp_path: Path) -> None:
    """The attempts that do no lasting harm succeed on the bare host, so that their refusal inside says something."""
    harmless = ["fork", "subprocess", "socket", "unix socket", "read", "write", "truncate", "list", "create", "passwd",
                "own environment", "processes", "shared memory", "hard link", "through a link", "a socket by number",
                "anonymous file", "inotify", "pipe of the file system"]  # fmt: skip
    file = tmp_path / "canary"
    tries = escapes.programs({"FILE": repr(str(file)), "FOLDER": repr(str(tmp_path)), "SOCKET": "''", "VICTIM": "0"})
    (tmp_path / "cwd").mkdir()
    said = {}
    for name in harmless:
        file.write_text(SECRET, "utf-8")
        code = tries[name] + "print(attempt())"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path / "cwd", capture_output=True, text=True, check=False)
        said[name] = done.stdout.splitlines()[-1:]
    assert said == {name: ["done"] for name in harmless}
    Path("/dev/shm/mine").unlink()  # noqa: S108


HONEST = {
    "files": "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n  open(d + '/a', 'w').write('x'); "
    "r = open(d + '/a').read() == 'x'",
    "copies": "import shutil, os\nopen('a', 'w').write('x'); shutil.copy2('a', 'b'); os.chmod('b', 0o600)\n"
    "r = open('b').read() == 'x'",
    "touched": "import pathlib\npathlib.Path('a').touch(); pathlib.Path('a').touch()\nr = pathlib.Path('a').exists()",
    "flushed": "import os\nwith open('a', 'w') as f:\n  f.write('x'); f.flush(); os.fsync(f.fileno())\nr = True",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor as P\n"
    "with P(8) as p: r = sum(p.map(abs, range(9))) == 36",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(0.01); return 1\nr = asyncio.run(f()) == 1",
    "thread from asyncio": "import asyncio\nasync def f(): return await asyncio.to_thread(abs, -1)\n"
    "r = asyncio.run(f()) == 1",
    "alarm": "import signal, time\ngot = []\nsignal.signal(signal.SIGALRM, lambda *a: got.append(1))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.1); r = got == [1]",
    "signal to itself": "import os, signal\ngot = []\nsignal.signal(signal.SIGUSR1, lambda *a: got.append(1))\n"
    "os.kill(os.getpid(), signal.SIGUSR1); r = got == [1]",
    "deep recursion": "import sys\nsys.setrecursionlimit(9000)\ndef d(n): return n and 1 + d(n - 1)\n"
    "r = d(8000) == 8000",
    "random": "import os, random, secrets, uuid\nr = len(os.urandom(8)) == 8 and len(secrets.token_bytes(4)) == 4",
    "devices": "open('/dev/null', 'w').write('x'); r = open('/dev/zero', 'rb').read(2) == bytes(2)",
    "library": "import sqlite3, ssl, zlib, bz2, lzma, hashlib, ctypes, xml.etree.ElementTree, email, decimal\n"
    "r = sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,)",
    "map": "import mmap\nm = mmap.mmap(-1, 4096); m[0] = 7; r = m[0] == 7",
    "time zone": "import time\nr = time.tzname[0] == 'UTC'",
    "hashes": "r = hash('a') == hash('a') and len({'a', 'b'}) == 2",
    "memory": "x = bytearray(200 << 20); r = len(x) == 200 << 20",
    "home": "import os\nr = os.path.expanduser('~') == os.getcwd() and os.listdir('.') == []",
}


@pytest.mark.parametrize("uid", USERS, ids=lambda uid: "root" if uid == 0 else "user")
@pytest.mark.parametrize("level", LEVELS_HERE)
def test_honest_programs_work(level: str, uid: int) -> None:
    """Threads, event loops, files of its own, signals to itself and the standard library work as outside."""
    codes = [
        f"def attempt():\n  r = False\n  {code.replace(chr(10), chr(10) + '  ')}\n  return 'refused' if r else 'wrong'"
        for code in HONEST.values()
    ]
    outcomes = confined.run_as(uid, level, codes)
    assert {
        name: outcome for name, outcome in zip(HONEST, outcomes, strict=True) if outcome["status"] != "passed"
    } == {}


INSIDE = """
import ctypes, os, struct, sys
def attempt():
    found = []
    for number in range(200):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    text = repr((dict(os.environ), sys.argv, sys.orig_argv, os.getcwd()))
    if found not in ([0, 1, 2, 3], [0, 1, 2, 3, 4]) or 'CANARY' in text:
        return f'{found} {text}'
    rights = ctypes.create_string_buffer(24)
    if ctypes.CDLL(None).capget(struct.pack('=Ii', 0x20080522, 0), rights) or any(rights.raw):
        return f'capabilities: {rights.raw!r}'
    if os.read(0, 1) != b'' or os.getuid() == 0 and MUST_DROP:
        return 'a standard input or root'
    return 'refused'
"""


@pytest.mark.parametrize("uid", USERS, ids=lambda uid: "root" if uid == 0 else "user")
@pytest.mark.parametrize("level", LEVELS_HERE)
def test_nothing_of_the_caller_is_handed_on(level: str, uid: int) -> None:
    """A program has its channel and its output, no other descriptor, no variable of the caller's and no root."""
    code = INSIDE.replace("MUST_DROP", str(level == "namespaces"))
    assert confined.run_as(uid, level, [code])[0]["detail"] == ""


SMALL = {"cpu_s": 1.0, "wall_s": 3.0, "memory_mb": 200, "files_mb": 4, "threads": 16}
EXCESSES = {
    "processor time": ("while True: pass", "timeout"),
    "processor time in threads": (
        "import threading as t\ndef s():\n  while 1: pass\nfor _ in range(4): t.Thread(target=s).start()\ns()",
        "timeout",
    ),
    "processor time in the kernel": ("import os\nwhile True: os.stat('.')", "timeout"),
    "ignoring signals": (
        "import signal\nfor s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        "timeout",
    ),
    "sleep": ("import time\ntime.sleep(60)", "timeout"),
    "memory": ("x = bytearray(300 << 20)", "memory"),
    "memory in pieces": ("x = []\nwhile True: x.append(bytearray(1 << 20))", "memory"),
    "one file": ("with open('a', 'wb') as f:\n  for _ in range(8): f.write(bytes(1 << 20))", "failed"),
    "threads": (
        (
            "import threading\nstop = threading.Event()\n"
            "for _ in range(64): threading.Thread(target=stop.wait, daemon=True).start()\nstop.wait(1)"
        ),
        None,
    ),
    "many files": ("import time\nfor n in range(4000): open(str(n), 'w').close()\ntime.sleep(1)", None),
    "many bytes": (
        "import time\nfor n in range(40):\n  with open(str(n), 'wb') as f: f.write(bytes(1 << 20))\ntime.sleep(1)",
        None,
    ),
    "open files": ("x = [open('/dev/null') for _ in range(1000)]", "failed"),
    "output": ("while True: print('x' * 100000)", "output_limit"),
}


@pytest.mark.parametrize("uid", USERS, ids=lambda uid: "root" if uid == 0 else "user")
@pytest.mark.parametrize("level", LEVELS_HERE)
def test_limits_end_a_program(level: str, uid: int) -> None:
    """Whatever a program uses too much of, it ends for that reason and is scored as its own fault."""
    codes = [
        (f"def attempt():\n  {code.replace(chr(10), chr(10) + '  ')}\n  return 'refused'", SMALL)
        for code, _ in EXCESSES.values()
    ]
    outcomes = confined.run_as(uid, level, codes)
    told = {name: outcome["status"] for name, outcome in zip(EXCESSES, outcomes, strict=True)}
    wanted = {name: status or told[name] for name, (_, status) in EXCESSES.items()}
    assert told == wanted
    assert {told[name] for name, (_, status) in EXCESSES.items() if status is None} <= {"failed", "refused"}
    assert all(outcome["cpu_s"] < 3 and outcome["wall_s"] < 12 for outcome in outcomes)


LEAVES = """
import builtins, math, os, sys, json
def attempt():
    if os.listdir('.') or hasattr(builtins, 'mark') or hasattr(math, 'mark') or 'mark' in sys.modules:
        return 'a trace: ' + repr(os.listdir('.'))
    builtins.mark = math.mark = 1
    sys.modules['mark'] = math
    json.loads = lambda text: {'status': 'passed'}
    folder = '.'
    for depth in range(60):
        folder += '/' + 'd' * 60
        os.mkdir(folder)
    for name in ('\U0001f600' * 63, 'a' * 255, b'\\xff' * 255):
        os.mkdir(name)
        for number in range(12):
            os.mkdir(os.fsencode(name) + b'/' + b'b' * 250 + b'%02d' % number)
    os.umask(0o777)
    os.mkdir('closed', 0o300)
    open('.hidden', 'w').close()
    os.symlink('/', 'root')
    return 'refused'
"""


@pytest.mark.parametrize("uid", USERS, ids=lambda uid: "root" if uid == 0 else "user")
@pytest.mark.parametrize("level", LEVELS_HERE)
def test_a_program_meets_nothing_of_the_one_before(level: str, uid: int) -> None:
    """Files, modules and patches are gone for the next program, however they were left."""
    outcomes = confined.run_as(uid, level, [LEAVES] * 4)
    assert [outcome["detail"] for outcome in outcomes] == [""] * 4


def processes_of(session: int) -> list[int]:
    """Return the processes of a session; a box is one, whose id is its keeper's."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text("latin-1").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found.append(int(path.name))
    return found


def state_around(boxes: Path) -> dict[str, object]:
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "mounts": Path("/proc/self/mounts").read_text(),
        "folders": sorted(boxes.glob("finetune-box-*")),
        "children": Path(f"/proc/self/task/{os.getpid()}/children").read_text(),
    }


RUNS_ON = Program("import time\ndef f(): time.sleep(60)", Calls([Call("f()", "f")]), Limits(wall_s=60))
ADDS = Program("def f(a, b): return a + b", Calls([Call("f(2, 3) == 5", "f", (2, 3), expected=5)]))


@pytest.mark.parametrize("how", ["close", "kill the keeper", "end of the process"])
@pytest.mark.parametrize("level", LEVELS_HERE)
def test_a_box_leaves_nothing_behind(level: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a box ends, its processes, its folder, its mounts and its descriptors are gone at once."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # beside other tests of this machine
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = state_around(tmp_path)
    if how == "end of the process":
        script = (
            f"import sys; sys.path[:0] = [{str(confined.SCRIPTS)!r}]\n"
            "from llm_finetuning.sandbox.worker import Worker\nfrom llm_finetuning.sandbox.levels import LEVELS\n"
            f"worker = Worker(LEVELS[{level!r}], ())\nprint(worker.process_id, flush=True)\nsys.stdin.read()"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as trainer:
            assert trainer.stdout is not None
            keeper = int(trainer.stdout.readline())
            assert len(processes_of(keeper)) == 3
            trainer.kill()
    else:
        worker = Worker(LEVELS[level], packages=())
        keeper = worker.process_id
        assert worker.run(ADDS).status == "passed"
        assert len(processes_of(keeper)) == 3
        if how == "kill the keeper":
            os.kill(keeper, signal.SIGKILL)
        worker.close()
    deadline = time.monotonic() + 5
    while (processes_of(keeper) or state_around(tmp_path) != before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes_of(keeper) == []
    assert state_around(tmp_path) == before


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_only_allowed_packages_can_be_imported(level: str) -> None:
    """A package of this environment that was not allowed does not exist for a program; an allowed one does."""
    code = (
        "def f(name):\n  try: __import__(name)\n  except ModuleNotFoundError: return 'no such module'\n  return 'there'"
    )
    names = {"pytest": "no such module", "hypothesis": "no such module", "numpy": "there"}
    pytest.importorskip("numpy")
    tests = Calls([Call(name, "f", (name,), expected=expected) for name, expected in names.items()])
    with Worker(LEVELS[level], packages=("numpy",)) as worker:
        outcome = worker.run(Program(code, tests))
    assert (outcome.status, outcome.detail) == ("passed", "")


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_other_packages_cannot_be_read(level: str) -> None:
    """The interpreter's own folder of packages, which lies within the standard library, is closed to a program."""
    hidden = list(Path(sysconfig.get_path("stdlib"), "site-packages").rglob("*.py"))
    if not hidden:
        pytest.skip("this interpreter has no packages of its own")
    code = "def f(path):\n  try: return open(path).read(9)\n  except OSError: return 'refused'"
    test = Call("f", "f", (str(hidden[0]),), expected="refused")
    with Worker(LEVELS[level], packages=()) as worker:
        assert worker.run(Program(code, Calls([test]))).detail == ""


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_a_box_that_does_not_hold_is_not_used(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test of every start names what it could reach, and the worker is not there."""
    monkeypatch.setattr(worker_module, "_real_file_of_home", lambda: [Path(os.__file__)])  # which programs may read
    with pytest.raises(WorkerFailure, match=f"not refused inside: reading {os.__file__}"):
        Worker(LEVELS[level], packages=())
    monkeypatch.undo()
    Worker(LEVELS[level], packages=()).close()


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_numpy_works(level: str) -> None:
    """An allowed package with libraries of its own computes, in modules too that were not loaded ahead."""
    pytest.importorskip("numpy")
    code = (
        "import numpy as np\nfrom numpy import fft, linalg, random, polynomial\n"
        "def f(): return float(linalg.norm(fft.ifft(fft.fft(np.arange(64.0)))) + random.default_rng(0).integers(1))"
    )
    test = Call("f()", "f", expected=292.137, relation="close", relative_tolerance=1e-3)
    with Worker(LEVELS[level], packages=("numpy",)) as worker:
        outcome = worker.run(Program(code, Calls([test])))
    assert (outcome.status, outcome.detail) == ("passed", "")


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_the_tester_and_the_candidate_are_apart(level: str) -> None:
    """Test code and candidate run in folders and processes that do not meet."""
    code = "import os\ndef look():\n  open('mine', 'w').close()\n  return [os.getcwd(), os.listdir('.')]"
    suite = (
        "import os\nopen('of_the_tests', 'w').close()\nplace, files = look()\n"
        "assert place != os.getcwd()\nassert files == ['mine']\nassert os.listdir('.') == ['of_the_tests']\n"
        "try:\n    os.listdir(place)\nexcept OSError:\n    apart = True\nelse:\n    apart = False\nassert apart"
    )
    with Worker(LEVELS[level], packages=()) as worker:
        outcomes: list[Outcome] = [worker.run(Program(code, Suite(suite))) for _ in range(2)]
    assert [(outcome.status, outcome.detail) for outcome in outcomes] == [("passed", "")] * 2
