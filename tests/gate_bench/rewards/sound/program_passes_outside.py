"""Run a function on each test's input in a process of its own and compare the results here."""

import ast
import json
import re
import subprocess
import sys

RUNNER = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
job = json.load(sys.stdin)
room = {"__name__": "solution"}
exec(job["code"], room)
results = []
for name, args in job["calls"]:
    try:
        results.append([True, room[name](*args)])
    except Exception:
        results.append([False, None])
out.write(json.dumps(results))
out.close()
"""


def read(test):
    compare = ast.parse(test).body[0].test
    call = compare.left
    return (call.func.id, [ast.literal_eval(a) for a in call.args]), ast.literal_eval(compare.comparators[0])


def staged_results(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"].rpartition("</think>")[2], re.DOTALL)
        if len(blocks) != 1:
            scores.append(0.0)
            continue
        read_tests = [read(check) for check in checks]
        job = json.dumps({"code": blocks[0], "calls": [call for call, _ in read_tests]})
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", RUNNER], input=job, capture_output=True, text=True, timeout=5
            )
            results = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            results = []
        wanted = [[True, expected] for _, expected in read_tests]
        same = isinstance(results, list) and results == wanted
        same = same and all(type(r[1]) in (type(w[1]), int, float) for r, w in zip(results, wanted))
        scores.append(1.0 if same else 0.1 if isinstance(results, list) and results else 0.0)
    return scores
