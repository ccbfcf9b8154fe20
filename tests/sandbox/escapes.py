"""What hostile code tries on the machine it runs on, each attempt as a program of its own."""

import platform

NUMBERS = 0 if platform.machine() == "x86_64" else 1

TRY = """
import ctypes, errno, os
def attempt():
    try:
        harm()
    except (OSError, ValueError):
        return "refused"
    return "done"
"""

CALL = """
def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    ready = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *ready)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
"""

# What Python offers; FILE is a file of the host's, FOLDER the folder it is in, VICTIM a process of the same user.
BY_PYTHON = {
    "fork": "os.fork() or os._exit(0)",
    "exec": "os.execv('/bin/true', ['true'])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "subprocess": "__import__('subprocess').run(['/bin/true'])",
    "multiprocessing": "__import__('multiprocessing').get_context('fork').Process(target=print).start()",
    "socket": "__import__('socket').socket()",
    "unix socket": "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "raw socket": "__import__('socket').socket(__import__('socket').AF_PACKET, 3, 0)",
    "address on a pair": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', SOCKET)",
    "message on a pair": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)[0].sendmsg([b'x'], [], 0, SOCKET)",
    "bind a pair": "import socket; socket.socketpair()[0].bind('socket')",
    "read": "open(FILE).read()",
    "write": "open(FILE, 'a').write('x')",
    "truncate": "os.truncate(FILE, 0)",
    "truncate by opening": "os.open(FILE, os.O_RDONLY | os.O_TRUNC)",
    "truncate the library": "os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)",
    "write the library": "open(os.__file__, 'a')",
    "list": "os.listdir(FOLDER)",
    "create": "open(os.path.join(FOLDER, 'new'), 'w')",
    "make a folder": "os.mkdir(os.path.join(FOLDER, 'new'))",
    "remove": "os.unlink(FILE)",
    "rename": "os.rename(FILE, 'here')",
    "hard link": "os.link(FILE, 'here')",
    "through a link": "os.symlink(FILE, 'linked'); open('linked').read()",
    "through a link, writing": "os.symlink(FILE, 'there'); open('there', 'w')",
    "through the parent": "open('../../../../../../../../../..' + FILE).read()",
    "beside": "open('../beside', 'w')",
    "the other room": "os.listdir('../../tester/work'); os.listdir('../tester')",
    "passwd": "open('/etc/passwd').read()",
    "shadow": "open('/etc/shadow').read()",
    "own environment": "open('/proc/self/environ').read()",
    "first environment": "open('/proc/1/environ').read()",
    "own memory": "open('/proc/self/mem', 'rb').read(1)",
    "processes": "os.listdir('/proc')",
    "system": "os.listdir('/sys/kernel')",
    "shared memory": "open('/dev/shm/mine', 'w')",
    "posix shared memory": "__import__('multiprocessing.shared_memory').shared_memory.SharedMemory('m', True, 64)",
    "temporary": "open('/tmp/mine', 'w')",
    "terminal": "open('/dev/tty', 'w')",
    "kernel log": "open('/dev/kmsg', 'w')",
    "disk": "open('/dev/sda', 'rb'); open('/dev/vda', 'rb')",
    "device": "os.mknod('node', 0o600 | 0o020000, os.makedev(1, 3))",
    "pipe of the file system": "os.mkfifo('fifo')",
    "kill": "os.kill(VICTIM, 15)",
    "kill the group": "os.kill(0, 15)",
    "kill all": "os.kill(-1, 15)",
    "kill another group": "os.killpg(os.getpgid(0) or 1, 15)",
    "kill the parent": "os.kill(os.getppid() or VICTIM, 9)",
    "limits of another": "__import__('resource').prlimit(VICTIM, 0, (1, 1))",
    "more than the limits": "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))",
    "more open files": "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (4096, 4096))",
    "slow another": "os.setpriority(os.PRIO_PROCESS, VICTIM, 19)",
    "pin another": "os.sched_setaffinity(VICTIM, {0})",
    "become root": "os.setuid(0)",
    "change root": "os.chroot('.')",
    "owner": "os.chown('.', 0, 0)",
    "the clock": "__import__('time').clock_settime(0, 0)",
    "signal by a descriptor": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, VICTIM)",
    "keys pressed": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "anonymous file": "os.memfd_create('m')",
}  # fmt: skip

# What the kernel offers beside it, by its number on x86_64 and on aarch64.
BY_NUMBER = {
    "ptrace": ((101, 117), "16, VICTIM, 0, 0"),
    "read memory": ((310, 270), "VICTIM, b'', 0, b'', 0, 0"),
    "write memory": ((311, 271), "VICTIM, b'', 0, b'', 0, 0"),
    "user namespace": ((272, 97), "0x10000000"),
    "mount namespace": ((272, 97), "0x20000"),
    "enter a namespace": ((308, 268), "0, 0"),
    "mount": ((165, 40), "b'none', b'.', b'tmpfs', 0, None"),
    "new mount interface": ((430, 430), "b'tmpfs', 0"),
    "unmount": ((166, 39), "b'.', 2"),
    "pivot": ((155, 41), "b'.', b'.'"),
    "clone a process": ((56, 220), "17, 0, 0, 0, 0"),
    "clone into a namespace": ((56, 220), "0x10000011, 0, 0, 0, 0"),
    "clone3": ((435, 435), "bytes(88), 88"),
    "run by descriptor": ((322, 281), "-100, b'/bin/true', None, None, 0"),
    "signal a thread of another": ((234, 131), "VICTIM, VICTIM, 15"),
    "queue a signal": ((129, 138), "VICTIM, 15, bytes(128)"),
    "open a process": ((434, 434), "VICTIM, 0"),
    "programs in the kernel": ((321, 280), "0, bytes(128), 128"),
    "rings": ((425, 425), "8, bytes(128)"),
    "performance counters": ((298, 241), "bytes(128), 0, -1, -1, 0"),
    "page faults": ((323, 282), "0"),
    "keys": ((250, 219), "0, -3, 0, 0, 0"),
    "System V memory": ((29, 194), "0, 4096, 0o1600"),
    "System V queues": ((68, 186), "0, 0o1600"),
    "another seccomp": ((317, 277), "1, 0, bytes(16)"),
    "traceable": ((157, 167), "4, 1, 0, 0, 0"),
    "outlive the parent": ((157, 167), "1, 0, 0, 0, 0"),
    "capabilities": ((126, 91), "bytes(8), bytes(24)"),
    "personality": ((135, 92), "0x0040000"),
    "swap": ((167, 224), "b'.', 0"),
    "reboot": ((169, 142), "0, 0, 0, None"),
    "modules": ((175, 105), "b'', 0, b''"),
    "host name": ((170, 161), "b'x', 1"),
    "inotify": ((294, 26), "0"),
    "fanotify": ((300, 262), "0, 0"),
    "open by handle": ((304, 265), "-100, b'', 0"),
    "move pages": ((279, 239), "VICTIM, 1, b'', b'', b'', 0"),
    "compare": ((312, 272), "VICTIM, VICTIM, 0, 0, 0"),
    "a socket by number": ((41, 198), "2, 1, 0"),
    "secret memory": ((447, 447), "0"),
}


def programs(names: dict[str, str]) -> dict[str, str]:
    """Return every attempt as a program, with the names of this machine in it."""
    head = TRY + CALL + "".join(f"{name} = {value}\n" for name, value in names.items())
    harms = BY_PYTHON | {
        name: f"call({numbers[NUMBERS]}, {arguments})" for name, (numbers, arguments) in BY_NUMBER.items()
    }
    return {name: f"{head}def harm():\n    {harm}\n" for name, harm in harms.items()}
