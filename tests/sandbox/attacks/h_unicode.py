def flip(text):
    return text[::-1]


def power(a, b):
    return a**b


def raw(text):
    return text.encode()
