def upto(n):
    return list(range(n))


def text(n):
    return "ab" * n
