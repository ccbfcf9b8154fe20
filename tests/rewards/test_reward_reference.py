"""The reference of the rewards: every code block runs."""

import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).resolve().parents[2] / "skills/grpo-rlvr-training/references/reward-functions.md"
BLOCKS = re.findall(r"```python\n(.*?)```", REFERENCE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block: str) -> None:
    """What the reference shows is what the library does."""
    exec(compile(block, str(REFERENCE), "exec"), {})  # noqa: S102  our own file
