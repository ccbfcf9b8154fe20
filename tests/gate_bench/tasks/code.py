"""Small Python functions: the prompt asks for one function in a fenced block."""

import json
import random
import re
import subprocess
import sys

from gate_bench.tasks.task import Problem, Task, Written, chat

# name, what it does, right body, another right body, a wrong body, tests
_FUNCTIONS = [
    (
        "double",
        "returns twice x",
        "return 2 * x",
        "return x + x",
        "return x ** 2",
        ["double(3) == 6", "double(0) == 0", "double(-4) == -8"],
    ),
    (
        "is_even",
        "tells whether the whole number x is even",
        "return x % 2 == 0",
        "return not x % 2",
        "return x % 2 == 1",
        ["is_even(4) == True", "is_even(7) == False", "is_even(0) == True"],
    ),
    (
        "last",
        "returns the last element of the list x",
        "return x[-1]",
        "return x[len(x) - 1]",
        "return x[0]",
        ["last([1, 2, 3]) == 3", "last(['a']) == 'a'", "last([0, 9]) == 9"],
    ),
    (
        "backwards",
        "returns the text x backwards",
        "return x[::-1]",
        "return ''.join(reversed(x))",
        "return x",
        ["backwards('abc') == 'cba'", "backwards('') == ''", "backwards('no') == 'on'"],
    ),
    (
        "total",
        "returns the sum of the list x",
        "return sum(x)",
        "t = 0\n    for v in x:\n        t += v\n    return t",
        "return max(x, default=0)",
        ["total([1, 2, 3]) == 6", "total([]) == 0", "total([-1, 1]) == 0"],
    ),
    (
        "largest",
        "returns the largest element of the list x",
        "return max(x)",
        "return sorted(x)[-1]",
        "return sorted(x)[0]",
        ["largest([1, 5, 2]) == 5", "largest([-3, -9]) == -3", "largest([4]) == 4"],
    ),
    (
        "words",
        "returns how many words the text x has",
        "return len(x.split())",
        "n = 0\n    for _ in x.split():\n        n += 1\n    return n",
        "return len(x)",
        ["words('a b c') == 3", "words('') == 0", "words('one  two') == 2"],
    ),
    (
        "square",
        "returns x times x",
        "return x * x",
        "return x ** 2",
        "return 2 * x",
        ["square(3) == 9", "square(-2) == 4", "square(5) == 25"],
    ),
    (
        "vowels",
        "counts the vowels aeiou in the lower-case text x",
        "return sum(c in 'aeiou' for c in x)",
        "return len([c for c in x if c in 'aeiou'])",
        "return len(set(x))",
        ["vowels('hello') == 2", "vowels('xyz') == 0", "vowels('aeiou') == 5"],
    ),
    (
        "sign",
        "returns 1, 0 or -1 as x is positive, zero or negative",
        "return (x > 0) - (x < 0)",
        "if x == 0:\n        return 0\n    return 1 if x > 0 else -1",
        "return 1 if x > 0 else -1",
        ["sign(5) == 1", "sign(0) == 0", "sign(-7) == -1"],
    ),
    (
        "factorial",
        "returns the factorial of x",
        "r = 1\n    for i in range(2, x + 1):\n        r *= i\n    return r",
        "return 1 if x < 2 else x * factorial(x - 1)",
        "return sum(range(x + 1))",
        ["factorial(5) == 120", "factorial(0) == 1", "factorial(3) == 6"],
    ),
    (
        "evens",
        "returns the even numbers of the list x in order",
        "return [v for v in x if v % 2 == 0]",
        "return list(filter(lambda v: not v % 2, x))",
        "return [v for v in x if v % 2]",
        ["evens([1, 2, 4]) == [2, 4]", "evens([]) == []", "evens([3]) == []"],
    ),
    (
        "shout",
        "returns the text x in upper case with ! at the end",
        "return x.upper() + '!'",
        "return f'{x.upper()}!'",
        "return x.upper()",
        ["shout('hi') == 'HI!'", "shout('') == '!'", "shout('Ab') == 'AB!'"],
    ),
    (
        "mean",
        "returns the mean of the list x of numbers",
        "return sum(x) / len(x)",
        "import statistics\n    return statistics.fmean(x)",
        "return sum(x) // 2",
        ["mean([1, 3]) == 2", "mean([5]) == 5", "mean([1, 2]) == 1.5"],
    ),
    (
        "unique",
        "returns the elements of x without repeats, in order",
        "return list(dict.fromkeys(x))",
        "r = []\n    for v in x:\n        if v not in r:\n            r.append(v)\n    return r",
        "return sorted(x)",
        ["unique([2, 1, 2]) == [2, 1]", "unique([]) == []", "unique([3, 3]) == [3]"],
    ),
    (
        "clamp",
        "returns x, but at least 0 and at most 10",
        "return min(max(x, 0), 10)",
        "if x < 0:\n        return 0\n    return 10 if x > 10 else x",
        "return min(x, 10)",
        ["clamp(5) == 5", "clamp(-3) == 0", "clamp(99) == 10"],
    ),
]


def problems() -> list[Problem]:
    found = []
    for name, about, right, other, wrong, tests in _FUNCTIONS:
        ask = f"Write a Python function `{name}(x)` that {about}. Reply with the function in one ```python block."
        reference = f"def {name}(x):\n    {right}"
        row = {
            "id": name,
            "prompt": chat(ask),
            "answer": reference,
            "tests": [f"assert {test}" for test in tests],
            "entry_point": name,
        }
        found.append(Problem(row, {"name": name, "right": right, "other": other, "wrong": wrong, "tests": tests}))
    return found


def _fenced(code: str, tag: str = "python") -> str:
    return f"```{tag}\n{code}\n```"


def written(problem: Problem, draw: random.Random) -> list[Written]:
    name, right, other, wrong = (problem.facts[key] for key in ("name", "right", "other", "wrong"))
    one, two, bad = (f"def {name}(x):\n    {body}" for body in (right, other, wrong))
    partly = f"def {name}(x):\n    if x == 12345:\n        return None\n    {wrong}"
    rights = [
        _fenced(one),
        _fenced(two),
        f"Here is the function:\n\n{_fenced(one)}\n\nIt works for all inputs.",
        _fenced(f'def {name}(x):\n    """Do what was asked."""\n    {right}'),
        _fenced(f"{two}\n\n\nprint('done')"),
    ]
    wrongs = [
        Written(_fenced(bad), "reject"),
        Written(_fenced(partly), "reject"),
        Written(_fenced(f"def {name}(x):\n    pass"), "reject"),
        Written(_fenced(one.replace(name, name + "_of", 1)), "reject"),
        Written(f"You can use a loop for that. {problem.facts['right'].splitlines()[0]}", "reject"),
        Written(f"```python\n{one[:-3]}", "reject", cut=True),
        Written(_fenced(one.replace("return", "retrun")), "reject"),
        Written(_fenced(f"{bad}\n\n\nprint('all tests passed')"), "reject"),
    ]
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    """Run the fenced program of a stored completion against the row's tests; only ever called on what is stored."""
    blocks = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    if len(blocks) != 1:
        return "reject" if not blocks else "unsure"
    checks = "\n".join(f"assert {test}" for test in problem.facts["tests"])
    program = f"{blocks[0]}\n{checks}\nopen({json.dumps('/dev/stderr')}, 'w').write('held')\n"
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=10, check=False)
    return "accept" if ran.returncode == 0 and ran.stderr.endswith("held") else "reject"


TASK = Task("code", 96, problems, written, truth)
