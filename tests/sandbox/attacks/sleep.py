import time


def solve(xs):
    while True:
        time.sleep(3600)
