"""What memory a run may take: a card's own, or what a shared pool has available above the host's floor."""

from pathlib import Path

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.recipes.config import Machine
from llm_finetuning.sizing import devices
from llm_finetuning.sizing.devices import device_of
from llm_finetuning.sizing.forecast import forecast
from planned_runs import situated, write

SPARK = Machine(name="dgx-spark", gpus=1)


def meminfo(total: float, free: float, available: float) -> str:
    """Return a /proc/meminfo of these sizes, GiB."""
    return "".join(
        f"{name}: {int(size * 1024**2)} kB\n"
        for name, size in (("MemTotal", total), ("MemFree", free), ("MemAvailable", available))
    )


def test_spark_is_planned_on_available_memory() -> None:
    """Page cache is not taken memory: 97 GiB count where 8 are free, less a tenth for the host (case B63)."""
    device = device_of(SPARK, meminfo=meminfo(121.7, 8, 97))
    assert device is not None
    assert device.unified
    assert device.total_gib == pytest.approx(121.7, abs=0.01)
    assert device.free_gib == pytest.approx(97 - 12.17, abs=0.01)
    (note,) = device.notes
    assert "a person may drop them" in note


def test_shared_memory_comes_out_of_the_same_pool() -> None:
    """A shm of 64 GB is the GPU's memory too on a Spark, and none of it on a discrete card."""
    with_shm, without = (device_of(SPARK, available_gib=97, host_gib=host) for host in (64, 0))
    assert with_shm is not None
    assert without is not None
    assert without.free_gib - with_shm.free_gib == pytest.approx(64)
    card = device_of(Machine(name="h100", gpus=1), host_gib=64)
    assert card is not None
    assert card.free_gib == card.total_gib


def test_a_spark_elsewhere_is_at_rest() -> None:
    """Without its meminfo the usual free memory of a machine at rest counts, never the 128 GB of its name."""
    device = device_of(SPARK)
    assert device is not None
    assert device.free_gib == pytest.approx(115.8 - 12)
    assert not device.notes


def test_stated_memory_is_taken_and_unknown_memory_is_none() -> None:
    """A person may say what is free, never more than the card has; no number is made up."""
    card = device_of(Machine(name="h100", gpus=1), available_gib=60)
    assert card is not None
    assert (card.free_gib, card.total_gib) == (60, 79.18)
    with pytest.raises(Refusal, match=r"--available 100: h100 has 79\.2 GiB"):
        device_of(Machine(name="h100", gpus=1), available_gib=100)
    with pytest.raises(Refusal, match="--available 500: dgx-spark has"):
        device_of(Machine(name="dgx-spark", gpus=1), available_gib=500)
    for machine in (Machine(name="cpu", gpus=0), Machine(name="dgx-spark", gpus=1)):
        with pytest.raises(Refusal, match=r"--host 500: only .* are there"):
            device_of(machine, host_gib=500, meminfo=meminfo(128, 2, 100))
    unknown = device_of(Machine(name="rtx4080", gpus=1), available_gib=15.5)
    assert unknown is not None
    assert (unknown.free_gib, unknown.total_gib) == (15.5, 15.5)
    assert device_of(Machine(name="mi300x", gpus=1)) is None
    assert device_of(Machine(name="cpu", gpus=0)) is None
    cpu = device_of(Machine(name="cpu", gpus=0), meminfo=meminfo(32, 2, 20))
    assert cpu is not None
    assert cpu.free_gib == pytest.approx(20, abs=0.01)


def test_the_machine_at_hand_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `hardware: auto` on a Spark its own meminfo counts; a Spark that is merely named is one at rest."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho 'NVIDIA GB10, [N/A]'\n")
    smi.chmod(0o755)
    kernel = tmp_path / "meminfo"
    kernel.write_text(meminfo(121.7, 40, 60))
    monkeypatch.setenv("PATH", str(smi.parent), prepend=":")
    monkeypatch.setattr(devices, "MEMINFO", kernel)
    here = situated(write(tmp_path / "a", hardware="auto"))[1].device
    named = situated(write(tmp_path / "b", hardware="dgx-spark"))[1].device
    assert here.free_gib == pytest.approx(60 - 12.17, abs=0.01)
    assert named.free_gib == pytest.approx(115.8 - 12)


def test_paged_states_have_nowhere_to_go_on_a_spark(tmp_path: Path) -> None:
    """The host's memory, where the driver moves them, is the same memory there; on another card a run fits without."""
    found = {}
    for hardware in ("dgx-spark", "h100"):
        for optim in ("adamw_8bit", "paged_adamw_8bit"):
            run = write(tmp_path / hardware / optim, method="sft", hardware=hardware, training={"optim": optim})
            found[hardware, optim] = forecast(*situated(run)).memory.device.gib
    assert found["dgx-spark", "paged_adamw_8bit"] == found["dgx-spark", "adamw_8bit"]
    assert found["h100", "paged_adamw_8bit"] < found["h100", "adamw_8bit"] - 1
