"""How long the drift suite takes is told from batches that were timed, and by nothing else."""

from pathlib import Path

import pytest

import evaluations
from llm_finetuning import artifact, pipeline
from llm_finetuning.evaluating import pace
from llm_finetuning.types import Sample

ENGINE = "the engine"


def write(folder: Path, name: str, batches: list[tuple[float | None, list[int]]], *, engine: str = ENGINE) -> None:
    """Write completions: of each batch the seconds that one took of it, and their lengths; whole if it is the suite."""
    samples = [
        Sample(
            sample_id=f"{place}/{index}",
            prompt_id=str(place),
            row=place + 1,
            pass_name="policy",
            index=index,
            prompt="p",
            columns={},
            completion="c",
            completion_ids=None,
            tokens=length,
            finish_reason="stop",
            temperature=1.0,
            seconds=seconds,
        )
        for place, (seconds, lengths) in enumerate(batches)
        for index, length in enumerate(lengths)
    ]
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.samples.jsonl"
    artifact.write_lines(path, artifact.header_for(path, {"engine": engine}), samples)
    if name.endswith(pipeline.DRIFT):
        made = folder / f"{name}.json"
        artifact.write_json(made, artifact.header_for(made, {}), evaluations.of_rewards([[1.0]]))


def told(folder: Path, name: str = "final") -> str:
    return pace.forecast(folder, name, engine=ENGINE, items=324, longest=256)


def test_the_held_out_rows_tell_the_pace_of_a_batch(tmp_path: Path) -> None:
    """Two batches of 64 in 32 s and 64 s, 50 and 100 steps: 0.64 s a step, six batches of 256, or twice that."""
    write(tmp_path / "eval", "final", [(0.5, [50] + [10] * 63), (1.0, [100] * 64)])
    assert told(tmp_path / "eval") == "about 16 min to 33 min at the pace of the held-out rows"


def test_another_models_run_of_it_tells_more(tmp_path: Path) -> None:
    """The base's before any other's, scaled by how much slower this model is on the held-out rows."""
    folder = tmp_path / "eval"
    write(folder, "a.drift", [(9.0, [256] * 10)])
    write(folder, "base.drift", [(2.0, [256] * 64), (2.5, [200] * 64), (3.0, [256] * 64)])
    assert told(folder) == "`base` took 8 min for it"
    write(folder, "base", [(0.5, [100] * 64)])
    assert told(folder) == "`base` took 8 min for it"
    write(folder, "final", [(0.7, [100] * 64)])
    assert told(folder) == "about 11 min: `base` took 8 min for it, at 1.4 times the time a token"
    assert told(folder, "base") == "`a` took 90 s for it"


@pytest.mark.parametrize("batches", [[(None, [5] * 4)], [(0.0, [5] * 4)], []], ids=["a server", "no time", "none"])
def test_without_a_time_nothing_is_told(tmp_path: Path, batches: list[tuple[float | None, list[int]]]) -> None:
    """Nor from another engine, nor from a file that cannot be read."""
    folder = tmp_path / "eval"
    assert told(folder) == ""
    write(folder, "final", batches)
    write(folder, "base.drift", batches)
    assert told(folder) == ""
    write(folder, "final", [(0.5, [10] * 64)], engine="another")
    assert told(folder) == ""
    (folder / "final.samples.jsonl").write_text("{")
    assert told(folder) == ""
