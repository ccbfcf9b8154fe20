"""A judge behind a real model server is measured; a model of 135 million parameters is a bad one, and that is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

import judged_runs as judged
from llm_finetuning.rewards.judges.calibration import CalibrationRecord

SHORT = "      max_tokens: 96\n"


@pytest.mark.model
@pytest.mark.timeout(1800)  # some 130 verdicts, on a CPU that others may be using
def test_a_small_model_is_measured_and_may_not_pay(
    vllm_server: str, tmp_path: Path, finetune: Callable[..., tuple[int, str, str]]
) -> None:
    """60 items that a person judged: the record is written, says that it is no judge, and the reward refuses."""
    folder = judged.write(tmp_path / "run", vllm_server, rows=15, model="smol", options=SHORT)
    text = (folder / "brief.yaml").read_text("utf-8")
    text = text.replace("timeout_s: 20", "timeout_s: 300").replace("concurrency: 4", "concurrency: 16")
    (folder / "brief.yaml").write_text(text, "utf-8")
    judged.label(folder, finetune, rows=15)

    code, out, err = finetune("calibrate", folder)
    assert code == 0, err
    assert "labels: 60 samples judged by people, 30 accepted" in out
    code, out, err = finetune("calibrate", folder, "--open-test")
    assert code == 1, out + err
    assert "the judge may not pay:" in out
    record = CalibrationRecord.model_validate_json((folder / "calibration.json").read_text("utf-8"))
    assert record.judge.model == "smol"
    assert record.test.judged > 0, out  # a server that gives no verdict at all would measure nothing
    assert record.labelling.test >= 50

    code, _, err = finetune("score", folder)
    assert code == 2
    assert "this judge may not pay" in err
    assert not (folder / "scores.jsonl").exists()
