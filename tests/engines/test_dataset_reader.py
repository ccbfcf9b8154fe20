"""A Parquet file is read as the trainer reads it, and what the table did to its rows is told."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program

WRITE = """
import datetime, sys
import pyarrow, pyarrow.parquet
rows = [
    {"prompt": f"p{n}", "answer": n, "schema": {"city": "string"} if n % 2 else {"amount": "number"},
     "chat": [{"role": "user", "content": "hi"}], "day": datetime.date(2020, 1, 2), "picture": b"raw"}
    for n in range(1203)
]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sys.argv[1])
"""


def read(path: str, python: str) -> list[dict[str, Any]]:
    """Return the records of the reader for one path."""
    return list(run_program("dataset_reader", {"path": path, "config": None, "split": None}, python=python))


def test_rows_come_in_order_with_padded_keys_named(engine_python: str, tmp_path: Path) -> None:
    """Two tool schemas in one table: each row gets the other's key as null, and the facts say which (B24)."""
    path = str(tmp_path / "data.parquet")
    subprocess.run([engine_python, "-c", WRITE, path], check=True)

    *chunks, columns = read(path, engine_python)

    rows = [row for chunk in chunks for row in chunk["rows"]]
    assert list(range(1203)) == [row["answer"] for row in rows]
    assert {"city": "string", "amount": None} == rows[1]["schema"]
    assert ([{"role": "user", "content": "hi"}], "2020-01-02") == (rows[0]["chat"], rows[0]["day"])
    assert {"null_padded": {"schema": ["amount", "city"]}, "left_out": {"picture": "bytes"}} == columns["facts"]
    assert len(chunks) == 3


@pytest.mark.parametrize("content", [None, b"", b"prompt,answer\n1,2\n"], ids=["absent", "empty", "not parquet"])
def test_a_file_that_is_none_is_refused(engine_python: str, tmp_path: Path, content: bytes | None) -> None:
    """One line with the path, whatever Arrow calls it."""
    path = tmp_path / "data.parquet"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(Refusal) as caught:
        read(str(path), engine_python)

    assert len(caught.value.lines) == 1
    assert str(path) in caught.value.lines[0]


def test_a_hub_that_does_not_answer_is_told(engine_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is neither file nor reachable."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(Refusal, match="nobody/nothing: cannot be read"):
        read("nobody/nothing", engine_python)
