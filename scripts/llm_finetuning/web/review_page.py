"""The review page's server, behind its door; nothing is loaded from elsewhere."""

import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from llm_finetuning.errors import Stop
from llm_finetuning.web import door
from llm_finetuning.web.desk import VERDICTS, Desk

_PAGES = Path(__file__).parent / "pages"
_KINDS = {"review.html": "text/html", "review.css": "text/css", "review.js": "text/javascript"}
_MAX_BODY = 200_000  # bytes of a label with its note
_POLICY = "script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'"


def application(desk: Desk, key: str) -> ASGIApp:
    """Return the page as an ASGI application that answers under `/KEY/` alone."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "review.html"
        if name not in _KINDS:
            return PlainTextResponse("no such page", 404)
        return Response((_PAGES / name).read_bytes(), media_type=f"{_KINDS[name]}; charset=utf-8")

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
        Route("/api/overview", _answering(desk.overview)),
        Route("/api/next", _answering(desk.following)),
        Route("/api/items/{place:int}", item),
        Route("/api/items/{place:int}/label", label, methods=["POST"]),
        Route("/api/search", search),
        Route("/", page),
        Route("/{name}", page),
    ]
    return door.Door(Starlette(routes=routes), key, verb="review", policy=_POLICY)


def _answering(act: Callable[[], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers with an act of the desk which needs nothing of the request."""

    async def endpoint(_request: Request) -> Response:
        return await _answer(act)

    return endpoint


async def _answer(act: Callable[..., dict[str, Any]], *arguments: Any) -> Response:
    """Run one act of the desk off the loop, since it waits for the disk, and say in words what went wrong."""
    try:
        # A lone surrogate, which a model can write, has no UTF-8; JSON's own escapes carry it.
        return Response(json.dumps(await anyio.to_thread.run_sync(act, *arguments)), media_type="application/json")
    except IndexError:
        return PlainTextResponse("no such sample", 404)
    except Stop as stop:
        return PlainTextResponse("; ".join(stop.lines), 500)


def serve(desk: Desk, *, port: int, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; `announce` is told the address with its key once the server listens."""
    key = secrets.token_urlsafe(24)
    with door.listening(port) as bound:
        bound.listen(64)
        announce(door.address(bound, key))
        with contextlib.suppress(KeyboardInterrupt):  # the ordinary way to end
            door.server(application(desk, key)).run(sockets=[bound])
