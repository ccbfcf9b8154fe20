import re
import subprocess
import sys


def unit_test_reward(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        if len(blocks) != 1:
            scores.append(0.0)
            continue
        program = blocks[0] + "\n" + "\n".join(checks)
        try:
            done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, timeout=5)
            scores.append(1.0 if done.returncode == 0 else 0.0)
        except subprocess.TimeoutExpired:
            scores.append(0.0)
    return scores
