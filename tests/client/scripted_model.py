"""A model that says what a test wrote for it, on a loopback port, streaming as the Messages API does.

The client asks once a turn. Each reply is text, which ends the turn, or a tool call; a function in its place makes one
of what the last tool call answered.
"""

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    tool: str
    arguments: dict[str, Any]


Reply = str | Call | Callable[[str], str | Call]


def bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "A step of the run"})


class ScriptedModel:
    """Gives the replies in order; after the last it says that it is done."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        """Make it; `serving` puts it on a port."""
        self.requests: list[Body] = []
        self.url = ""
        self._left = list(replies)

    def answer(self, body: Body) -> bytes:
        """Keep the request and return the next reply as server-sent events."""
        self.requests.append(body)
        reply = self._left.pop(0) if self._left else "Done."
        if callable(reply):
            answered = results(body)
            reply = reply(answered[-1] if answered else "")
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(reply)).encode()


@contextmanager
def serving(replies: Sequence[Reply]) -> Iterator[ScriptedModel]:
    """Yield a model that answers on a free loopback port."""
    model = ScriptedModel(replies)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.partition("?")[0] != "/v1/messages":
                self.send_error(404)
                return
            data = model.answer(body)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield model
        finally:
            server.shutdown()


def _events(reply: str | Call) -> Iterator[Body]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": "scripted"}
    empty: Body = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": {**message, **empty}}
    if isinstance(reply, str):
        block: Body = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
        stop = "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": reply.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
        stop = "tool_use"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _blocks(message: Body) -> list[Body]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def texts(body: Body) -> list[str]:
    """Return every text that a request shows the model: newer models get the lists as `system` messages."""
    return [block["text"] for message in body["messages"] for block in _blocks(message) if block["type"] == "text"]


def results(body: Body) -> list[str]:
    """Return what the tool calls answered, in order."""
    return [
        _result(block) for message in body["messages"] for block in _blocks(message) if block["type"] == "tool_result"
    ]


def _result(block: Body) -> str:
    content = block["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return text.partition("\n\n<system-reminder>")[0]
