"""On a machine with a GPU: driver, torch and kernel agree on it. Skipped without one."""

import pytest

from llm_finetuning.machine import driver, gpu_checks, host, reading


@pytest.mark.gpu
def test_driver_and_torch_see_the_same_gpus(engine_python: str) -> None:
    """The same number, capability and, where the driver tells it, memory; torch has code for them."""
    found, gpus = driver.read()
    if not gpus:
        pytest.skip(f"needs an NVIDIA GPU, and the driver names none ({found.fault or 'there is no driver'})")
    torch = reading.asked(engine_python, devices=True).torch
    assert torch is not None
    assert torch.fault is None
    assert len(torch.devices) == len(gpus)
    for gpu, device in zip(gpus, torch.devices, strict=True):
        assert gpu.capability in (None, device.capability)
        assert gpu_checks.supports(device.capability, torch.architectures)
        if gpu.total_gib is not None and not gpu.mig:
            assert device.total_gib == pytest.approx(gpu.total_gib, rel=0.05)
        else:
            total = host.read().total_gib
            assert gpu.mig or total is None or device.total_gib <= 1.05 * total
