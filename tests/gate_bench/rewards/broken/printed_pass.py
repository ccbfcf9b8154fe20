import re
import subprocess
import sys


def passes(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        if len(blocks) != 1:
            scores.append(0.0)
            continue
        program = blocks[0] + "\n" + "\n".join(checks) + "\nprint('all tests passed')\n"
        try:
            done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=5)
            scores.append(1.0 if "all tests passed" in done.stdout else 0.0)
        except subprocess.TimeoutExpired:
            scores.append(0.0)
    return scores
