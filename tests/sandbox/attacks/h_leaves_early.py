"""Leaves by `exit`, as programs of contests do."""

import sys
from pathlib import Path

Path("seen").touch()
n = int(sys.stdin.readline())
if n == 0:
    print("nothing")
    exit()
sys.__stdout__.write(f"{n * 2} {Path('seen').exists()}\n")
quit()
