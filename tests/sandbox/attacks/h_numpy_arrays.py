import numpy as np


def unit(xs):
    xs = np.asarray(xs, dtype=float)
    return xs / np.linalg.norm(xs)
