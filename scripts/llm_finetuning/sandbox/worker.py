"""One box, from the host's side: started, given programs one at a time, and ended without a trace."""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from llm_finetuning.sandbox import layout
from llm_finetuning.sandbox.box import frames
from llm_finetuning.sandbox.box.rooms import empty
from llm_finetuning.sandbox.jobs import Outcome, Program
from llm_finetuning.sandbox.levels import Level
from llm_finetuning.sandbox.wire import outcome_from_json, program_to_json

_START_S = 60.0
_END_S = 10.0
_MAX_REASON = 500  # characters of what a judge said last
_REMOVE_TRIES, _REMOVE_PAUSE_S = 20, 0.05
_GRACE_S = 15.0  # beyond a program's own wall limits, after which its judge is taken to hang


class WorkerFailure(Exception):  # noqa: N818  it is what happened to the worker
    """The box could not be started, or was lost; the text says why. Never the fault of a program by itself."""


class Worker:
    """A box at a level. It runs one program at a time, from any thread; a forked copy of it starts a box of its own."""

    def __init__(
        self,
        level: Level,
        packages: tuple[str, ...] = ("numpy",),
        *,
        landlock_at_most: int | None = None,
    ) -> None:
        """Start the box and have it tested from inside; raises WorkerFailure.

        `landlock_at_most` treats the kernel's Landlock as an older version, to try what it would hold.
        """
        self.level = level
        self.packages = packages
        self._landlock_at_most = landlock_at_most
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._folder = ""
        self._start()
        _workers.add(self)

    def run(self, program: Program, *, slowdown: float = 1.0) -> Outcome:
        """Judge a program; raises WorkerFailure if the box is lost over it, after which the worker is closed.

        `slowdown` stretches the wall limit where more workers run than there are cores.
        """
        return self.run_job(program_to_json(program), slowdown=slowdown)

    def run_job(self, form: dict[str, Any], *, slowdown: float = 1.0) -> Outcome:
        """Judge a program in the form of `wire.program_to_json`; else as `run`."""
        job = {**form, "limits": {**form["limits"], "wall_s": form["limits"]["wall_s"] * slowdown}}
        # A suite is a candidate and a tester, each with a wall limit of its own.
        seconds = 2 * job["limits"]["wall_s"] + _GRACE_S
        with self._lock:
            if self._closed:
                raise WorkerFailure("the worker is closed")
            if self._socket is None:
                self._start()
            assert self._socket is not None
            deadline = time.monotonic() + seconds
            try:
                frames.send(self._socket, job, deadline)
                told = frames.receive(self._socket, deadline)
                if "fault" not in told:
                    return outcome_from_json(told)
                reason = " ".join(str(told["fault"]).split())[-_MAX_REASON:]
            except frames.Late:
                reason = "its judge did not answer in time"
            except frames.Broken as error:
                reason = str(error)
            self._closed = True
            self._end()
        raise WorkerFailure(f"the box is lost: {reason}")

    def close(self) -> None:
        """End the box and all in it; safe to call twice, and while another thread waits for an outcome."""
        self._closed = True
        process, ours = self._process, self._socket
        if process is not None and ours is not None:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)  # whoever waits for an outcome is told
            process.terminate()
        with self._lock:
            self._end()

    def __enter__(self) -> "Worker":  # noqa: PYI034  `Self` came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it takes programs; a box that was lost is not replaced here."""
        return not self._closed

    @property
    def process_id(self) -> int:
        """The id of the box's keeper on the host; all else in the box descends from it."""
        return self._process.pid if self._process is not None else 0

    def _start(self) -> None:
        try:
            room = layout.resolve(self.packages)
        except layout.NoLayout as error:
            raise WorkerFailure(str(error)) from None
        ours, theirs = socket.socketpair()
        self._socket = ours
        try:
            if self.level.name != "namespaces":
                self._folder = tempfile.mkdtemp(prefix="finetune-box-")
            self._process = subprocess.Popen(
                layout.command("llm_finetuning.sandbox.box.main", "run", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=dict(room.environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the trainer, which then ends its boxes
            )
        except OSError as error:
            self._end()
            raise WorkerFailure(f"the box does not start: {error}") from None
        finally:
            theirs.close()
        self._await_ready(ours, room)

    def _await_ready(self, ours: socket.socket, room: layout.Layout) -> None:
        deadline = time.monotonic() + _START_S
        try:
            frames.send(ours, self._setup(room), deadline)
            answer = frames.receive(ours, deadline)
        except (frames.Broken, frames.Late) as error:
            said = self._end()
            raise WorkerFailure(f"the box does not start: {said or error}") from None
        if "fault" in answer:
            self._end()
            raise WorkerFailure(answer["fault"])

    def _setup(self, room: layout.Layout) -> dict[str, Any]:
        folder = self._folder
        farm = layout.PACKAGES_IN_BOX
        visible = [(path, path) for path in layout.outermost([*room.path, *room.libraries])]
        if folder:
            farm = f"{folder}/packages"
            _link_packages(farm, room.packages)
            visible.append((farm, farm))
        visible += [(real, f"{farm}/{name}") for name, real in room.packages.items()]
        as_root = os.geteuid() == 0
        real = [Path(__file__).resolve(), *_real_file_of_home()]
        return {
            "level": self.level.name,
            "host": os.getpid(),
            # Without namespaces the spare user has to reach the interpreter as it lies on the host.
            "drop_root": as_root and (not folder or layout.open_to_all([there for there, _ in visible])),
            "visible": visible,
            "hidden": list(room.hidden),
            "path": [*room.path, farm],
            "packages": [name for name in self.packages if name in room.packages],
            "folder": folder,
            "landlock_at_most": self._landlock_at_most,
            "probe": {
                "files": [str(file) for file in real],
                "folders": [(str(file.parent), file.name) for file in real],
                "pid": os.getpid(),
            },
        }

    def _end(self) -> str:
        """Kill the box, wait until all of it is gone, and remove its folder; return the last line it wrote, if any."""
        said = ""
        process, self._process = self._process, None
        ours, self._socket = self._socket, None
        folder, self._folder = self._folder, ""
        if ours is not None:
            ours.close()
        if process is not None:
            process.terminate()  # the keeper, which kills the rest and waits for it
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stderr is not None
            os.set_blocking(process.stderr.fileno(), False)
            with process.stderr, contextlib.suppress(BlockingIOError):
                said = (process.stderr.read() or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
        if folder:
            _remove(folder)
        return said

    def disown(self) -> None:
        """Forget, in a forked copy of it, the box of the process that this one was forked from, without touching it."""
        self._lock = threading.Lock()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.returncode = 0  # it is another process's child, and not to be waited for
            assert self._process.stderr is not None
            self._process.stderr.close()
        self._process, self._socket, self._folder = None, None, ""


_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


def _disown() -> None:
    for worker in list(_workers):
        worker.disown()


os.register_at_fork(after_in_child=_disown)


def _link_packages(farm: str, packages: Mapping[str, str]) -> None:
    """Make a folder of links, so that the packages are found there and their neighbours are not."""
    Path(farm).mkdir(mode=0o755)
    for name, real in packages.items():
        Path(farm, name).symlink_to(real)


def _real_file_of_home() -> list[Path]:
    """Return a file of the user's that this process can read, for the box to fail on."""
    with contextlib.suppress(OSError, RuntimeError):
        for path in Path.home().iterdir():
            if path.is_file() and os.access(path, os.R_OK):
                return [path]
    return []


def _remove(folder: str) -> None:
    """Remove what the keeper left of a box's folder; what was killed with it may take a moment to let go."""
    for _ in range(_REMOVE_TRIES):
        with contextlib.suppress(OSError):
            empty(folder)
            Path(folder).rmdir()
        if not Path(folder).exists():
            return
        time.sleep(_REMOVE_PAUSE_S)
