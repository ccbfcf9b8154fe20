"""The process that runs model-written code: it loads the code, then does what the tests ask of it.

It is confined before it gets the code, and never holds a test, an expected value or a verdict.
"""

import atexit
import contextlib
import copy
import io
import itertools
import linecache
import os
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from llm_finetuning.sandbox.box import faults, frames
from llm_finetuning.sandbox.box.peer import WISH_PRINTED, WISH_RESTORE, Ended, Missing, Peer, refill, send
from llm_finetuning.sandbox.box.values import Encoder, Malformed, base_value

PRELOAD = (  # noqa: SIM905  words read best so
    "abc array base64 bisect collections collections.abc contextlib copy dataclasses datetime decimal enum fractions "
    "functools heapq inspect io itertools json linecache math numbers operator os queue random re statistics string "
    "struct sys textwrap threading time traceback types typing unittest warnings llm_finetuning.sandbox.box.tester"
).split()
"""What the worker imports before it forks anything: what serves programs, and what most of them use.

A fork takes the longer the more is loaded: each library of the C library's kind costs what ten Python modules do.
"""

PRELOAD_IF_MENTIONED = (  # noqa: SIM905  words read best so
    "asyncio calendar cmath concurrent.futures csv difflib hashlib logging pathlib pprint tempfile unicodedata "
    "unittest.mock urllib.parse uuid zlib"
).split()
"""What the other worker imports too, which runs the programs that mention a package or one of the slow modules."""

SLOW_MODULES = ("asyncio", "concurrent", "hashlib", "mock", "tempfile", "uuid")

if TYPE_CHECKING:
    import asyncio

FILE = "solution.py"
_PIPE_HOLDS = 65_536
_ENDED_BY_ERROR = 1


class Candidate(Peer):
    """The candidate's end: it does everything that it is asked, with the objects of the module it loaded."""

    def __init__(self, channel: socket.socket, module: types.ModuleType) -> None:
        """Take the stream to the tests and the module that the code became."""
        super().__init__(channel)
        self._module = module
        self._open: list[tuple[int, str]] = []
        self._turn = threading.RLock()  # who reads: the loop, or a thread that asked back
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stdout = sys.stdout

    def serve(self) -> None:
        """Answer requests until the other side is gone."""
        while True:
            with self._turn:
                message = frames.receive(self.channel)
            self._respond(message)

    def _respond(self, message: Any) -> None:
        number, token, op, encoded, wishes = message
        self._open.append((number, token))
        printed = io.StringIO() if wishes & WISH_PRINTED else None
        try:
            with contextlib.redirect_stdout(printed) if printed is not None else contextlib.nullcontext():
                parts = self.answer(op, encoded, wishes)
        except Missing as missing:
            parts = ["m", str(missing), None]
        finally:
            self._open.pop()
        if sys.stdout is self._stdout:
            with contextlib.suppress(OSError, ValueError):
                self._stdout.flush()
        try:
            frames.send(self.channel, [number, token, *parts, None if printed is None else printed.getvalue()])
        except ValueError:
            frames.send(self.channel, [number, token, *self.unsaid("more than eight MiB"), None])

    def ask(self, op: str, *args: Any) -> Any:
        """Ask the tests, while one of them waits for this side."""
        if not self._open:
            raise RuntimeError("no test is waiting for this call")
        number, token = self._open[-1]
        encoder = Encoder(self.refer)
        encoded = encoder.encode(args)
        with self._turn:
            send(self.channel, [number, token, "?", op, encoded, WISH_RESTORE])
            while True:
                message = frames.receive(self.channel)
                if message[2] == "!":
                    return self.read_answer(message[3:], encoder.shared)
                self._respond(message)

    def perform(self, op: str, args: tuple[Any, ...]) -> Any:  # noqa: PLR0911  one for each kind
        """Do one operation; raises whatever the candidate's code raises."""
        if op == "call":
            function, positional, keywords = args
            return function(*positional, **keywords)
        if op == "run":
            function = self._find(args[0])
            return function(*args[1], **args[2])
        if op == "find":
            return [(True, self._find(name)) if self._has(name) else (False, None) for name in args[0]]
        if op == "refill":
            owner, name, new = args
            return refill(self._find(name) if owner is None else getattr(owner, name), new)
        if op == "await":
            return self._run_until_done(args[0])
        if op == "anext":
            return self._next_of(args[0])
        if op == "names":
            return _public_names(self._module)
        return _OPERATIONS[op](*args)

    def names_any(self, kinds: tuple[int, ...]) -> bool:  # noqa: ARG002  the other end needs it
        """Say nothing of the tests' classes: this side guards nothing."""
        return True

    def named(self, name: Any) -> Any:
        """Return any builtin: this side could do as it likes anyway."""
        return getattr(_BUILTINS, name)

    def _has(self, name: str) -> bool:
        return name in vars(self._module)

    def _find(self, dotted: str) -> Any:
        """Return what a name at the top level stands for; a method of a class is bound to a new instance of it."""
        first, *rest = dotted.split(".")
        if first not in vars(self._module):
            raise Missing(first)
        found = vars(self._module)[first]
        for name in rest:
            if isinstance(found, type) and isinstance(_raw(found, name), types.FunctionType):
                found = found()
            try:
                found = getattr(found, name)
            except AttributeError:
                raise Missing(dotted) from None
        return found

    def _run_until_done(self, awaitable: Any) -> Any:
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()

        async def run() -> Any:
            return await awaitable

        return self._loop.run_until_complete(run())

    def _next_of(self, iterator: Any) -> Any:
        try:
            return [self._run_until_done(type(iterator).__anext__(iterator))], False
        except StopAsyncIteration:
            return [], True


def serve(channel: socket.socket) -> None:
    """Run one program: receive its code, load it, and serve calls, or run it whole on its standard input.

    The first message is `{"code", "token", "stdin"}`; `stdin` None means that calls follow. Returns never.
    """
    status = 0
    try:
        status = work(channel)
    finally:
        os._exit(status)


def work(channel: socket.socket) -> int:
    """Do what `serve` does and return the exit status."""
    try:
        first = frames.receive(channel)
        sys.stdin, sys.stdout, sys.stderr = _STREAMS or _streams()
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
        _BUILTINS.exit = _BUILTINS.quit = sys.exit  # type: ignore[attr-defined]  # the interpreter gets them from `site`
        if first["stdin"] is not None:
            return _run_program(channel, first)
        _serve_calls(channel, first)
    except (frames.Broken, Ended, Malformed):
        pass  # the judge is gone, or what came is not from it
    return 0


def make_streams() -> None:
    """Make the streams of every program ahead of it, while standard output and error are a pipe, as they will be."""
    reading, writing = os.pipe()
    kept = [(standard, os.dup(standard)) for standard in (1, 2)]
    for standard, _ in kept:
        os.dup2(writing, standard)
    _STREAMS[:] = _streams()
    for standard, old in kept:
        os.dup2(old, standard)
        os.close(old)
    os.close(reading)
    os.close(writing)


_STREAMS: list[io.TextIOWrapper] = []


def _streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    return (
        open(0, encoding="utf-8", errors="surrogateescape", closefd=False),
        open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False),
        open(2, "w", errors="backslashreplace", buffering=1, closefd=False),
    )


def _serve_calls(channel: socket.socket, first: Mapping[str, Any]) -> None:
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    served = Candidate(channel, module)  # with the standard output as it is before the code can replace it
    error = _execute(first["code"], module)
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    if error is not None:
        frames.send(channel, [0, first["token"], "x", type(error).__name__[:200], _told(error)])
        return
    frames.send(channel, [0, first["token"], "v", None, None])
    served.serve()


def _run_program(channel: socket.socket, first: Mapping[str, Any]) -> int:
    """Run the code as a program and return its exit status, as the interpreter would have it."""
    _feed(first["stdin"].encode("utf-8", "surrogatepass"))
    with contextlib.suppress(OSError):  # what it says on standard error is no part of its output
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.argv = [FILE]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    error = _execute(first["code"], module)
    status, told = 0, ""
    if isinstance(error, SystemExit):
        code = error.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else _ENDED_BY_ERROR
        told = f"exit status {status}"
    elif error is not None:
        status, told = _ENDED_BY_ERROR, _told(error)
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  as at any exit
        atexit._run_exitfuncs()  # noqa: SLF001  as at any exit
    for stream in (sys.stdout, sys.__stdout__):
        with contextlib.suppress(BaseException):
            stream.flush()  # type: ignore[union-attr]
    frames.send(channel, [0, first["token"], "e", "" if error is None else type(error).__name__[:200], told])
    return status


def _execute(code: str, module: types.ModuleType) -> BaseException | None:
    """Run the code in a module and return what it raised."""
    vars(module)["__file__"] = FILE
    try:
        compiled = compile(code, FILE, "exec", dont_inherit=True)
        linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
        exec(compiled, vars(module))  # noqa: S102  what this process is for
    except BaseException as error:  # noqa: BLE001  whatever it raises
        return error
    return None


def _told(error: BaseException) -> str:
    """Return an error in one line, with the line of the program where it arose."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return f"{type(error).__name__}: {str(error.msg)[:500]} (line {error.lineno})"
    line = None
    with contextlib.suppress(BaseException):
        lines = [place.lineno for place in traceback.extract_tb(error.__traceback__) if place.filename == FILE]
        line = lines[-1] if lines else None
    text = " ".join(faults.text_of(error).split())[:500]
    return f"{type(error).__name__}: {text}" + (f" (line {line})" if line is not None else "")


def _feed(data: bytes) -> None:
    """Make the data standard input, whole: programs read it as a file, line by line, or by its descriptor."""
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)

    def write() -> None:
        rest = memoryview(data)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(writing, rest) :]
        os.close(writing)

    if len(data) <= _PIPE_HOLDS:
        write()
    else:
        threading.Thread(target=write, daemon=True).start()


def _public_names(module: types.ModuleType) -> list[str]:
    declared = vars(module).get("__all__")
    if isinstance(declared, list | tuple):
        return [name for name in declared if isinstance(name, str)]
    return [name for name in vars(module) if not name.startswith("_")]


def _raw(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _special(value: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return getattr(type(value), name)(value, *args, **keywords)


def _take(iterator: Any, size: int) -> Any:
    items = list(itertools.islice(iterator, size))
    return items, len(items) < size


_BUILTINS = sys.modules["builtins"]
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "special": _special,
    "iter": iter,
    "take": _take,
    "truth": bool,
    "reduce": base_value,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
