"""Measure the three engines side by side and print one Markdown table; run by hand from the repository's root.

    FINETUNE_TEST_PYTHON=ENV/bin/python PYTHONPATH=scripts python tests/bench_engines.py MODEL_FOLDER

The environment holds torch, transformers and vLLM. The endpoint engine asks a vLLM server that this program starts.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_finetuning.program import run_program

PROMPTS, COMPLETIONS, TOKENS = 16, 8, 32
START_S = 240


def job(model: str) -> dict[str, Any]:
    """Return one batch of the demo's kind of prompts."""
    requests = [
        {
            "prompt_id": f"p{row}",
            "row": row,
            "prompt": [{"role": "user", "content": f"What is {9 + row} + {36 + row}? Answer with the number only."}],
            "pass_name": "policy",
            "n": COMPLETIONS,
            "temperature": 1.0,
            "seed": row,
        }
        for row in range(1, PROMPTS + 1)
    ]
    sampling = {"max_completion_length": TOKENS, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    return {
        "model": model,
        "endpoint": None,
        "sampling": sampling,
        "chat_template_kwargs": {},
        "batches": [requests, requests],  # the second is measured, when the libraries are warm
    }


@contextlib.contextmanager
def serving(model: str, python: str) -> Iterator[str]:
    """Start a vLLM server for the model and give its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "smol"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048", "--enforce-eager"]
    command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/models", timeout=2):
                break
            time.sleep(0.5)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def measure(name: str, a_job: dict[str, Any], python: str) -> str:
    """Return the table's row of one engine: seconds to be ready, then completions and tokens a second."""
    begun = time.monotonic()
    ready_s, warm_s, tokens = 0.0, 0.0, 0
    for count, record in enumerate(run_program(name, a_job, python=python)):
        now = time.monotonic() - begun
        if record["kind"] == "ready":
            ready_s, dtype = now, record["facts"].get("dtype", "of the server")
        elif count == PROMPTS:
            warm_s = now
        elif count > PROMPTS:
            tokens += sum(completion["tokens"] for completion in record["completions"])
    took_s = time.monotonic() - begun - warm_s
    made = PROMPTS * COMPLETIONS
    return f"| {name} | {dtype} | {ready_s:.1f} | {took_s:.1f} | {made / took_s:.1f} | {tokens / took_s:.0f} |"


def main() -> None:
    """Print the table."""
    model = str(Path(sys.argv[1]).resolve())
    python = os.environ["FINETUNE_TEST_PYTHON"]
    out = sys.stdout
    out.write(f"{PROMPTS} prompts, {COMPLETIONS} completions each, at most {TOKENS} tokens, {os.cpu_count()} cores\n\n")
    out.write("| engine | dtype | ready after s | batch s | completions/s | tokens/s |\n|---|---|---|---|---|---|\n")
    rows = [measure(name, job(model), python) for name in ("transformers_sampler", "vllm_sampler")]
    out.write("\n".join(rows) + "\n")
    with serving(model, python) as url:
        endpoint = {"url": url, "model": "smol", "api_key_env": None, "concurrency": 64, "timeout_s": 120, "retries": 3}
        out.write(measure("endpoint_sampler", {**job(model), "endpoint": endpoint}, sys.executable) + "\n")


if __name__ == "__main__":
    main()
