"""The reward `unit_tests` in real steps of `GRPOTrainer`: what it pays, what it says, and what it costs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[1] / "scripts"


@pytest.mark.model
@pytest.mark.parametrize("form", ["text", "chat"])
def test_programs_are_paid_in_a_real_step(form: str, engine_python: str, model_folder: str) -> None:
    """Right programs earn, cheats and cut-offs do not, in TRL's own means; the cost is shown as a share of the step."""
    command = [engine_python, str(HERE / "unit_tests_step.py"), str(SCRIPTS), model_folder, form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])

    assert answer["paid"] == [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0] * 2] * 3
    assert answer["logged"] == pytest.approx([0.25] * 3)
    group = ["passed", "passed", "failed", "error", "failed", "unclosed", "no_code", "failed"]
    assert answer["said"][-16:] == group * 2
    first, *later = answer["reward_s"]
    share = sum(answer["reward_s"]) / answer["whole_s"]
    sys.stdout.write(
        f"\n{form}: 16 completions cost {1000 * sum(later) / len(later):.0f} ms a step ({1000 * first:.0f} ms in the "
        f"first, with the start of the workers): {share:.1%} of the time of {len(answer['paid'])} steps\n"
    )
