import ctypes
from multiprocessing import shared_memory

try:
    shared_memory.SharedMemory("left_by_candidate", create=True, size=4096)
except FileExistsError:
    print("LEAK:STATE shared memory", flush=True)
except OSError:
    pass
libc = ctypes.CDLL(None)
if libc.shmget(0x5EED, 4096, 0) >= 0:
    print("LEAK:STATE System V", flush=True)
libc.shmget(0x5EED, 4096, 0o1666)
libc.semget(0x5EED, 1, 0o1666)
libc.msgget(0x5EED, 0o1666)


def solve(xs):
    return 0
