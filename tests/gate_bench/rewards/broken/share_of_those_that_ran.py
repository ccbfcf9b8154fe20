import re
import subprocess
import sys
import uuid


def share_passed(completions, tests, **kwargs):
    scores = []
    for completion, checks in zip(completions, tests):
        blocks = re.findall(r"```(?:python)?\n(.*?)```", completion[0]["content"], re.DOTALL)
        token = uuid.uuid4().hex
        lines = [blocks[0] if len(blocks) == 1 else "raise SystemExit(1)"]
        for check in checks:
            lines += ["try:", f"    {check}", f"    print('{token} ok', flush=True)", "except Exception:"]
            lines += [f"    print('{token} no', flush=True)"]
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=5
            )
            ran = re.findall(rf"{token} (ok|no)", done.stdout)
            scores.append(1.0 if ran and all(word == "ok" for word in ran) else 0.0)
        except subprocess.TimeoutExpired:
            scores.append(0.0)
    return scores
