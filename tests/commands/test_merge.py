"""`merge` says in one line where there is nothing to merge, and leaves what is not its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
