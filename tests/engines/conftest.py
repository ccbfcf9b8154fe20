"""The real model, an interpreter with the heavy libraries, and servers, each brought once a session."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endpoint_stub import Answering, StubServer

SERVER_START_S = 240


@pytest.fixture(scope="session")
def vllm_server(vllm_python: str, model_folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a real vLLM server that serves the model as `smol`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [vllm_python, "-m", "vllm.entrypoints.openai.api_server", "--model", model_folder]
    command += ["--served-model-name", "smol", "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048"]
    # vLLM 0.31 on the CPU dies of a seeded request whose prompt it splits over two steps.
    command += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        await_server(url, server, log)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def await_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server lists its models; fails with its log when it ends or takes too long."""
    deadline = time.monotonic() + SERVER_START_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/models", timeout=2):
            return
        time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")


@pytest.fixture
def stub_server() -> Iterator[Callable[..., StubServer]]:
    """A maker of stub servers, all closed after the test."""
    servers: list[StubServer] = []

    def start(answer: Answering) -> StubServer:
        servers.append(StubServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
