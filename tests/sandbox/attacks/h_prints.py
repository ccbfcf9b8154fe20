import sys


def solve(xs):
    for x in xs:
        print("value", x, "x" * 1000)
        print("note", file=sys.stderr)
    return sum(x * x for x in xs if x % 2 == 0)
