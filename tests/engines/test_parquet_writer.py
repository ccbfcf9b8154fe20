"""Tables are written by the training interpreter and read back by `datasets`."""

import json
import subprocess
from pathlib import Path

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program

ROWS = [
    {"id": "a", "prompt": "2 + 2?", "success": True, "grade": 1.0, "bucket": None, "tokens": 3},
    {"id": "b", "prompt": "3 + 3?", "success": None, "grade": None, "bucket": "hard", "tokens": 5},
]

READ = """
import datasets, json, sys
print(json.dumps(list(datasets.load_dataset("parquet", data_files=sys.argv[1], split="train"))))
"""


def test_rows_come_back_as_they_were(engine_python: str, tmp_path: Path) -> None:
    """Text, numbers, truth values and nothing at all keep what they were."""
    path = tmp_path / "rows.parquet"
    (record,) = run_program("parquet_writer", {"rows": ROWS, "path": str(path)}, python=engine_python)

    assert record == {"kind": "written", "rows": 2}
    read = subprocess.run(
        [engine_python, "-c", READ, str(path)],
        capture_output=True,
        check=True,
        env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
    )
    assert json.loads(read.stdout) == ROWS


def test_a_column_of_several_kinds_is_refused(engine_python: str, tmp_path: Path) -> None:
    """A prompt that is text in one row and a chat in another fits no column."""
    rows = [{"prompt": "text"}, {"prompt": [{"role": "user", "content": "chat"}]}]

    with pytest.raises(Refusal, match="values of several kinds"):
        list(run_program("parquet_writer", {"rows": rows, "path": str(tmp_path / "x")}, python=engine_python))
