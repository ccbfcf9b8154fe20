"""Leaves folders whose names are as long as a name may be, so that whoever tidies up stumbles."""

import os

for name in ("\U0001f600" * 63, "a" * 255, b"\xff" * 255):
    os.mkdir(name)
    for number in range(20):
        os.mkdir(os.fsencode(name) + b"/" + b"b" * 253 + b"%02d" % number)


def solve(xs):
    return -1
