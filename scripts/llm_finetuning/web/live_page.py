"""One page that is renewed while a run goes on: on the loopback interface alone, behind a random key in its address.

The host name is checked, so that another site's name that resolves to this machine reaches nothing.
"""

import contextlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.web.review_page import HOST, listening

START_WAIT_S = 10.0
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Page = Callable[[], tuple[str, int | None]]
"""Returns the page as it is now, and after how many seconds a browser asks again; None for a page that is final."""


def application(page: Page, key: str) -> ASGIApp:
    """Return the page as an ASGI application that answers under `/KEY/` alone, and to reading alone."""

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, text, more = _answer(page, key, scope)
        headers = {**_HEADERS, **more}
        sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": text.encode("utf-8", "replace")})

    return answer


def _answer(page: Page, key: str, scope: Scope) -> tuple[int, str, dict[str, str]]:
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").rpartition(":")[0]
    given, _, rest = scope["path"].removeprefix("/").partition("/")
    plain = {"Content-Type": "text/plain; charset=utf-8"}
    if host not in (HOST, "localhost") or not hmac.compare_digest(given.encode(), key.encode()):
        return 403, "the address needs its key: open the one that `finetune watch` printed", plain
    if rest or scope["path"] == f"/{key}":
        return 404, f"no such page; the one that there is ends in {key[:4]}.../", plain
    if scope["method"] not in ("GET", "HEAD"):
        return 405, "this page can only be read", plain
    text, again_s = page()
    return 200, text, {} if again_s is None else {"Refresh": str(again_s)}


@contextlib.contextmanager
def serving(page: Page, *, port: int) -> Iterator[str]:
    """Serve the page in a thread and yield its address; refuses for a port that is taken."""
    key = secrets.token_urlsafe(24)
    with listening(port) as bound:
        bound.listen(64)
        config = uvicorn.Config(
            application(page, key), log_level="error", access_log=False, lifespan="off", server_header=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + START_WAIT_S
            while not server.started:
                if time.monotonic() > deadline or not thread.is_alive():
                    raise MachineryFailure(f"--serve: the page's server did not start within {START_WAIT_S:.0f} s")
                time.sleep(0.01)
            yield f"http://{HOST}:{bound.getsockname()[1]}/{key}/"
        finally:
            server.should_exit = True
            thread.join(START_WAIT_S)
