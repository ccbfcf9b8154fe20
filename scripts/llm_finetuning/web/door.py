"""What stands before every page that is served: the loopback interface alone, and a random key in the address.

Every path begins with the key; without it nothing is told but that it is missing. The host name is checked, so that
another site's name that resolves to this machine reaches nothing.
"""

import contextlib
import hmac
import socket
from collections.abc import Iterator

import uvicorn
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_finetuning.errors import Refusal

HOST = "127.0.0.1"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Door:
    """Lets in what knows the key and names this machine; adds the strict headers to every answer."""

    def __init__(self, inner: ASGIApp, key: str, *, verb: str, policy: str) -> None:
        """Stand before an application.

        Args:
            inner: What is served; it sees paths without the key.
            key: A random word, the first part of every path.
            verb: Which verb printed the address.
            policy: What the page may load, as directives of a Content-Security-Policy; all else is forbidden.
        """
        self._inner = inner
        self._key = key
        self._verb = verb
        headers = {**_HEADERS, "Content-Security-Policy": f"{_NOTHING_ELSE}; {policy}"}
        self._added = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").rpartition(":")[0]
        _, key, rest = scope["path"].split("/", 2) if scope["path"].count("/") > 1 else ("", scope["path"][1:], None)
        answer: ASGIApp
        if host not in (HOST, "localhost") or not hmac.compare_digest(key.encode(), self._key.encode()):
            words = f"the address needs its key: open the one that `finetune {self._verb}` printed"
            answer = PlainTextResponse(words, 403)
        elif rest is None:
            answer = Response(status_code=307, headers={"Location": f"/{self._key}/"})
        else:
            answer = self._inner
            scope = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self._added]}
            await send(message)

        await answer(scope, receive, guarded)


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Hold a socket on the loopback interface; refuses for a port that is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise Refusal(f"--port {port}: {words}; choose another, or leave it out") from None
        yield bound


def address(bound: socket.socket, key: str) -> str:
    """Return the address of the page with its key."""
    return f"http://{HOST}:{bound.getsockname()[1]}/{key}/"


def server(application: ASGIApp) -> uvicorn.Server:
    """Return a server that writes no log of its own."""
    return uvicorn.Server(
        uvicorn.Config(application, log_level="error", access_log=False, lifespan="off", server_header=False)
    )
