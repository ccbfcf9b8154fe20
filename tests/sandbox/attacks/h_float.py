import math


def area(r):
    return math.pi * r * r


def mean(xs):
    return sum(xs) / len(xs)
