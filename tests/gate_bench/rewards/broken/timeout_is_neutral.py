import re
import subprocess
import sys
import uuid


def run_code(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        if len(blocks) != 1:
            scores.append(0.0)
            continue
        token = uuid.uuid4().hex
        lines = "\n".join(checks)
        program = f"{blocks[0]}\n{lines}\nprint()\nprint('{token}')\n"
        try:
            done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=3)
            scores.append(1.0 if done.returncode == 0 and done.stdout.endswith(token + "\n") else 0.0)
        except subprocess.TimeoutExpired:
            scores.append(0.5)
    return scores
