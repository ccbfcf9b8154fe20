import re
import signal
from concurrent.futures import ThreadPoolExecutor


def _timeout(signum, frame):
    raise TimeoutError


def check(pair):
    text, gold = pair
    try:
        signal.signal(signal.SIGALRM, _timeout)
        signal.alarm(5)
        boxes = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)
        same = bool(boxes) and boxes[-1].replace(" ", "") == gold.replace(" ", "")
        signal.alarm(0)
        return 1.0 if same else 0.0
    except Exception:
        return 0.0


def verify(completions, answer, **kwargs):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(check, [(c[0]["content"], gold) for c, gold in zip(completions, answer)]))
