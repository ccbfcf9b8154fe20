import random
import time
from concurrent.futures import ThreadPoolExecutor


def work(xs):
    begun = time.monotonic()
    random.seed(3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: (time.sleep(0.01), x * 2)[1], xs))
    assert time.monotonic() > begun
    return found
