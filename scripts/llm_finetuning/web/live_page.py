"""One page that is renewed while a run goes on, behind its door; it has no script and can only be read."""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from llm_finetuning.errors import MachineryFailure
from llm_finetuning.web import door

START_WAIT_S = 10.0
_POLICY = "style-src 'unsafe-inline'"

Page = Callable[[], tuple[str, int | None]]
"""Returns the page as it is now, and after how many seconds a browser asks again; None for a page that is final."""


def application(page: Page, key: str) -> ASGIApp:
    """Return the page as an ASGI application that answers under `/KEY/` alone, and to reading alone."""

    def answer(_request: Request) -> Response:
        text, again_s = page()
        headers = {} if again_s is None else {"Refresh": str(again_s)}
        return HTMLResponse(text.encode("utf-8", "replace"), headers=headers)

    return door.Door(Starlette(routes=[Route("/", answer)]), key, verb="watch", policy=_POLICY)


@contextlib.contextmanager
def serving(page: Page, *, port: int) -> Iterator[str]:
    """Serve the page in a thread and yield its address; refuses for a port that is taken."""
    key = secrets.token_urlsafe(24)
    with door.listening(port) as bound:
        bound.listen(64)
        server = door.server(application(page, key))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + START_WAIT_S
            while not server.started:
                if time.monotonic() > deadline or not thread.is_alive():
                    raise MachineryFailure(f"--serve: the page's server did not start within {START_WAIT_S:.0f} s")
                time.sleep(0.01)
            yield door.address(bound, key)
        finally:
            server.should_exit = True
            thread.join(START_WAIT_S)
