"""TensorBoard's event files: every way in which a scalar is written, and what is none."""

import struct
from pathlib import Path

import pytest
from event_files import VERSION, event, field, fixed, record, simple, tensor, varint, whole

from llm_finetuning.diagnosis import reading
from llm_finetuning.errors import Refusal

SCALARS = {
    "simple_value": simple("train/reward", 0.25),
    "float_val": tensor("train/reward", whole(1, 1) + fixed(5, 0.25)),
    "float_val, packed": tensor("train/reward", whole(1, 1) + field(5, struct.pack("<f", 0.25))),
    "double_val": tensor("train/reward", whole(1, 2) + fixed(6, 0.25, "<d")),
    "content of floats": tensor("train/reward", whole(1, 1) + field(2, b"") + field(4, struct.pack("<f", 0.25))),
    "content of doubles": tensor("train/reward", whole(1, 2) + field(4, struct.pack("<d", 0.25))),
}
WHOLE = {
    "int_val": tensor("train/reward", whole(1, 3) + whole(7, -3)),
    "int64_val, packed": tensor("train/reward", whole(1, 9) + field(10, varint(-3))),
    "content": tensor("train/reward", whole(1, 9) + field(4, struct.pack("<q", -3))),
}
NONE = {
    "picture": field(1, b"train/x") + field(4, field(4, b"png")),
    "several numbers": tensor("train/x", whole(1, 1) + field(5, struct.pack("<ff", 1.0, 2.0))),
    "text": tensor("train/x", whole(1, 7) + field(8, b"hello")),
    "half a number": tensor("train/x", whole(1, 1) + field(4, b"\0\0\0")),
}


def read(folder: Path, body: bytes) -> reading.RunLog:
    path = folder / "events.out.tfevents.1"
    path.write_bytes(body)
    return reading.read(path)


@pytest.mark.parametrize("kind", [*SCALARS, *WHOLE])
def test_every_kind_of_scalar(tmp_path: Path, kind: str) -> None:
    """simple_value of old writers, tensors of new ones, in every layout that protobuf allows."""
    value = {**SCALARS, **WHOLE}[kind]
    log = read(tmp_path, VERSION + event(7, [value]) + event(300, [value]))
    assert log.steps.tolist() == [7, 300]
    assert log.series["reward"].values.tolist() == [0.25 if kind in SCALARS else -3.0] * 2


@pytest.mark.parametrize("kind", NONE)
def test_what_is_no_scalar_is_passed_over(tmp_path: Path, kind: str) -> None:
    """Pictures, histograms and text stand beside the scalars of a step."""
    log = read(tmp_path, VERSION + event(1, [NONE[kind], simple("train/reward", 0.5)]))
    assert set(log.series) == {"reward"}
    assert log.notes == ()


def test_numbers_that_are_none_are_marked(tmp_path: Path) -> None:
    """NaN and infinity are logged as such."""
    body = VERSION + event(1, [simple("train/kl", float("nan"))]) + event(2, [simple("train/kl", float("inf"))])
    assert read(tmp_path, body).series["kl"].bad.tolist() == [True, True]


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    """Cut anywhere after its first scalar it is read up to the last whole record."""
    whole_file = VERSION + event(1, [simple("train/kl", 0.5)]) + event(2, [simple("train/kl", 0.25)])
    first = len(VERSION + event(1, [simple("train/kl", 0.5)]))
    for end in range(first + 1, len(whole_file) - 4):
        log = read(tmp_path, whole_file[:end])
        assert log.series["kl"].values.tolist() == [0.5]
        assert log.notes == ("the last record is torn and was left out, as in a log that is being written",)


def test_a_record_that_is_no_event_is_left_out(tmp_path: Path) -> None:
    """One broken message takes nothing with it; a file of nothing else is refused."""
    broken = record(varint(5 << 3 | 2) + varint(99) + field(1, simple("train/kl", 9.0)))  # of 99 bytes a few are there
    body = VERSION + broken + record(b"\x0b") + event(1, [simple("train/kl", 0.5)])
    log = read(tmp_path, body)
    assert log.series["kl"].values.tolist() == [0.5]
    assert log.notes == ("2 records hold no event and were left out",)
    with pytest.raises(Refusal, match="none of its 0 rows"):
        read(tmp_path, VERSION + broken)


def test_a_file_of_the_real_writer() -> None:
    """What torch 2.13's SummaryWriter wrote with tensorboard 2.21: scalars of both kinds, text and a histogram."""
    log = reading.read(Path(__file__).with_name("summary_writer.tfevents"))
    assert log.form == "tensorboard"
    assert log.steps.tolist() == list(range(1, 13))
    assert log.series["reward"].values.tolist() == [0.25 + step / 32 for step in range(1, 13)]
    assert log.series["kl"].bad.tolist() == [False] * 11 + [True]
    assert (log.held_out_steps.tolist(), log.held_out["reward"].values.tolist()) == ([4, 8, 12], [0.25, 0.5, 0.75])
    assert log.components == ("math/exact",)
    assert {"learning_rate": 1e-05, "num_generations": 8, "beta": 0.0}.items() <= log.options.items()
    assert log.notes == ()
