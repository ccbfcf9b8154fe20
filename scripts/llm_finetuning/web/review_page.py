"""The review page's server: on the loopback interface alone, behind a random key that stands in its address.

Every path begins with the key; without it nothing is told but that it is missing. The host name is checked, so that
another site's name that resolves to this machine reaches nothing. Nothing is loaded from elsewhere.
"""

import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_finetuning.errors import Refusal, Stop
from llm_finetuning.web.desk import VERDICTS, Desk

HOST = "127.0.0.1"
_PAGES = Path(__file__).parent / "pages"
_KINDS = {"review.html": "text/html", "review.css": "text/css", "review.js": "text/javascript"}
_MAX_BODY = 200_000  # bytes of a label with its note
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def application(desk: Desk, key: str) -> ASGIApp:
    """Return the page as an ASGI application that answers under `/KEY/` alone."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "review.html"
        if name not in _KINDS:
            return PlainTextResponse("no such page", 404)
        return Response((_PAGES / name).read_bytes(), media_type=f"{_KINDS[name]}; charset=utf-8")

    async def overview(_request: Request) -> Response:
        return await _answer(desk.overview)

    async def item(request: Request) -> Response:
        return await _answer(desk.item, request.path_params["place"])

    async def search(request: Request) -> Response:
        words = request.query_params.get("words", "")
        return await _answer(lambda: {"places": desk.search(words)})

    async def label(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return PlainTextResponse("send JSON", 415)
        body = await request.body()
        try:
            sent = json.loads(body)
            verdict, note = sent["verdict"], sent.get("note", "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return PlainTextResponse("not a label: send a verdict and a note", 400)
        if verdict not in VERDICTS or not isinstance(note, str) or len(body) > _MAX_BODY:
            return PlainTextResponse(f"the verdict is one of {', '.join(VERDICTS)}, the note a text", 400)
        return await _answer(desk.record, request.path_params["place"], verdict, note)

    routes = [
        Route("/api/overview", overview),
        Route("/api/items/{place:int}", item),
        Route("/api/items/{place:int}/label", label, methods=["POST"]),
        Route("/api/search", search),
        Route("/", page),
        Route("/{name}", page),
    ]
    return _Door(Starlette(routes=routes), key)


async def _answer(act: Callable[..., dict[str, Any]], *arguments: Any) -> Response:
    """Run one act of the desk off the loop, since it waits for the disk, and say in words what went wrong."""
    try:
        # A lone surrogate, which a model can write, has no UTF-8; JSON's own escapes carry it.
        return Response(json.dumps(await anyio.to_thread.run_sync(act, *arguments)), media_type="application/json")
    except IndexError:
        return PlainTextResponse("no such sample", 404)
    except Stop as stop:
        return PlainTextResponse("; ".join(stop.lines), 500)


class _Door:
    """Lets in what knows the key and names this machine; adds the strict headers to every answer."""

    def __init__(self, inner: ASGIApp, key: str) -> None:
        self._inner = inner
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").rpartition(":")[0]
        _, key, rest = scope["path"].split("/", 2) if scope["path"].count("/") > 1 else ("", scope["path"][1:], None)
        answer: ASGIApp
        if host not in (HOST, "localhost") or not hmac.compare_digest(key.encode(), self._key.encode()):
            answer = PlainTextResponse("the address needs its key: open the one that `finetune review` printed", 403)
        elif rest is None:
            answer = Response(status_code=307, headers={"Location": f"/{self._key}/"})
        else:
            answer = self._inner
            scope = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
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


def serve(desk: Desk, *, port: int, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; `announce` is told the address with its key once the server listens."""
    key = secrets.token_urlsafe(24)
    with listening(port) as bound:
        bound.listen(64)
        config = uvicorn.Config(
            application(desk, key), log_level="error", access_log=False, lifespan="off", server_header=False
        )
        announce(f"http://{HOST}:{bound.getsockname()[1]}/{key}/")
        with contextlib.suppress(KeyboardInterrupt):  # the ordinary way to end
            uvicorn.Server(config).run(sockets=[bound])
