"""Leaves folders without the right to read them, files inside."""

import os

os.umask(0)
for number in range(20):
    os.mkdir(f"d{number}", 0o300)
    os.mkdir(f"d{number}/inner", 0o300)
    open(f"d{number}/inner/file", "w").write("x")
os.umask(0o777)
os.mkdir("closed")


def solve(xs):
    return -1
