def solve(xs):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
