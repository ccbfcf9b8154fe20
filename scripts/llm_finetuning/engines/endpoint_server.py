"""One OpenAI-compatible server: what it takes, what it refuses, when to ask again and when to stop asking."""

import asyncio
import contextlib
import email.utils
import json
import random
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from llm_finetuning.engines import protocol

CONNECT_S = 5.0
START_TRIES = 3  # a server that is not there is told within seconds
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
QUOTED = 300  # characters of a server's words in our line

# What a field says when it changes nothing; such a field may be left out for a server that does not know it.
NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True, "n": 1}

UNCHECKED = (404, 405, 501)  # no route that lists models
BUSY = (408, 425, 429, 500, 502, 503, 504, 529)
UNFIT = (400, 422)


class Server:
    """A client of one server, shared by all workers; close it at the end, as `contextlib.aclosing` does."""

    def __init__(self, endpoint: dict[str, Any], key: str | None, say: Callable[[str], None]) -> None:
        """Take the brief's endpoint; `say` hears what the server made us leave out."""
        import httpx

        self.url = endpoint["url"].rstrip("/")
        self._httpx = httpx
        self._model = endpoint["model"]
        self._retries = endpoint["retries"]
        self._key = key
        self._say = say
        self._dropped: set[str] = set()
        self._renamed: dict[str, str] = {}
        seconds = endpoint["timeout_s"]
        host = urlsplit(self.url).hostname or ""
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(seconds, connect=min(CONNECT_S, seconds)),
            limits=httpx.Limits(max_connections=max(1, endpoint["concurrency"])),
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),  # a proxy for the world is none for this machine
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def model_card(self) -> dict[str, Any]:
        """Return what the server lists about the model, empty where it lists none; refuses a name it does not list."""
        answer = await self._send("GET", "/models", None, tries=min(START_TRIES, self._retries + 1), timeout=CONNECT_S)
        if answer.status_code in UNCHECKED:
            return {}
        self._check_access(answer)
        try:
            cards = {card["id"]: card for card in answer.json()["data"]}
        except (ValueError, LookupError, TypeError):
            return {}
        if self._model not in cards:
            raise protocol.bad_input(
                f"{self.url}: serves no model {self._model!r}; set endpoint.model to one of: {', '.join(sorted(cards))}"
            )
        return dict(cards[self._model])

    async def complete(self, route: str, fields: dict[str, Any], row: int) -> dict[str, Any]:
        """Return the answer to one completion request, a JSON object with at least one choice."""
        while True:
            sent = {self._renamed.get(name, name): value for name, value in fields.items() if name not in self._dropped}
            answer = await self._send("POST", route, sent, tries=self._retries + 1)
            if answer.status_code not in UNFIT:
                self._check_access(answer)
                return dict(answer.json())
            if not self._adapted(sent, fields, self._words(answer)):
                raise protocol.bad_input(
                    f"{self.url}: row {row}: the server refuses the request: {self._words(answer)}"
                )

    def _adapted(self, sent: dict[str, Any], fields: dict[str, Any], words: str) -> bool:
        """Return whether the next request will differ from the one refused; refuses to drop a field that matters."""
        left_out = {name for name in fields if name not in sent and name not in self._renamed}
        if left_out != self._dropped & set(fields) or ("max_tokens" in sent and "max_tokens" in self._renamed):
            return True  # another worker has adapted since this request was built
        if "max_completion_tokens" in words and "max_tokens" in sent:
            self._renamed["max_tokens"] = "max_completion_tokens"
            return True
        named = [name for name in (*NEUTRAL, "seed", "chat_template_kwargs") if name in sent and _names(words, name)]
        for name in named:
            if name == "seed":
                self._say("the server takes no seed: these samples cannot be drawn again")
            elif name not in NEUTRAL or sent[name] != NEUTRAL[name]:
                raise protocol.bad_input(
                    f"{self.url}: the server refuses {name}={json.dumps(sent[name])}, and without it the samples would "
                    f"not be those of training ({words}); leave {name} out of the brief or use another engine"
                )
        # A server that names no field may still mean one that it does not know.
        droppable = named or [name for name in NEUTRAL if sent.get(name) == NEUTRAL[name]]
        self._dropped.update(droppable)
        return bool(droppable)

    async def _send(
        self, method: str, route: str, body: dict[str, Any] | None, *, tries: int, timeout: float | None = None
    ) -> Any:
        """Return an answer that is worth reading; fails when the server stays down, busy or garbled."""
        patience = self._client.timeout if timeout is None else self._httpx.Timeout(timeout)
        trouble = "no answer"
        for attempt in range(tries):
            wait_s = min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S)
            try:
                answer = await self._client.request(method, self.url + route, json=body, timeout=patience)
            except (self._httpx.InvalidURL, self._httpx.UnsupportedProtocol) as fault:
                raise protocol.bad_input(f"{self.url}: is no URL of a server ({fault}); mend endpoint.url") from fault
            except self._httpx.HTTPError as fault:
                trouble = f"{type(fault).__name__} {fault}".strip()
            else:
                if answer.status_code in BUSY:
                    trouble = f"status {answer.status_code}: {self._words(answer)}"
                    wait_s = max(wait_s, retry_after_s(answer.headers.get("retry-after")))
                elif method == "GET" or not answer.is_success or _has_choice(answer):
                    return answer
                else:
                    trouble = f"an answer without a completion: {self._words(answer)}"
            if attempt + 1 < tries:
                await asyncio.sleep(wait_s * random.uniform(0.75, 1.25))  # noqa: S311 - spreads retries, no secret
        raise protocol.machinery(
            f"{self.url}: the server failed {tries} times, last with {trouble}; start it again or mend endpoint.url"
        )

    def _check_access(self, answer: Any) -> None:
        """Raise for a status that asking again will not change."""
        if answer.is_success:
            return
        code, words = answer.status_code, self._words(answer)
        if code in (401, 403):
            raise protocol.bad_input(f"{self.url}: refuses the key (status {code}: {words}); mend endpoint.api_key_env")
        if answer.is_redirect:
            where = answer.headers.get("location", "elsewhere")
            raise protocol.bad_input(f"{self.url}: sends requests on to {where}; put that into endpoint.url")
        raise protocol.bad_input(
            f"{answer.request.url}: status {code} ({words}); check endpoint.url, which mostly ends in /v1, "
            "and endpoint.model"
        )

    def _words(self, answer: Any) -> str:
        """Return the server's message in one line, without the key."""
        text = answer.text
        with contextlib.suppress(ValueError):
            said = answer.json()
            error = said.get("error", said) if isinstance(said, dict) else said
            message = error.get("message") or error.get("detail") if isinstance(error, dict) else error
            text = message if isinstance(message, str) else json.dumps(message or error)
        if self._key:
            text = text.replace(self._key, "[key]")
        return " ".join(text.split())[:QUOTED] or "no message"


def _names(words: str, field: str) -> bool:
    """Return whether a message speaks of a field; as a word of its own, or every message would name `n`."""
    return re.search(rf"\b{field}\b", words) is not None


def _has_choice(answer: Any) -> bool:
    """Return whether the answer holds a completion; a proxy in trouble sends pages and empty lists with status 200."""
    try:
        choice = answer.json()["choices"][0]
    except (ValueError, LookupError, TypeError):
        return False
    return isinstance(choice, dict) and (isinstance(choice.get("message"), dict) or isinstance(choice.get("text"), str))


def retry_after_s(header: str | None) -> float:
    """Return the seconds a Retry-After header asks for, at most a minute; 0 for none or an unreadable one."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT_S)
