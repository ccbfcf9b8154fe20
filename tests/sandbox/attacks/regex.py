import re


def solve(xs):
    return re.match(r"(a|aa|a?)+$", "a" * 5000 + "b")
