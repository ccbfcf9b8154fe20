"""What an interpreter needs to be seen in a box: printed by a fresh one, before any box is made.

The shared libraries are found by loading every extension module's file and asking the loader what came with it.
"""

import contextlib
import ctypes
import json
import os
import sys

# What needs a screen, a terminal or a directory service draws in dozens of libraries, and does nothing in a box.
_NOT_FOR_PROGRAMS = ("_tkinter", "_curses", "readline", "nis", "_test", "_xxtest", "_ctypes_test", "xxlimited")


class _Loaded(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))  # the start of struct dl_phdr_info


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)


def main() -> None:
    """Print the module path and the libraries; the arguments are files and folders of packages beside the stdlib."""
    path = [entry for entry in sys.path if entry and os.path.exists(entry)]  # noqa: PTH110  pathlib loads slowly
    for top in [*path, *sys.argv[1:]]:
        for file in _extensions(top):
            with contextlib.suppress(OSError):  # one that lacks a library is not importable either
                ctypes.CDLL(file)
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1")  # the C library loads it when a thread is ended
    print(json.dumps({"path": path, "libraries": _libraries()}))  # noqa: T201  it is a program


def _extensions(top: str) -> list[str]:
    if not os.path.isdir(top):  # noqa: PTH112
        return [top] if top.endswith(".so") else []
    found = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name not in {"site-packages", "dist-packages", "test", "tests"}]
        found += [
            os.path.join(folder, file)  # noqa: PTH118
            for file in files
            if ".so" in file and not file.startswith(_NOT_FOR_PROGRAMS)
        ]
    return found


def _libraries() -> list[str]:
    names: list[str] = []

    def note(loaded: "ctypes._Pointer[_Loaded]", _size: int, _data: object) -> int:
        name = loaded.contents.name
        if name and name.startswith(b"/"):
            names.append(os.fsdecode(name))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_CALLBACK(note), None)
    return names
