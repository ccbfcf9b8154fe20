"""The planner beside operation-exact runs and public measurements."""

import statistics

import memory_cases
import pytest
from memory_cases import COMPUTED, POINTS, Compared

pytestmark = pytest.mark.skipif(
    not (COMPUTED.is_file() and POINTS.is_file()), reason=f"{COMPUTED.parent} is not there; set FINETUNE_CASES"
)


@pytest.fixture(scope="module")
def exact() -> list[Compared]:
    """Every operation-exact run beside its estimate."""
    return list(memory_cases.computed())


@pytest.fixture(scope="module")
def points() -> list[Compared]:
    """Every trusted public training run beside its estimate."""
    return list(memory_cases.points())


def test_operation_exact_runs_are_met_closely(exact: list[Compared]) -> None:
    """The formulae follow what the operations allocate: half of the runs within 1%, all within 5%."""
    errors = [abs(run.error or 0) for run in exact]
    worst = max(exact, key=lambda run: abs(run.error or 0))
    assert len(errors) > 20
    assert statistics.median(errors) <= 0.01
    assert abs(worst.error or 0) <= 0.05, (worst.name, worst.estimated, worst.measured)


def test_public_training_runs_are_met(points: list[Compared]) -> None:
    """Half of the public measurements lie within 8%, and all of them within a quarter."""
    measured = [point for point in points if point.error is not None]
    assert len(measured) > 20
    assert statistics.median(abs(point.error or 0) for point in measured) <= 0.08
    assert [point.name for point in measured if abs(point.error or 0) > 0.25] == []


def test_nine_of_ten_measurements_lie_in_the_stated_interval(points: list[Compared]) -> None:
    """The interval is part of the answer, neither too narrow to hold nor so wide that it says nothing."""
    stated = [point for point in points if point.inside is not None]
    assert sum(bool(point.inside) for point in stated) >= 0.9 * len(stated)
    widths = [point.high / point.low for point in stated]
    assert statistics.median(widths) <= 1.6


def test_every_recorded_out_of_memory_is_foreseen(points: list[Compared]) -> None:
    """A run that ran out of memory is not called fitting."""
    failed = [point for point in points if point.record["outcome"].startswith("OOM")]
    assert failed
    for point in failed:
        assert point.device_gib is not None
        assert point.memory.verdict(point.device_gib) == "does not fit", point.name


def test_no_run_that_fitted_is_called_impossible(points: list[Compared]) -> None:
    """A run that fitted may be called tight or unlikely, but the low end of its interval has to fit."""
    fitted = [point for point in points if not point.record["outcome"].startswith("OOM") and point.device_gib]
    assert [point.name for point in fitted if point.memory.impossible(point.device_gib or 0)] == []


def test_weights_and_cache_of_inference_are_met() -> None:
    """Weights and KV cache of the Qwen3 speed table, 0.6B to 32B and a mixture of experts, are met within 4%."""
    found = list(memory_cases.inference())
    assert len(found) > 4
    assert max(abs(point.estimated / (point.measured or 1) - 1) for point in found) <= 0.04


def test_what_vllm_logs_of_its_start_is_met() -> None:
    """Weights within 10% of vLLM's own log, and its activation peak in the stated interval in most cases."""
    found = list(memory_cases.engine_starts())
    weights = [(said, need) for _, key, said, need in found if key == "weights"]
    peaks = [need.low <= said <= need.high for _, key, said, need in found if key == "peak act"]
    assert len(weights) > 3
    for said, need in weights:
        assert need.gib == pytest.approx(said, rel=0.1)
    assert sum(peaks) >= 0.8 * len(peaks)
