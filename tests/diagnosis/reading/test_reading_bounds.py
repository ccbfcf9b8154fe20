"""Whatever a file holds, it is read or refused in one line; a long log is read in seconds."""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_files import VERSION, event, simple
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_finetuning.diagnosis import reading
from llm_finetuning.errors import Refusal

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 10.0  # of CPU time; 2 to 4 on a machine of 2026
LONG = 100_000

NAMES = st.sampled_from(
    ["step", "loss", "reward", "kl", "rewards/f", "eval_reward", "epoch", "train/loss", "log_history"]
)
NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("nan"))
JSON = st.recursive(
    NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
ROWS = st.lists(st.dictionaries(NAMES, NUMBERS, max_size=5), max_size=8)


def read_or_refuse(path: Path, body: bytes) -> None:
    """Read a file and look at what must hold of every log."""
    path.write_bytes(body)
    with contextlib.suppress(Refusal):
        log = reading.read(path)
        assert log.series
        assert (np.diff(log.steps) > 0).all()
        assert (np.diff(log.held_out_steps) > 0).all()
        for side, steps in ((log.series, log.steps), (log.held_out, log.held_out_steps)):
            for column in side.values():
                assert column.values.shape == column.bad.shape == steps.shape
                assert not np.isinf(column.values).any()
                assert np.isnan(column.values[column.bad]).all()
                assert (column.bad | ~np.isnan(column.values)).any()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"{'loss': 1, ", b"step,loss\n1,", b'[{"loss": 1}', b"<table><tr><th>loss"]),
)
def test_any_bytes(folder: Path, body: bytes, start: bytes) -> None:
    """No bytes end in a traceback, alone or after the beginning of a log."""
    read_or_refuse(folder / "any", start + body)


@given(JSON)
def test_any_json(folder: Path, document: Any) -> None:
    """Nor does any document, nor a line that holds it between two rows."""
    text = json.dumps(document)
    read_or_refuse(folder / "any.json", text.encode())
    read_or_refuse(folder / "any.jsonl", f'{{"step": 1, "loss": 1}}\n{text}\n{{"step": 2, "loss": 1}}\n'.encode())


@given(ROWS, st.integers(0, 200))
def test_any_rows_cut_anywhere(folder: Path, rows: list[dict[str, Any]], end: int) -> None:
    """Nor do rows under the names of trainers, whole or torn, in any form of text."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    texts = [
        json.dumps(rows),
        json.dumps({"log_history": rows}),
        "".join(json.dumps(row) + "\n" for row in rows),
        "\n".join(map(str, rows)),
        "\n".join([",".join(columns), *(",".join(str(row.get(name, "")) for name in columns) for row in rows)]),
    ]
    for text in texts:
        body = text.encode("utf-8", "replace")
        read_or_refuse(folder / "rows", body)
        read_or_refuse(folder / "rows", body[:end])


@given(st.binary(max_size=60), st.integers(0, 200))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_event_file(folder: Path, inside: bytes, at: int) -> None:
    """Nor do broken records."""
    body = VERSION + event(1, [simple("train/loss", 0.5)]) + event(2, [simple("train/loss", 0.5), inside])
    read_or_refuse(folder / "events", body + inside)
    read_or_refuse(folder / "events", body[:at] + inside + body[at:])


@pytest.mark.parametrize(
    "body", ["[" * 200_000, '{"a":' * 200_000, "{" * 200_000, '[{"loss":1' + "0" * 9000 + "}]"], ids=repr
)
def test_hostile_texts(folder: Path, body: str) -> None:
    """Brackets without end and numbers without end are quick, too."""
    begun = time.process_time()
    read_or_refuse(folder / "deep", body.encode())
    assert time.process_time() - begun < LIMIT_S


ROW = {
    **dict.fromkeys(
        ("loss", "grad_norm", "learning_rate", "kl", "entropy", "reward", "reward_std", "step_time"), 0.125
    ),
    **{f"rewards/{name}/{part}": 0.1234567890123 for name in ("format", "correct") for part in ("mean", "std")},
    **{f"completions/{name}": 123.0 for name in ("mean_length", "min_length", "max_length", "clipped_ratio")},
    **{f"clip_ratio/{name}": 0.0 for name in ("low_mean", "low_min", "high_mean", "high_max", "region_mean")},
    "num_tokens": 123456789,
}


def long_log(form: str) -> bytes:
    if form == "console":
        return "".join(f"{ {**ROW, 'epoch': step / 9e4} }\n" for step in range(LONG)).encode()
    if form == "csv":
        cells = ",".join(map(str, ROW.values()))
        return "\n".join([",".join(ROW) + ",step", *(f"{cells},{step}" for step in range(LONG)), ""]).encode()
    lines = [json.dumps({**ROW, "step": step}) for step in range(LONG)]
    return "\n".join(lines).encode() if form == "jsonl" else f"[{','.join(lines)}]".encode()


@pytest.mark.parametrize("form", ["trainer_state", "jsonl", "csv", "console"])
def test_a_hundred_thousand_steps(tmp_path: Path, form: str) -> None:
    """Two dozen metrics over a hundred thousand logs are read in seconds."""
    path = tmp_path / "long"
    path.write_bytes(long_log(form))
    begun = time.process_time()
    log = reading.read(path)
    assert time.process_time() - begun < LIMIT_S
    assert log.form == form
    assert len(log.steps) == LONG
    assert len(log.series) >= len(ROW)


def test_the_room_is_light() -> None:
    """Importing the reader loads neither numpy nor a YAML library; `finetune --help` may not wait for them."""
    program = "import sys; from llm_finetuning.diagnosis import reading; print(sorted(sys.modules))"
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    ).stdout
    assert not {"'numpy'", "'ruamel.yaml'", "'csv'"} & set(out.strip("[]\n").split(", "))
