"""Every form of a training log gives the same series, under the names of TRL 1.16."""

import json
import math
import os
from pathlib import Path
from typing import Any

import event_files
import numpy as np
import pytest

from llm_finetuning.diagnosis import reading
from llm_finetuning.diagnosis.log import RunLog, Series

ROOT = Path(__file__).resolve().parents[3]
HANDED = Path(os.environ.get("FINETUNE_CASES", ROOT.parent / "shared" / "cases")) / "logs"

ROWS: list[dict[str, Any]] = [
    {"step": 10, "loss": 0.5, "reward": 0.25, "kl": 0.0, "rewards/f/mean": 0.25, "epoch": 0.1},
    {"step": 20, "loss": 0.25, "reward": 0.5, "kl": 0.125, "rewards/f/mean": 0.5, "epoch": 0.2},
    {"step": 20, "eval_loss": 0.5, "eval_reward": 0.75, "eval_rewards/f/mean": 0.75, "eval_runtime": 2.0, "epoch": 0.2},
    {"step": 30, "loss": -0.5, "kl": 0.5, "epoch": 0.3},
    {"step": 40, "loss": 0.0, "reward": 1.0, "kl": 0.25, "rewards/f/mean": 1.0, "epoch": 0.4},
    {"step": 40, "train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "reward": 1.0, "epoch": 0.4},
]
"""A run of four logs: an evaluation, a step that reuses its completions, the trainer's summary."""

NAN = math.nan
STEPS = [10.0, 20.0, 30.0, 40.0]
SERIES = {
    "loss": [0.5, 0.25, -0.5, 0.0],
    "reward": [0.25, 0.5, NAN, 1.0],
    "kl": [0.0, 0.125, 0.5, 0.25],
    "rewards/f/mean": [0.25, 0.5, NAN, 1.0],
}
HELD_OUT = {"loss": [0.5], "reward": [0.75], "rewards/f/mean": [0.75]}


def prefixed(row: dict[str, Any]) -> dict[str, Any]:
    """A row under the names of transformers' loggers for wandb and TensorBoard."""
    step = {"train/global_step": row["step"]}
    return step | {
        f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}": value
        for name, value in row.items()
        if name != "step"
    }


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_table(rows: list[dict[str, Any]], mark: str = ",", *, head: bool = True, gap: str = "") -> str:
    """Rows as text with a column for every name; a name of wandb's page stands before each."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [mark.join(columns)] if head else []
    lines += [mark.join(str(row.get(name, gap)) for name in columns) for row in rows]
    return "\n".join(lines) + "\n"


def wandb_page(rows: list[dict[str, Any]]) -> str:
    """What wandb's web page exports: one run's name before each metric, extremes of the points that it drew as one."""
    wide = []
    for row in map(prefixed, rows):
        cells = {"train/global_step": row["train/global_step"]}
        for name, value in row.items():
            if name != "train/global_step":
                cells |= {f"my - run - {name}": value}
                cells |= {f"my - run - {name}__MIN": -9.0, f"my - run - {name}__MAX": 9.0}
        wide.append({name: f'"{value}"' for name, value in cells.items()})
    columns = list(dict.fromkeys(name for row in wide for name in row))
    quoted = ",".join(f'"{name}"' for name in columns)
    return quoted + "\n" + as_table([{name: row.get(name, "") for name in columns} for row in wide], head=False)


def console(rows: list[dict[str, Any]], *, text: bool) -> str:
    """A terminal's text: bars that go back to the line's start, colours, and a dictionary a log without its step."""
    out = "\x1b[33mWARNING: {'use_cache': True} is incompatible\x1b[0m\n  0%|          | 0/40 [00:00<?, ?it/s]"
    for row in rows:
        shown = {name: str(value) if text else value for name, value in row.items() if name != "step"}
        out += f"\r {row['step']:>3}%|##        | {row['step']}/40 [00:12<00:36,  1.20s/it]\x1b[A\n"
        out += " " * 40 + f"\r\x1b[32m{shown}\x1b[0m\n{{'reward': 0.5}} is what my reward printed\n"
    return out + "done\n"


def html_table(rows: list[dict[str, Any]]) -> str:
    columns = ["Step", "Training Loss", "reward", "kl", "rewards / f / mean"]
    keys = ["step", "loss", "reward", "kl", "rewards/f/mean"]
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{row.get(key, 'No Log')}</td>" for key in keys) + "</tr>" for row in rows)
    return f"<div><table border='1'><thead><tr style='x'>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def copied_table(rows: list[dict[str, Any]], mark: str = "\t") -> str:
    head = mark.join(["Step", "Training Loss", "reward", "kl", "rewards / f / mean"])
    keys = ["step", "loss", "reward", "kl", "rewards/f/mean"]
    lines = [mark.join(str(row.get(key, "No Log")) for key in keys) for row in rows]
    return "\n".join([head, *lines]) + "\n"


def markdown(rows: list[dict[str, Any]]) -> str:
    head, *lines = [f"| {line.replace('|', ' | ')} |" for line in copied_table(rows, "|").splitlines()]
    return "\n".join([head, "| --- | ---: | ---: | ---: | --- |", *lines]) + "\n"


def notebook(rows: list[dict[str, Any]]) -> str:
    cells = [
        {"cell_type": "markdown", "source": ["# train"]},
        {"cell_type": "code", "outputs": [{"data": {"text/html": ["<table><tr><td>1</td></tr></table>"]}}]},
        {"cell_type": "code", "outputs": [{"data": {"text/html": html_table(rows).splitlines(keepends=True)}}]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4})


def events(rows: list[dict[str, Any]], *, as_tensor: bool = False) -> bytes:
    out = event_files.VERSION
    for row in map(prefixed, rows):
        step = row.pop("train/global_step")
        for name, value in row.items():
            body = event_files.whole(1, 1) + event_files.fixed(5, value)
            written = event_files.tensor(name, body) if as_tensor else event_files.simple(name, value)
            out += event_files.event(step, [written])
    return out


TRAINING = [row for row in ROWS if "loss" in row]
OLD = {"rewards/f/mean": "rewards/f", "eval_rewards/f/mean": "eval_rewards/f"}
STATE = {
    "callbacks": [{"loss": 1.0}],
    "global_step": 40,
    "logging_steps": 10,
    "log_history": ROWS,
    "stateful_callbacks": {"x": {"args": {}}},
}

FORMS: dict[str, tuple[str, str | bytes, str]] = {
    "trainer_state": ("trainer_state.json", json.dumps(STATE), "trainer_state"),
    "list": ("log.json", json.dumps(ROWS), "trainer_state"),
    "nested": ("log.json", json.dumps({"name": "x", "result": {"state": {"log_history": ROWS}}}), "trainer_state"),
    "lists by name": (
        "log.json",
        json.dumps({name: [row.get(name) for row in TRAINING if row["step"] != 30] for name in TRAINING[0]}),
        "trainer_state",
    ),
    "torn state": ("trainer_state.json", json.dumps(STATE).partition(', {"step": 40, "train_')[0], "trainer_state"),
    "old names": (
        "log.json",
        json.dumps([{OLD.get(k, k): v for k, v in row.items()} for row in ROWS]),
        "trainer_state",
    ),
    "jsonl": ("x.jsonl", as_lines(ROWS), "jsonl"),
    "jsonl with CRLF": ("x.jsonl", as_lines(ROWS).replace("\n", "\r\n"), "jsonl"),
    "jsonl of metrics": ("x.jsonl", as_lines([{"step": row["step"], "metrics": row} for row in ROWS]), "jsonl"),
    "one line": ("x.jsonl", as_lines([{**ROWS[0], "tools": [{"n": 1}]}]), "jsonl"),
    "text": ("x.jsonl", as_lines([{k: str(v) for k, v in row.items()} for row in ROWS]), "jsonl"),
    "ms-swift": (
        "logging.jsonl",
        as_lines(
            [
                {"global_step/max_steps": f"{row.pop('step')}/40", "percentage": "2.5%", "elapsed_time": "3s", **row}
                for row in map(dict, ROWS)
            ]
        ),
        "jsonl",
    ),
    "UTF-16": ("x.jsonl", ("\ufeff" + as_lines(ROWS)).encode("utf-16-le"), "jsonl"),
    "UTF-8 with a mark": ("x.csv", ("\ufeff" + as_table(ROWS)).encode(), "csv"),
    "wandb history": (
        "history.jsonl",
        as_lines([{"_step": i, "_runtime": 1.5, "_timestamp": 2e9} | prefixed(row) for i, row in enumerate(ROWS)]),
        "wandb",
    ),
    "wandb by pandas": (
        "history.jsonl",
        as_lines([dict.fromkeys(map(str, prefixed({**ROWS[0], **ROWS[2]})), NAN) | prefixed(row) for row in ROWS]),
        "wandb",
    ),
    "wandb CSV": ("wandb_export.csv", as_table([{"_step": i} | prefixed(row) for i, row in enumerate(ROWS)]), "wandb"),
    "wandb page": ("wandb_export.csv", wandb_page(ROWS), "wandb"),
    "pandas CSV": ("log.csv", as_table([{"": i} | row for i, row in enumerate(ROWS)]), "csv"),
    "semicolons": ("log.csv", as_table(ROWS, ";"), "csv"),
    "copied table": ("table.txt", copied_table(TRAINING), "csv"),
    "aligned table": ("table.txt", copied_table(TRAINING, "   "), "csv"),
    "data frame as JSON": (
        "x.jsonl",
        as_lines([dict.fromkeys({**ROWS[0], **ROWS[2], **ROWS[5]}) | row for row in ROWS]),
        "jsonl",
    ),
    "Markdown": ("table.md", markdown(TRAINING), "csv"),
    "console": ("train.log", console(ROWS, text=False), "console"),
    "console of transformers 5": ("train.log", console(ROWS, text=True), "console"),
    "console, older bars": ("train.log", console(ROWS, text=True).replace("\n", "\r\n"), "console"),
    "notebook": ("nb.ipynb", notebook(TRAINING), "notebook"),
    "page": ("nb.html", "<html>" + html_table(TRAINING[:1]) + html_table(TRAINING), "notebook"),
    "events": ("events.out.tfevents.1.host.1.0", events(ROWS), "tensorboard"),
    "events with tensors": ("events.out.tfevents.1.host.1.0", events(ROWS, as_tensor=True), "tensorboard"),
}
NO_EVALUATION = {"lists by name", "one line", "copied table", "aligned table", "Markdown", "notebook", "page"}
UNNUMBERED = {"console", "console of transformers 5", "console, older bars"}
NOTED = {"torn state", "wandb by pandas", "data frame as JSON"}
SHORTER = {"lists by name": [0, 1, 3], "one line": [0]}


def written(folder: Path, name: str, body: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return path


def same(series: Series, expected: list[float]) -> bool:
    return bool(np.array_equal(series.values, np.array(expected), equal_nan=True)) and not series.bad.any()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_log(tmp_path: Path, form: str) -> None:
    """Names, steps, evaluations and gaps come out alike, and the summary at the end is no step."""
    name, body, expected = FORMS[form]
    log = reading.read(written(tmp_path, name, body))
    places = SHORTER.get(form, [0, 1, 2, 3])
    assert log.form == expected
    assert log.numbered == (form not in UNNUMBERED)
    steps = [1.0, 2.0, 3.0, 4.0] if form in UNNUMBERED else STEPS
    assert log.steps.tolist() == [steps[place] for place in places]
    assert set(log.series) - {"epoch"} == set(SERIES)
    for metric, values in SERIES.items():
        assert same(log.series[metric], [values[place] for place in places]), metric
    held_out = {} if form in NO_EVALUATION else HELD_OUT
    assert set(log.held_out) == set(held_out)
    assert all(same(log.held_out[metric], values) for metric, values in held_out.items())
    assert log.held_out_steps.tolist() == ([steps[1]] if held_out else [])
    assert log.components == ("f",)
    assert len(log.notes) == (form in NOTED)


ERAS = {
    "0.14-0.16": {"completion_length": 12.0, "rewards/f": 0.5, "reward": 0.5},
    "0.16": {"clip_ratio": 0.25, "completion_length": 12.0, "rewards/f": 0.5},
    "0.17+": {"completions/mean_length": 12.0, "clip_ratio/region_mean": 0.25, "rewards/f/mean": 0.5},
    "0.18+": {"frac_reward_zero_std": 0.0, "completions/mean_length": 12.0, "rewards/f/mean": 0.5},
    "0.20+": {"entropy": 1.5, "frac_reward_zero_std": 0.0, "rewards/f/mean": 0.5},
    "0.23+": {"sampling/sampling_logp_difference/mean": 0.01, "entropy/mean": 1.5, "rewards/f/mean": 0.5},
    "0.26+": {"step_time": 1.0, "entropy": 1.5, "rewards/f/mean": 0.5},
    "1.0+": {"vespo/phi_seq_mean": 1.0, "step_time": 1.0, "rewards/f/mean": 0.5},
    "1.9+": {"policy_loss": 0.1, "vespo/phi_seq_mean": 1.0, "rewards/f/mean": 0.5},
    "unknown": {"train_reward": 0.5, "completion_tokens": 12.0, "rewards/f/mean": 0.5},
}
CURRENT = {
    "completion_length": "completions/mean_length",
    "completion_tokens": "completions/mean_length",
    "clip_ratio": "clip_ratio/region_mean",
    "entropy/mean": "entropy",
    "rewards/f": "rewards/f/mean",
    "train_reward": "reward",
}


@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_known_and_gets_the_names_of_today(tmp_path: Path, era: str) -> None:
    """Old names are said with the new ones, and both sides, training and evaluation, have the new ones."""
    rows = [{"step": step, **ERAS[era]} for step in (1, 2)]
    rows.append({"step": 2, **{f"eval_{name}": value for name, value in ERAS[era].items()}})
    log = reading.read(written(tmp_path, "x.json", json.dumps(rows)))
    assert log.era == era
    assert log.renamed == {name: CURRENT[name] for name in ERAS[era] if name in CURRENT}
    for name, value in ERAS[era].items():
        assert same(log.series[CURRENT.get(name, name)], [value, value])
    inner = {CURRENT.get(name, name) for name in ERAS[era]} - ({"reward"} if "train_reward" in ERAS[era] else set())
    assert inner <= set(log.held_out)


def test_the_new_name_counts_where_a_row_has_both(tmp_path: Path) -> None:
    """Unsloth writes completion_length beside completions/mean_length, in either order."""
    rows = [
        {"step": 1, "loss": 0.1, "completion_length": 5.0, "completions/mean_length": 7.0},
        {"step": 2, "loss": 0.1, "completions/mean_length": 8.0, "completion_length": 5.0},
        {"step": 3, "loss": 0.1, "completion_length": 9.0},
    ]
    log = reading.read(written(tmp_path, "x.json", json.dumps(rows)))
    assert log.series["completions/mean_length"].values.tolist() == [7.0, 8.0, 9.0]


REST = [{"step": 3, "reward": 1.5}, {"step": 4, "loss": 0}]
BAD: dict[str, tuple[str, str]] = {
    "json": (
        "x.json",
        '[{"step":1,"reward":null},{"step":2,"reward":NaN},{"step":3,"reward":1.5},{"step":4,"loss":0}]',
    ),
    "jsonl": (
        "x.jsonl",
        """\
{"step":1,"reward":-Infinity}
{"step":2,"reward":"nan"}
{"step":3,"reward":"1.5"}
{"step":4,"loss":0,"reward":"-"}
""",
    ),
    "csv": ("x.csv", "step,reward,loss\n1,None,0\n2,inf,0\n3,1.5,0\n4,,0\n"),
    "console": ("x.log", "{'reward': nan}\n{'reward': -inf}\n{'reward': 1.5}\n{'loss': 0.5}\n"),
    "wandb": (
        "x.jsonl",
        """\
{"train/global_step":1,"train/reward":"NaN"}
{"train/global_step":2,"train/reward":"Infinity"}
{"train/global_step":3,"train/reward":1.5}
{"train/global_step":4,"train/loss":1,"train/reward":null}
""",
    ),
    "infinity": ("x.json", json.dumps([{"step": 1, "reward": -math.inf}, {"step": 2, "reward": math.nan}, *REST])),
    "huge": ("x.json", json.dumps([{"step": 1, "reward": 10**400}, {"step": 2, "reward": math.inf}, *REST])),
}


@pytest.mark.parametrize("form", BAD)
def test_bad_numbers_and_gaps_stay_apart(tmp_path: Path, form: str) -> None:
    """Null, NaN and infinity were logged, and are marked; what is missing was not, and is not."""
    series = reading.read(written(tmp_path, *BAD[form])).series["reward"]
    assert series.bad.tolist() == [True, True, False, False]
    assert np.array_equal(series.values, [NAN, NAN, 1.5, NAN], equal_nan=True)


def test_null_is_no_gap_where_rows_differ_in_their_names(tmp_path: Path) -> None:
    """A loop that puts its evaluations into the rows of training does not fill up the rows without one."""
    rows = [{"step": 1, "loss": 0.5, "reward": None, "eval_reward": 0.5}, {"step": 2, "loss": 0.5, "reward": None}]
    assert reading.read(written(tmp_path, "x.json", json.dumps(rows))).series["reward"].bad.tolist() == [True, True]


def test_values_in_wrappers_are_read_from_a_console(tmp_path: Path) -> None:
    """A loop that prints numpy's numbers, double quotes or JSON is read too; what has no metric is passed over."""
    text = (
        "{'loss': np.float64(0.5), 'epoch': 1}\n"
        '{"loss": "0.25", "epoch": 2}\n{"a": 1, "epoch": 3}\n{broken {{ } \n{\'loss\': tensor(0.125), \'epoch\': 4}\n'
        "{'loss': \x1b[36m0.0625\x1b[0m, 'epoch': 5}\n{'loss': 0.1, 'epo"
    )
    log = reading.read(written(tmp_path, "x.log", text))
    assert log.series["loss"].values.tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert any("torn" in note for note in log.notes)


def test_arguments_beside_a_log_are_options(tmp_path: Path) -> None:
    """A state's own settings, a `cfg` written as text, TensorBoard's text, ms-swift's args.json; then the caller's."""
    cfg = {"beta": "0.04", "num_generations": "8", "bf16": "False", "report_to": "[]", "loss_type": "dapo"}
    path = written(tmp_path, "x.json", json.dumps({"cfg": cfg, "logging_steps": 5, "log_history": ROWS}))
    options = reading.read(path, options={"beta": 1.0, "top_p": 0.5}).options
    assert {name: options[name] for name in cfg} == {
        "beta": 0.04,
        "num_generations": 8,
        "bf16": False,
        "report_to": "[]",
        "loss_type": "dapo",
    }
    assert (options["logging_steps"], options["top_p"]) == (5, 0.5)
    (note,) = reading.read(path, options={"beta": 1.0, "loss_type": "dapo"}).notes
    assert note == "option beta: 1.0 was given, but 0.04 stands beside the log and counts"
    text = event_files.tensor("args/text_summary", event_files.field(8, json.dumps({"beta": 0.1}).encode()))
    body = event_files.VERSION + event_files.event(0, [text]) + events(ROWS)[len(event_files.VERSION) :]
    assert reading.read(written(tmp_path, "e", body)).options == {"beta": 0.1}
    written(tmp_path, "args.json", json.dumps({"beta": 0.2, "num_iterations": 2, "swift_version": "3"}))
    assert reading.read(written(tmp_path, "logging.jsonl", as_lines(ROWS))).options == {
        "beta": 0.2,
        "num_iterations": 2,
    }


@pytest.mark.skipif(not HANDED.is_dir(), reason=f"{HANDED} is not there; set FINETUNE_CASES")
def test_handed_logs() -> None:
    """The project's logs of public and made runs: all rows, all names, evaluations apart."""
    paths = [path for path in HANDED.rglob("*.json") if path.name != "index.json"]
    assert len(paths) >= 50
    for path in paths:
        document = json.loads(path.read_text())
        rows = document if isinstance(document, list) else document["log_history"]
        log = reading.read(path)
        training = [row for row in rows if "loss" in row or "train_reward" in row]
        evaluations = [row for row in rows if any(name.startswith("eval_") for name in row)]
        assert len(log.steps) == len(training), path
        assert len(log.held_out_steps) == len(evaluations), path
        assert bool((np.diff(log.steps) > 0).all()), path
        assert log.numbered == ("step" in rows[0]), path
        rewards = [row.get("reward", row.get("train_reward")) for row in training]
        found = log.series["reward"]
        expected = [NAN if value is None else float(value) for value in rewards]
        assert np.array_equal(found.values, expected, equal_nan=True), path
        nulls = [("reward" in row and row["reward"] is None) for row in training]
        assert found.bad.tolist() == nulls, path
        assert log.options.get("num_generations") == (None if isinstance(document, list) else 8), path


def test_a_log_is_a_plain_record(tmp_path: Path) -> None:
    """What is read says where it is from and holds float64 throughout."""
    path = written(tmp_path, "x.json", json.dumps(ROWS))
    log = reading.read(path)
    assert isinstance(log, RunLog)
    assert log.source == str(path)
    assert {column.values.dtype for column in log.series.values()} | {log.steps.dtype} == {np.dtype("float64")}
