"""A machine of its own for hostile programs: secrets, sockets and victims that a broken sandbox would reach.

A program: `python simulated_host.py JOB` with a job in JSON. It makes namespaces (mounts, processes, network, IPC) in
which `/home`, `/tmp` and `/dev/shm` are empty, lays out a home folder with keys, starts listeners and victims, runs the
programs in the product's pool, and prints what came of each and every harm that it sees. Whatever escapes the sandbox
meets this machine, not the real one. Exit code 77: such a machine cannot be made here.
"""

import ctypes
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CANNOT = 77
HOME = Path("/home/user")
PORT = 9977
SECRETS = {
    ".ssh/id_ed25519": "CANARY-ssh-key",
    ".cache/huggingface/token": "CANARY-hub-token",
    ".netrc": "machine x password CANARY-netrc",
    ".aws/credentials": "CANARY-cloud",
    ".bashrc": "# CANARY-shell",
    "train/checkpoint.bin": "CANARY-weights" * 1000,
}
SOCKETS = ("/tmp/canary.sock", "/home/user/canary.sock", "\0h4canary")  # noqa: S108
COVERED = ("/home", "/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
BARE = "bare"
OWN_FOLDER = "/finetune-box-"
_NEW_SPACES = 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000  # mounts, processes, network, IPC
_NEW_USER = 0x10000000
_BIND = 4096


def main() -> None:
    """Make the machine, run the job in it and leave with its exit code."""
    job = json.loads(sys.argv[1])
    if job.get("inside"):
        sys.stdout.write(json.dumps(Host(job).report()) + "\n")
        return
    try:
        enter(job["uid"])
    except OSError as error:
        sys.stderr.write(f"no namespaces of its own here: {error}\n")
        sys.exit(CANNOT)
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    become_init(job)


def enter(uid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, outer = os.getuid(), os.getgid()
    spaces = _NEW_SPACES if user == 0 else _NEW_SPACES | _NEW_USER
    if user not in {0, uid}:
        raise OSError(1, f"user {user} cannot become user {uid}")
    if libc.unshare(spaces):
        raise OSError(ctypes.get_errno(), "unshare")
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{outer} {outer} 1")


def become_init(job: dict[str, Any]) -> None:
    """Lay out the machine as its process 1, start the job as its user, and bury what nobody else buries."""
    cover([str(SCRIPTS.parent), sys.prefix, sys.base_prefix, *job["keep"]])
    mount("-t", "proc", "proc", "/proc")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    HOME.mkdir(parents=True)
    for name, text in SECRETS.items():
        path = HOME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if os.getuid() == 0:
        for path in (HOME, *HOME.rglob("*")):
            os.chown(path, job["uid"], job["uid"])
    pid = os.fork()
    if pid == 0:
        if os.getuid() != job["uid"]:
            os.setgroups([])
            os.setresgid(job["uid"], job["uid"], job["uid"])
            os.setresuid(job["uid"], job["uid"], job["uid"])
        os.chdir(HOME)
        environ = {"PATH": os.environ["PATH"], "HOME": str(HOME), "HF_TOKEN": "CANARY-env", "WANDB_API_KEY": "CANARY-w"}
        own = json.dumps({**job, "inside": True})
        os.execve(job["python"], [job["python"], "-B", __file__, own], environ)  # noqa: S606
    while True:
        ended, status = os.wait()
        if ended == pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def cover(needed: list[str]) -> None:
    """Cover the folders where people and programs keep things, but for what this program itself is made of."""
    libc = ctypes.CDLL(None, use_errno=True)
    mount("--make-rprivate", "/")
    kept = sorted({path for path in map(os.path.realpath, needed) if path.startswith(tuple(f"{c}/" for c in COVERED))})
    kept = [path for path in kept if not any(path.startswith(f"{other}/") for other in kept if other != path)]
    handles = [os.open(path, os.O_PATH) for path in kept]
    for place in COVERED:
        if Path(place).is_dir():
            mount("-t", "tmpfs", "-o", "mode=1777,size=256m", "tmpfs", place)
    for path, handle in zip(kept, handles, strict=True):
        Path(path).mkdir(parents=True, exist_ok=True)
        if libc.mount(f"/proc/self/fd/{handle}".encode(), path.encode(), None, _BIND, None):
            raise OSError(ctypes.get_errno(), path)
        os.close(handle)


class Host:
    """The machine from inside: what is on it, and what has changed."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Start listeners and victims."""
        sys.path[:0] = [str(SCRIPTS), *job.get("paths", [])]
        self.job = job
        self.heard: list[str] = []
        self.links: list[socket.socket] = []
        self._listen(socket.AF_INET, ("127.0.0.1", PORT), socket.SOCK_STREAM)
        self._listen(socket.AF_INET, ("127.0.0.1", PORT), socket.SOCK_DGRAM)
        for address in SOCKETS:
            self._listen(socket.AF_UNIX, address, socket.SOCK_STREAM)
        self.victims = [subprocess.Popen(["sleep", "36000"]) for _ in range(2)]
        self.files = snapshot()
        self.priority = os.getpriority(os.PRIO_PROCESS, 0)
        self.clock = time.time() - time.monotonic()

    def _listen(self, family: int, address: Any, kind: int) -> None:
        link = socket.socket(family, kind)
        link.bind(address)
        self.links.append(link)
        if kind == socket.SOCK_STREAM:
            link.listen(64)
            threading.Thread(target=self._accept, args=(link,), daemon=True).start()
        else:
            threading.Thread(target=self._receive, args=(link,), daemon=True).start()

    def _accept(self, link: socket.socket) -> None:
        while True:
            self._receive(link.accept()[0], once=True)

    def _receive(self, link: socket.socket, *, once: bool = False) -> None:
        self.heard.append("connected" if once else "ready")
        while True:
            self.heard.append(repr(link.recv(100)))
            if once:
                return

    def harms(self, *, running: bool) -> list[str]:
        """Return everything that differs from an unharmed machine; a `running` pool has folders of its own."""
        found = [f"a socket heard {text}" for text in self.heard if text != "ready"]
        now = snapshot()
        found += [
            f"{path}: {self.files.get(path)} -> {now.get(path)}"
            for path in sorted({*self.files, *now} - set(SOCKETS))  # sockets are touched when they are used
            if self.files.get(path) != now.get(path) and not (running and OWN_FOLDER in path)
        ]
        for victim in self.victims:
            state = status_of(victim.pid)
            if state.get("State", "gone")[0] != "S":
                found.append(f"a victim is {state.get('State', 'gone')}")
            if os.getpriority(os.PRIO_PROCESS, victim.pid) != self.priority:
                found.append("a victim was slowed")
        if abs(time.time() - time.monotonic() - self.clock) > 1:
            found.append("the clock was moved")
        found += [
            f"{kind} is left behind"
            for kind in ("shm", "sem", "msg")
            if len(Path(f"/proc/sysvipc/{kind}").read_text().splitlines()) > 1
        ]
        return found

    def report(self) -> dict[str, Any]:
        """Run the job and return what came of it."""
        from llm_finetuning.sandbox.pool import Pool

        before = census()
        mounts = Path("/proc/self/mounts").read_text()
        bare = self.job["level"] == BARE
        pool: Any = BarePool() if bare else Pool(workers=self.job["workers"], level=self.job["level"])
        programs = self._programs()
        count = self.job.get("count") or len(programs)
        pool.run([program for case, program in programs if case["kind"] == "honest"][:4])
        warm = resident_mb()
        begun = time.monotonic()
        ends: list[dict[str, Any]] = []
        harms: dict[str, str] = {}
        for at in range(0, count, self.job["chunk"]):
            places = range(at, min(at + self.job["chunk"], count))
            chunk = [alone(programs[place % len(programs)], place) for place in places]
            outcomes = pool.run([program for _, program in chunk])
            for (case, _), outcome in zip(chunk, outcomes, strict=True):
                ends.append(end_of(case, outcome))
                if any(word in outcome.output + outcome.detail for word in ("LEAK:", "CANARY")):
                    harms.setdefault(f"{case['name']} leaked {outcome.output[:200]!r}", "")
            for harm in self.harms(running=True):
                harms.setdefault(harm, f" (one of {', '.join(case['name'] for case, _ in chunk)})")
        facts = {
            "seconds": time.monotonic() - begun,
            "growth_mb": resident_mb() - warm,
            "level": BARE if bare else pool.level.name,
        }
        pool.close()
        time.sleep(0.2)
        if Path("/proc/self/mounts").read_text() != mounts:
            harms["mounts have changed"] = ""
        for harm in (
            *self.harms(running=False),
            *(f"process {pid} is left: {words_of(pid)}" for pid in census() - before),
        ):
            harms.setdefault(harm, " (after the end)")
        for victim in self.victims:
            victim.kill()
            victim.wait()
        return {"ends": ends, "harms": [harm + whence for harm, whence in harms.items()], "uid": os.getuid(), **facts}

    def _programs(self) -> list[tuple[dict[str, Any], Any]]:
        from llm_finetuning.sandbox.jobs import Limits, Program
        from llm_finetuning.sandbox.tasks import read_tests

        found = []
        for folder in self.job["corpora"]:
            for case in json.loads((Path(folder) / "index.json").read_text("utf-8")):
                if case.get("numpy") and not has_numpy():
                    continue
                code = (Path(folder) / case["file"]).read_text("utf-8")
                tests = read_tests(case["tests"], as_suite=self.job["mode"] == "suite").tests
                honest = case["kind"] == "honest"
                limits = Limits(cpu_s=8.0, wall_s=40.0) if honest else Limits(cpu_s=0.6, wall_s=3.0, memory_mb=512)
                found.append((case, Program(code=code, tests=tests, limits=limits)))
        if "mix" not in self.job:
            return found
        known = {case["name"]: (case, program) for case, program in found}
        honest, hostile = ([known[name] for name in names] for names in self.job["mix"])
        # Two honest ones to a hostile one, each list in turn.
        turns = range(len(honest) * len(hostile))
        pick = [(honest[2 * turn % len(honest)], honest[(2 * turn + 1) % len(honest)]) for turn in turns]
        return [part for turn in turns for part in (*pick[turn], hostile[turn % len(hostile)])]


class BarePool:
    """Runs programs beside their tests and believes their exit status: what the machine must be seen to suffer from."""

    def run(self, programs: list[Any]) -> list[Any]:
        """Return an outcome a program."""
        from llm_finetuning.sandbox.jobs import Outcome, Suite

        outcomes = []
        for program in programs:
            tests = program.tests.source if isinstance(program.tests, Suite) else ""
            command = [sys.executable, "-c", f"{program.code}\n{tests}"]
            with tempfile.TemporaryFile() as out:  # a pipe would wait for whatever the program left running
                code = subprocess.run(command, stdout=out, stderr=out, timeout=60, check=False).returncode
                out.seek(0)
                printed = out.read().decode("utf-8", "replace")
            outcomes.append(Outcome("failed" if code else "passed", 0, 1, output=printed))
        return outcomes

    def close(self) -> None:
        """Do nothing; whatever still runs is left."""


def alone(part: tuple[dict[str, Any], Any], place: int) -> tuple[dict[str, Any], Any]:
    """Return a program with a line of its own, so that no two of a batch are run as one."""
    case, program = part
    return case, dataclasses.replace(program, code=f"{program.code}\n# {place}\n")


def has_numpy() -> bool:
    import importlib.util

    return importlib.util.find_spec("numpy") is not None


def snapshot() -> dict[str, str]:
    """Return every file of the covered folders with what can change about it; what was kept visible is left out."""
    found = {}
    for place in COVERED:
        device = Path(place).stat().st_dev
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if os.lstat(f"{folder}/{name}").st_dev == device]
            for name in (*folders, *names):
                path = f"{folder}/{name}"
                state = os.lstat(path)
                contents = "" if name in folders else f" {state.st_size} {state.st_mtime_ns}"
                found[path] = f"{state.st_mode:o} {state.st_uid}{contents}"
    return found


def census() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()}


def words_of(pid: int) -> str:
    status = status_of(pid)
    return f"{status.get('Name')} {status.get('State')}"


def end_of(case: dict[str, Any], outcome: Any) -> dict[str, Any]:
    numbers = {"passed": outcome.passed, "total": outcome.total, "cpu_s": outcome.cpu_s, "wall_s": outcome.wall_s}
    end = {"name": case["name"], "kind": case["kind"], "status": outcome.status, "detail": outcome.detail[:200]}
    return {**end, **numbers}


def status_of(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def resident_mb() -> float:
    return int(status_of(os.getpid())["VmRSS"].split()[0]) / 1024


def interpreter_for(uid: int) -> str | None:
    """Return a Python that this user can start, or None: one below a closed home folder is not."""
    if os.getuid() not in (0, uid):
        return None
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if python is None:
            continue
        try:
            options: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if os.getuid() != uid else {}
            program = "import sys; sys.exit(sys.version_info < (3, 10))"
            if (
                subprocess.run([python, "-c", program], check=False, capture_output=True, cwd="/", **options).returncode
                == 0
            ):
                return python
        except OSError:
            continue
    return None


if __name__ == "__main__":
    main()
