import os
import re
import subprocess
import sys
import tempfile
import uuid


def run_tests(completions, tests, **kwargs):
    rewards = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        if len(blocks) != 1:
            rewards.append(0.0)
            continue
        passed = 0
        for check in checks:
            token = uuid.uuid4().hex
            program = f"{blocks[0]}\n{check}\nprint('\\n{token}')\n"
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "program.py")
                with open(path, "w") as out:
                    out.write(program)
                done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, cwd=folder)
            passed += done.returncode == 0 and done.stdout.rstrip().endswith(token)
        rewards.append(1.0 if passed == len(checks) else 0.0)
    return rewards
