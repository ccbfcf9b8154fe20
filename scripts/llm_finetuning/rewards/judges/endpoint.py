"""Asking an OpenAI-compatible chat server many things at once: bounded, with retries, and never longer than allowed."""

import asyncio
import contextlib
import dataclasses
import json
import math
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
FIRST_WAIT_S = 0.5  # doubles with each further try
LONGEST_WAIT_S = 30.0
QUOTED = 300  # characters of a server's words that are kept

_OK = 200
_TOO_MANY = 429
_BUSY = (408, 425, _TOO_MANY, 500, 502, 503, 504, 529)
_UNFIT = (400, 422)
_TOO_LARGE = 413
_SHAPE_WORDS = re.compile(r"response_format|json_schema|structured|guided|grammar", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reply:
    """The first choice of an answer, or why there is none."""

    choice: dict[str, Any] | None
    problem: str | None = None  # judge_unreachable, judge_timeout, judge_error
    words: str = ""  # what the server or the client said of the problem
    may_pass: bool = False  # not for what was asked: the same request may have an answer another time


@dataclass(frozen=True, slots=True)
class _Try:
    """What came of one request; `wait_s` is None where asking again would change nothing."""

    reply: Reply
    wait_s: float | None = None
    is_down: bool = False  # no sign of life but, at best, an error of its own


@dataclass(slots=True)
class _Batch:
    """What the requests of one batch share."""

    deadline: float  # of time.monotonic()
    down: bool = False  # some request was given up, and none has succeeded since

    def left_s(self) -> float:
        return self.deadline - time.monotonic()


class Endpoint:
    """A chat server and how patiently it is asked; holds no connection between batches, so any event loop may call."""

    def __init__(
        self,
        *,
        url: str,
        model: str,
        key: str | None,
        concurrency: int,
        timeout_s: float,
        retries: int,
        batch_timeout_s: float,
    ) -> None:
        """Take the address up to and with /v1; `timeout_s` bounds one request, `batch_timeout_s` all of a batch."""
        self._url = url.rstrip("/") + "/chat/completions"
        self._local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        self._model = model
        self._key = key
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._retries = retries
        self._batch_timeout_s = batch_timeout_s
        self._without: set[str] = set()  # fields that this server does not know
        self._renamed: dict[str, str] = {}

    async def ask_all(self, bodies: Sequence[dict[str, Any]]) -> list[Reply]:
        """Return one reply a request, in order; raises nothing but cancellation, and then leaves no connection open."""
        import httpx

        if not bodies:
            return []
        batch = _Batch(time.monotonic() + self._batch_timeout_s)
        replies: dict[int, Reply] = {}
        client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s)),
            limits=httpx.Limits(max_connections=self._concurrency),
            trust_env=not self._local,  # a proxy for the world is none for this machine
        )
        async with client:
            pending = iter(range(len(bodies)))
            workers = [
                asyncio.ensure_future(self._work(client, bodies, pending, replies, batch))
                for _ in range(min(self._concurrency, len(bodies)))
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return [replies[place] for place in range(len(bodies))]

    async def _work(
        self,
        client: "httpx.AsyncClient",
        bodies: Sequence[dict[str, Any]],
        pending: Iterator[int],
        replies: dict[int, Reply],
        batch: _Batch,
    ) -> None:
        """Take requests from the shared list until it is empty."""
        for place in pending:
            replies[place] = await self._ask(client, bodies[place], batch)

    async def _ask(self, client: "httpx.AsyncClient", body: dict[str, Any], batch: _Batch) -> Reply:
        reply = Reply(None, "judge_timeout", "not asked: the batch's time was over")
        tries = 0
        while batch.left_s() > 0:
            result = await self._once(client, body, min(self._timeout_s, batch.left_s()), tries)
            reply = result.reply
            if result.wait_s is None:
                batch.down = batch.down and reply.choice is None
                return reply
            tries += 1
            # When a request was given up in vain the others are tried once, or a dead server would cost its retries
            # for every completion of every step.
            if tries > self._retries or (batch.down and result.is_down):
                batch.down = batch.down or result.is_down
                break
            if result.wait_s >= batch.left_s():
                break
            await asyncio.sleep(result.wait_s)
        return dataclasses.replace(reply, may_pass=True)

    async def _once(self, client: "httpx.AsyncClient", body: dict[str, Any], seconds: float, tries: int) -> _Try:
        import httpx

        wait_s = min(FIRST_WAIT_S * 2**tries, LONGEST_WAIT_S) * random.uniform(0.75, 1.25)  # noqa: S311  no secret
        sent = self._shaped(body)
        try:
            answer = await asyncio.wait_for(client.post(self._url, json=sent), seconds)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            return _Try(Reply(None, "judge_timeout", f"no answer in {seconds:.3g} s"), wait_s, is_down=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            words = f"{type(fault).__name__} {fault}".strip()
            return _Try(Reply(None, "judge_unreachable", self._said(words)), wait_s, is_down=True)
        words = self._said(f"status {answer.status_code}: {_message(answer)}")
        # A refused key or a wrong address would fail whatever is asked.
        failed = Reply(None, "judge_error", words, may_pass=answer.status_code not in (*_UNFIT, _TOO_LARGE))
        if answer.status_code in _BUSY:
            asked_s = _retry_after_s(answer.headers.get("retry-after"))
            return _Try(failed, max(wait_s, asked_s), is_down=answer.status_code != _TOO_MANY)
        if answer.status_code in _UNFIT and (self._shaped(body) != sent or self._adapts(words)):
            return await self._once(client, body, seconds, tries)
        if answer.status_code != _OK:
            return _Try(failed)
        return self._read(answer, wait_s)

    def _read(self, answer: "httpx.Response", wait_s: float) -> _Try:
        """Return the choice in an answer; a proxy in trouble sends pages and empty lists with status 200."""
        try:
            body = answer.json()
            choice, served = dict(body["choices"][0]), body.get("model")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return _Try(Reply(None, "judge_error", self._said(f"no completion: {_message(answer)}")), wait_s)
        if isinstance(served, str) and re.match(re.escape(self._model) + "[-:@]", served):
            words = f"the model is an alias of {served[:QUOTED]}; set `model` to that"
            return _Try(Reply(None, "judge_error", words, may_pass=True))
        return _Try(Reply(choice))

    def _shaped(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a request as this server takes them."""
        return {self._renamed.get(name, name): value for name, value in body.items() if name not in self._without}

    def _adapts(self, words: str) -> bool:
        """Take note of what a refusing server does not know; return whether the next request will differ.

        The parsing is strict without `response_format` as well. A server that knows no seed or temperature is not
        obliged: its verdicts would not be those of the record.
        """
        if "max_completion_tokens" in words and not self._renamed:
            self._renamed["max_tokens"] = "max_completion_tokens"
            return True
        if _SHAPE_WORDS.search(words) and not self._without:
            self._without.add("response_format")
            return True
        return False

    def _said(self, words: str) -> str:
        """Return words of a server in one line, without the key."""
        shown = words.replace(self._key, "[key]") if self._key else words
        return " ".join(shown.split())[:QUOTED]


def _message(answer: "httpx.Response") -> str:
    """Return what an answer that is no completion says."""
    with contextlib.suppress(ValueError, RecursionError):
        said = answer.json()
        error = said.get("error", said) if isinstance(said, dict) else said
        message = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
        return message if isinstance(message, str) else json.dumps(message or error)
    return answer.text or "no message"


def _retry_after_s(header: str | None) -> float:
    """Return the seconds that a Retry-After header asks for, 0 for none, an unreadable one or a date."""
    try:
        seconds = float(header or 0)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if math.isfinite(seconds) else 0.0
