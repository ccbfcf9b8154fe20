"""`finetune sample` through the other two engines: a real vLLM, a real server, and a server that is choosy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint_stub import Answer, StubServer

import runs
from llm_finetuning import artifact
from llm_finetuning.types import Sample

Finetune = Callable[..., tuple[int, str, str]]

PROMPTS, G = 3, 2


def brief(model: str, engine: str, endpoint: dict[str, Any] | None = None) -> str:
    head = runs.BRIEF.replace("some/model", json.dumps(model)).partition("sampling:")[0]
    sampling = {
        "num_generations": G,
        "prompts": PROMPTS,
        "max_completion_length": 8,
        "engine": engine,
        "endpoint": endpoint,
    }
    return head + f"sampling: {json.dumps(sampling)}\n"


def sampled(folder: Path, finetune: Finetune, *arguments: str) -> list[Sample]:
    """Sample, check that all is there, score, and return the samples."""
    code, _, err = finetune("sample", folder, *arguments)
    assert code == 0, err
    records = artifact.read_lines(folder / "samples.jsonl", Sample).records
    assert len({sample.sample_id for sample in records}) == len(records) == PROMPTS * (G + 1)
    assert finetune("score", folder)[0] == 0
    return records


@pytest.mark.model
def test_vllm_samples_a_run(tmp_path: Path, finetune: Finetune, vllm_python: str, model_folder: str) -> None:
    """The offline engine, from a brief to scores."""
    folder = runs.write_run(tmp_path / "run", text=brief(model_folder, "vllm"))

    assert all(sample.completion_ids for sample in sampled(folder, finetune, "--python", vllm_python))


@pytest.mark.model
def test_real_server_samples_a_run(tmp_path: Path, finetune: Finetune, vllm_server: str) -> None:
    """A server, from a brief to scores; vLLM's says the token ids too."""
    folder = runs.write_run(tmp_path / "run", text=brief("any/name", "endpoint", {"url": vllm_server, "model": "smol"}))

    for sample in sampled(folder, finetune):
        assert sample.completion_ids
        assert len(sample.completion_ids) == sample.tokens


def test_server_without_seeds_and_ids_is_told_and_used(
    tmp_path: Path, finetune: Finetune, stub_server: Callable[..., StubServer]
) -> None:
    """What the server cannot do is said once; a reward that needs token ids is refused by name."""

    def answer(route: str, body: dict[str, Any], _: int) -> Answer:
        if route == "/models":
            return 200, {}, {"data": [{"id": "smol"}]}
        if "seed" in body:
            return 400, {}, {"error": {"message": "unknown field: seed"}}
        if "return_token_ids" in body:
            return 400, {}, {"error": {"message": "unknown field: return_token_ids"}}
        choice = {"index": 0, "finish_reason": "stop", "text": "it is 3"}
        return 200, {}, {"choices": [choice], "usage": {"completion_tokens": 3, "prompt_tokens": 5}}

    server = stub_server(answer)
    text = brief("any/name", "endpoint", {"url": server.url, "model": "smol"})
    folder = runs.write_run(tmp_path / "run", text=text)
    code, _, err = finetune("sample", folder)
    assert code == 0, err
    assert "seed" in err
    assert finetune("score", folder)[0] == 0

    (folder / "ids.py").write_text("def ids(completion_ids, **kwargs):\n    return [0.0 for _ in completion_ids]\n")
    (folder / "brief.yaml").write_text(
        text.replace("use: exact_answer\n    options: {extract: last_number}", "file: ids.py:ids")
    )
    code, _, err = finetune("score", folder)
    assert code == 2
    assert "`ids` reads completion_ids, which this server does not return" in err
