"""TRL's tables of completions, written and read as Parquet by the training interpreter."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import has_module
from llm_finetuning.diagnosis import reading
from llm_finetuning.diagnosis.log import Completion, RunLog, Series
from llm_finetuning.diagnosis.reading import completion_tables
from llm_finetuning.errors import Refusal

WRITE = """
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
for path, rows in json.load(sys.stdin).items():
    pq.write_table(pa.Table.from_pylist([{**row, "score": float(row["score"])} for row in rows]), path)
"""


@pytest.fixture(scope="module")
def python(engine_python: str) -> str:
    """The training interpreter, which has pyarrow below `datasets`."""
    if not has_module(engine_python, "pyarrow"):
        pytest.skip(f"{engine_python} has no pyarrow")
    return engine_python


def rows(step: int, *texts: str, score: Any = 0.5) -> list[dict[str, Any]]:
    """Rows as TRL 1.16 writes them: the step as text, a column a reward, what a reward logged, the advantage."""
    return [
        {"step": str(step), "prompt": f"p{at}", "completion": text, "score": score, "reason": "none", "advantage": 0.25}
        for at, text in enumerate(texts)
    ]


def write(python: str, folder: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    folder.mkdir(parents=True)
    named = {str(folder / name): table for name, table in tables.items()}
    subprocess.run([python, "-c", WRITE], input=json.dumps(named), text=True, check=True)


def log(*, evaluated: tuple[float, ...] = (), components: tuple[str, ...] = ("score",)) -> RunLog:
    one = Series(values=np.ones(1), bad=np.zeros(1, dtype=bool))
    return RunLog(
        source="x",
        form="trainer_state",
        era="1.0+",
        steps=np.ones(1),
        numbered=True,
        series={f"rewards/{name}/mean": one for name in components},
        held_out={},
        held_out_steps=np.array(evaluated),
        options={},
    )


def test_tables_of_training_become_records(python: str, tmp_path: Path) -> None:
    """Rewards are those of the log, NaN is none, chat messages are text; an evaluation's table is passed over."""
    chat = [{"role": "user", "content": "two"}, {"role": "user", "content": "three"}]
    write(
        python,
        tmp_path / "completions",
        {
            "completions_00002.parquet": rows(2, "b", score="nan"),
            "completions_00001.parquet": [{**rows(1, "a")[0], "prompt": chat, "completion": chat[:1]}],
            "completions_00003.parquet": rows(3, "evaluated"),
            "evaluation_00004.parquet": rows(4, "evaluated"),
        },
    )
    found = reading.completions(tmp_path, python=python, log=log(evaluated=(3.0,)))
    assert found == [
        Completion(
            step=step,
            prompt=prompt,
            completion=text,
            rewards={"score": value},
            advantage=0.25,
            columns={"reason": "none"},
        )
        for step, prompt, text, value in ((1, "two\nthree", "two", 0.5), (2, "p0", "b", None))
    ]
    unnamed = reading.completions(tmp_path, python=python, log=log(components=("gone",)))
    assert [row.rewards for row in unnamed] == [{"score": 0.5}, {"score": None}, {"score": 0.5}]


def test_our_run_keeps_evaluations_apart(python: str, tmp_path: Path) -> None:
    """No table of training is given up there for an evaluation at the same step; the run's own log is read."""
    run = tmp_path / "train"
    (run / "guards").mkdir(parents=True)
    (run / "logs").mkdir()
    lines = [(1, {"loss": 0.1, "rewards/score/mean": 0.5}), (1, {"eval_reward": 0.5})]
    text = "".join(json.dumps({"step": step, "metrics": metrics}) + "\n" for step, metrics in lines)
    (run / "logs" / "progress.jsonl").write_text(text)
    assert reading.completions(tmp_path, python=python) == []
    write(
        python,
        run / "completions",
        {"completions_00001.parquet": rows(1, "a", "b"), "evaluation_00001.parquet": rows(1, "c")},
    )
    for place in (tmp_path, run):
        assert [row.completion for row in reading.completions(place, python=python)] == ["a", "b"]


def test_a_step_that_reuses_completions_counts_once(python: str, tmp_path: Path) -> None:
    """With num_iterations above 1 TRL writes the last table again, under the next step."""
    tables = {1: ("a", "b"), 2: ("a", "b"), 3: ("a", "c"), 4: ("a", "b")}
    named = {f"completions_{step:05d}.parquet": rows(step, *texts) for step, texts in tables.items()}
    write(python, tmp_path / "completions", named)
    found = reading.completions(tmp_path, python=python, log=log())
    assert [row.step for row in found] == [1, 1, 3, 3, 4, 4]


def test_a_torn_table_is_left_out(python: str, tmp_path: Path) -> None:
    """A run that was killed while it wrote leaves one; where none can be read the refusal names it."""
    write(python, tmp_path / "completions", {"completions_00001.parquet": rows(1, "a")})
    torn = tmp_path / "completions" / "completions_00002.parquet"
    torn.write_bytes((tmp_path / "completions" / "completions_00001.parquet").read_bytes()[:-9])
    assert [row.step for row in reading.completions(tmp_path, python=python, log=log())] == [1]
    (tmp_path / "completions" / "completions_00001.parquet").write_bytes(b"")
    with pytest.raises(Refusal, match=r"completions_00002\.parquet: cannot be read as Parquet") as refused:
        reading.completions(tmp_path, python=python, log=log())
    assert len(refused.value.lines) == 2


def test_of_many_tables_a_spread_is_read() -> None:
    """A run of ten thousand logs is read from its first to its last in bounded time."""
    tables = [(step, Path(str(step))) for step in range(10_000)]
    spread = completion_tables._spread(tables)
    assert (len(spread), spread[0], spread[-1]) == (completion_tables.MOST_TABLES, tables[0], tables[-1])
    gaps = np.diff([step for step, _ in spread])
    assert set(gaps) <= {50, 51}
    assert completion_tables._spread(tables[:200]) == tables[:200]
