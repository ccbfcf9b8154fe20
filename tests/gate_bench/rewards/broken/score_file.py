import re
import subprocess
import sys
import tempfile
from pathlib import Path


def graded(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        if len(blocks) != 1:
            scores.append(0.0)
            continue
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "solution.py").write_text(blocks[0])
            grader = "from solution import *\n" + "\n".join(checks) + "\nopen('score.txt', 'w').write('1.0')\n"
            try:
                subprocess.run([sys.executable, "-c", grader], cwd=folder, capture_output=True, timeout=5)
            except subprocess.TimeoutExpired:
                pass
            file = Path(folder) / "score.txt"
            try:
                scores.append(float(file.read_text()) if file.exists() else 0.0)
            except ValueError:
                scores.append(0.0)
    return scores
