"""`merge` says in one line where there is nothing to merge, and leaves what is not its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import evaluations
import finished_runs
import weights
from llm_finetuning import brief, checkpoints

Finetune = Callable[..., tuple[int, str, str]]


def write(folder: Path, *names: str) -> None:
    """Write a folder with files of these names."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("{}", "utf-8")


@pytest.mark.parametrize(
    ("there", "options", "says"),
    [
        ([], [], "no {run}/train/model yet"),
        ([], ["--checkpoint", "7"], "--checkpoint 7: no such whole checkpoint"),
        ([("model", "config.json")], [], "{run}/train/model: is a whole model; there is nothing to merge"),
        (
            [("model", "adapter_config.json"), ("merged", "config.json")],
            [],
            "{run}/train/merged: is there, and `finetune merge` did not write it; move it away",
        ),
    ],
    ids=["nothing trained", "no checkpoint", "a whole model", "a folder of somebody else's"],
)
def test_a_call_that_cannot_be_is_one_line(
    there: list[tuple[str, str]], options: list[str], says: str, run_dir: Path, finetune: Finetune
) -> None:
    """And nothing is written."""
    for folder, name in there:
        write(run_dir / "train" / folder, name)
    before = sorted(run_dir.rglob("*"))
    code, _, err = finetune("merge", run_dir, *options)

    assert code == 2
    assert says.format(run=run_dir) in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(run_dir.rglob("*")) == before


def trained_adapter(root: Path) -> Path:
    """Return a run that was trained to the end, whose training left an adapter."""
    run = finished_runs.write_drawn(root)
    finished_runs.examine(run)
    finished_runs.read(run)
    finished_runs.build(run)
    finished_runs.train(run)
    adapter = run / "train" / "model"
    for path in adapter.iterdir():
        path.unlink()
    base = {"base_model_name_or_path": str(root / "model")}
    (adapter / checkpoints.ADAPTER).write_text(json.dumps(base), "utf-8")
    (adapter / "adapter_model.safetensors").write_bytes(b"trained")
    return run


def leave_merged(run: Path) -> Path:
    """Leave what `merge` makes of that adapter; it is then called again without loading a model."""
    loaded = brief.load(run)
    final = checkpoints.checkpoint(loaded, "final")
    merged = run / checkpoints.MERGED
    merged.mkdir()
    (merged / "config.json").write_text("{}", "utf-8")
    weights.write(merged)
    of = {"adapter": final.adapter, "model": final.model, "sha256": checkpoints.digest(loaded, final)}
    said = {"bytes": 1e7, "dtype": "float32", "kl": 1e-8, "moved": 0.1, "agreeing": 1.0, "tokens": 9}
    (merged / checkpoints.MERGE_RECORD).write_text(json.dumps({**of, **said, "asked_dtype": None}), "utf-8")
    return merged


def test_merge_and_status_say_the_same_and_never_to_merge_what_is_merged(
    tmp_path: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured is what will be in use; then it is compared, and the next run begins from it, all named as given."""
    run = trained_adapter(tmp_path)
    monkeypatch.chdir(tmp_path)

    def following(*call: object) -> str:
        code, out, err = finetune(*call)
        assert code == 0, err
        assert finetune("status", "run")[1].splitlines()[-1] == out.splitlines()[-1]
        return out.splitlines()[-1].removeprefix("next: ")

    evaluated = "finetune evaluate run --model run/train/merged"
    finetune("diagnose", "run")
    assert "merged" not in finetune("status", "run")[1]
    merged = leave_merged(run)
    assert following("merge", "run") == "finetune evaluate run --checkpoint final"
    assert f"  to measure it on the held-out rows: `{evaluated}`\n" in finetune("merge", "run")[1]
    assert "step 60: all steps done; merged: run/train/merged\n" in finetune("status", "run")[1]

    evaluations.write_transcripts(run, "final", lambda _, index: index < 3, model=str(run / "train" / "model"))
    assert finetune("evaluate", "run", "--checkpoint", "final")[0] == 0
    assert finetune("compare", "run", "base", "final")[0] == 0
    assert following("merge", "run") == evaluated
    assert "to measure it" not in finetune("merge", "run")[1]  # that is next
    evaluations.write_transcripts(run, "merged", lambda _, index: index < 3, model=str(merged))
    assert following("evaluate", "run", "--model", "run/train/merged") == "finetune compare run base merged"
    begin = "`finetune new run-2 --from run --model run/train/merged`"
    assert following("compare", "run", "base", "merged").endswith(f"put it in place: {begin}")


def test_nothing_is_to_be_measured_where_nothing_is_held_out(tmp_path: Path, finetune: Finetune) -> None:
    """`evaluate` would refuse; the result is otherwise the same."""
    run = trained_adapter(tmp_path)
    leave_merged(run)
    finetune("status", run)  # reads away what was printed until here
    assert json.loads(finetune("merge", run, "--json")[1])["measure"] == (
        f"finetune evaluate {run} --model {run}/train/merged"
    )
    path = run / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace(", evaluation: held.jsonl", ""), "utf-8")
    code, out, _ = finetune("merge", run)
    assert (code, "to measure it" in out) == (0, False)
