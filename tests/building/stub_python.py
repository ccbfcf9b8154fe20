"""Stands in for the run's interpreter where the launch files are tested: no GPU serves or trains, all else is real.

A program: what it is started for is appended to $STUB_LOG, one JSON line each. Everything but the vLLM server, the
trainer and accelerate goes on to the real interpreter. How the stubs behave is in $STUB_SERVER and $STUB_TRAINER.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ARGUMENTS = sys.argv[1:]
SEEN = ("CUDA_VISIBLE_DEVICES", "VLLM_SERVER_DEV_MODE", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "FINETUNE_SERVER_HOST")
LONG_S = 60.0


def note(who: str, **facts: Any) -> None:
    line = {"who": who, "pid": os.getpid(), **facts}
    with Path(os.environ["STUB_LOG"]).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def started(who: str) -> None:
    seen = {name: os.environ[name] for name in SEEN if name in os.environ}
    note(who, argv=ARGUMENTS, env=seen, machine=os.environ.get("STUB_MACHINE"))


def serve() -> None:
    started("server")
    signal.signal(signal.SIGTERM, lambda *_: (note("server ended"), os._exit(0)))
    behaviour = os.environ.get("STUB_SERVER", "answers")
    if behaviour == "fails":
        sys.exit("no kernel image is available")
    if behaviour == "silent":
        time.sleep(LONG_S)
    if behaviour == "dies":
        signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
        signal.alarm(2)
    port = int(ARGUMENTS[ARGUMENTS.index("--port") + 1])
    host = ARGUMENTS[ARGUMENTS.index("--host") + 1]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    http.server.HTTPServer((host, port), Handler).serve_forever()


def train() -> None:
    """Ends at once with a code, or trains until it is asked to stop and then takes half a second to save."""
    behaviour = os.environ.get("STUB_TRAINER", "0")
    if behaviour != "long":
        started("trainer")
        note("trainer ended")
        if behaviour.startswith("means "):  # what accelerate hides
            Path("logs/outcome.json").write_text(
                json.dumps({"state": "failed", "exit_code": int(behaviour[6:])}, indent=1), "utf-8"
            )
            sys.exit(1)
        sys.exit(int(behaviour))

    def save(*_: Any) -> None:
        note("asked")
        time.sleep(0.5)
        note("trainer ended")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    started("trainer")
    time.sleep(LONG_S)


def launch() -> None:
    """Do as accelerate does: each process in a session of its own, and 0 or 1 for an answer."""
    started("accelerate")
    worker = subprocess.Popen([sys.executable, __file__, "train.py"], start_new_session=True)

    def asked(*_: Any) -> None:
        note("accelerate asked")
        worker.kill()

    if "SIGTERM" in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"):
        signal.signal(signal.SIGTERM, asked)
    sys.exit(min(1, abs(worker.wait())))


if ARGUMENTS[:2] == ["-m", "vllm.entrypoints.cli.main"]:
    serve()
elif ARGUMENTS[:2] == ["-m", "accelerate.commands.launch"]:
    launch()
elif ARGUMENTS[:1] == ["train.py"]:
    train()
else:
    os.execv(sys.executable, [sys.executable, *ARGUMENTS])  # noqa: S606  in place of this one
