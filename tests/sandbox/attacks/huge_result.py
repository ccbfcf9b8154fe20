def solve(xs):
    return list(range(50_000_000))
