"""Where a box begins: a keeper that outlives nothing, the judge as its only child, and the zygote below the judge.

Started by `worker.Worker` under the host's own interpreter, with a clean environment and one socket. The keeper makes
the box, and ends it when the host's process ends, however it ends.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import time
from typing import NoReturn

from llm_finetuning.sandbox.box import frames, judging, namespaces, syscalls
from llm_finetuning.sandbox.box.rooms import ROOMS, empty
from llm_finetuning.sandbox.box.setup import Setup

_START_S = 60.0  # for the host to say what box it wants
_PARENT_CHECK_S = 0.5  # where a process cannot be waited for by descriptor


def run() -> NoReturn:
    """Be the keeper of a box; the only argument is the descriptor of a socket whose other end the host holds."""
    host = socket.socket(fileno=int(sys.argv[1]))
    try:
        _keep(host, Setup(**frames.receive(host, time.monotonic() + _START_S)))
    except (OSError, frames.Broken, frames.Late) as error:
        with contextlib.suppress(frames.Broken):
            frames.send(host, {"fault": str(error)})
    os._exit(1)


def _keep(host: socket.socket, setup: Setup) -> None:
    """Make the box and end it with the trainer, or when it ends itself."""
    signal.signal(signal.SIGTERM, _stop)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    trainer = _watch(setup.host)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if setup.has_namespaces:
        user = namespaces.spare_user() if setup.drop_root else None
        namespaces.enter(proc, setup.visible, setup.hidden, ROOMS, user)
        counted = True
    else:
        counted = setup.drop_root and _leave_root(setup.folder)
        syscalls.drop_capabilities()
    keeper = os.getpid()
    box = os.fork()
    if not box:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        judging.be(host, setup, keeper, proc, count_threads=counted)
    host.close()
    try:
        _wait_for_either(trainer, setup.host, box)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_all(box)
        if setup.folder:
            with contextlib.suppress(OSError):
                empty(setup.folder)
                os.rmdir(setup.folder)  # noqa: PTH106  pathlib is not loaded in the box
        os._exit(0)


def _leave_root(folder: str) -> bool:
    """Become a user that nobody else is, so that the kernel counts this box alone; false where root may not."""
    try:
        user = namespaces.spare_user()
        os.chown(folder, user, user)
        namespaces.become(user)
    except OSError:  # a container that took these rights from root
        with contextlib.suppress(OSError):
            os.chown(folder, os.geteuid(), os.getegid())
        return False
    return True


def _stop(_number: int, _frame: object) -> NoReturn:
    raise SystemExit


def _watch(pid: int) -> int:
    """Return a descriptor of the trainer's process, or -1 where there are none; raises OSError if it is gone."""
    try:
        descriptor = syscalls.process_descriptor(pid)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EPERM}:
            raise
        descriptor = -1
    if os.getppid() != pid:
        raise OSError("the trainer is gone")
    return descriptor


def _wait_for_either(trainer: int, parent: int, box: int) -> None:
    """Return when the trainer or the box has ended."""
    if trainer >= 0:
        poller = select.poll()
        poller.register(trainer, select.POLLIN)
        poller.register(syscalls.process_descriptor(box), select.POLLIN)
        poller.poll()
        return
    while os.getppid() == parent and os.waitid(os.P_PID, box, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(_PARENT_CHECK_S)


def _end_all(box: int) -> None:
    """Kill the box and wait until all of it is gone; orphans of it come to the keeper, which is their subreaper."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(box, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
