"""A small HTTP server that misbehaves as a test says."""

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], Any]
Answering = Callable[[str, dict[str, Any], int], Answer]


class StubServer:
    """Answers with `answer(route, body, count)`: status, headers and body; status 0 hangs up without a word."""

    def __init__(self, answer: Answering) -> None:
        """Serve on a free port at once."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply({})

            def do_POST(self) -> None:
                self.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def reply(self, body: dict[str, Any]) -> None:
                route = self.path.removeprefix("/v1")
                stub.headers.append(dict(self.headers))
                stub.asked.append((route, body))
                count = sum(asked == route for asked, _ in stub.asked)
                status, headers, content = answer(route, body, count)
                if status == 0:
                    return
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; later connections are refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
