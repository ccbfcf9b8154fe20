"""Sample completions from an OpenAI-compatible server; runs under the CLI's own interpreter.

Job and records are those of every sampling engine. Each completion is one request with n=1 and its own seed, because
many servers ignore `n`. A group is sent as soon as its last completion is there, without a time: how fast a server
answers says little of how fast the trainer's own machine generates. How the server is talked to, and
what it refuses, is `endpoint_server`.
"""

import asyncio
import contextlib
import os
import platform
from collections.abc import Iterator
from typing import Any

from llm_finetuning.engines import protocol
from llm_finetuning.engines.completions import seed_of_completion
from llm_finetuning.engines.endpoint_server import Server

STOPPED = ("stop", "eos", "eos_token", "end_turn")
CUT = ("length", "max_tokens")


def sample(job: protocol.Job, send: protocol.Send) -> None:
    """Send a group a request; fails for a server that is down, refuses, or answers no completion."""
    asyncio.run(_sample(job, send))


async def _sample(job: protocol.Job, send: protocol.Send) -> None:
    endpoint = job["endpoint"]

    def say(text: str) -> None:
        send({"kind": "progress", "text": text})

    async with contextlib.aclosing(Server(endpoint, api_key(endpoint), say)) as server:
        served = await server.model_card()
        send({"kind": "ready", "facts": facts(endpoint, served)})
        await _all_done(
            _work(server, job, pending, send)
            for pending in [_completions_of(job)]
            for _ in range(max(1, endpoint["concurrency"]))
        )


async def _all_done(workers: Any) -> None:
    """Run the workers to their end; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def api_key(endpoint: dict[str, Any]) -> str | None:
    """Return the key from the variable the brief names; refuses a variable that is not set."""
    variable = endpoint.get("api_key_env")
    if not variable:
        return None
    key = os.environ.get(variable)
    if not key:
        raise protocol.bad_input(f"environment variable {variable}: is not set; put the key of {endpoint['url']} in it")
    return key


def facts(endpoint: dict[str, Any], served: dict[str, Any]) -> dict[str, Any]:
    """Return what a later stage compares or shows; a server says little about its model."""
    import httpx

    return {
        "engine": "endpoint",
        "versions": {"python": platform.python_version(), "httpx": httpx.__version__},
        "url": endpoint["url"],
        "model": {"served_name": endpoint["model"], "root": served.get("root")},
        "context_length": served.get("max_model_len"),
    }


class _Group:
    """The completions of one request, which arrive in any order."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.completions: list[dict[str, Any] | None] = [None] * request["n"]
        self.prompt_tokens: int | None = None
        self.prompt_ids: list[int] | None = None

    def record(self) -> dict[str, Any]:
        return {
            "kind": "group",
            "prompt_id": self.request["prompt_id"],
            "pass_name": self.request["pass_name"],
            "prompt_tokens": self.prompt_tokens,
            "prompt_ids": self.prompt_ids,  # what the server made of the prompt, to compare with the trainer's
            "completions": self.completions,
        }


def _completions_of(job: protocol.Job) -> Iterator[tuple[_Group, int]]:
    for batch in job["batches"]:
        for request in batch:
            group = _Group(request)
            for index in range(request["n"]):
                yield group, index


async def _work(server: Server, job: protocol.Job, pending: Iterator[tuple[_Group, int]], send: protocol.Send) -> None:
    """Take completions from the shared list until it is empty."""
    for group, index in pending:
        answer, is_chat = await _ask(server, job, group.request, index)
        group.completions[index] = completion(server.url, answer, group.request["row"], job, is_chat=is_chat)
        group.prompt_tokens = (answer.get("usage") or {}).get("prompt_tokens")
        group.prompt_ids = answer.get("prompt_token_ids") or answer["choices"][0].get("prompt_token_ids")
        if None not in group.completions:
            send(group.record())


async def _ask(server: Server, job: protocol.Job, request: dict[str, Any], index: int) -> tuple[dict[str, Any], bool]:
    """Return the server's answer for one completion, and whether it is a chat answer."""
    sampling, prompt = job["sampling"], request["prompt"]
    is_chat = not isinstance(prompt, str)
    fields = {
        "model": job["endpoint"]["model"],
        "temperature": request["temperature"],
        "top_p": sampling["top_p"],
        "max_tokens": sampling["max_completion_length"],
        "n": 1,
        "seed": seed_of_completion(request["seed"], index),
        # Said even where they change nothing: vLLM's server fills what is not said from the model's own config.
        "top_k": sampling["top_k"] or -1,
        "min_p": sampling["min_p"] or 0.0,
        "repetition_penalty": sampling["repetition_penalty"],
        "return_token_ids": True,
    }
    if is_chat and job.get("chat_template_kwargs"):
        fields["chat_template_kwargs"] = job["chat_template_kwargs"]
    fields["messages" if is_chat else "prompt"] = prompt
    route = "/chat/completions" if is_chat else "/completions"
    return await server.complete(route, fields, request["row"]), is_chat


def completion(url: str, answer: dict[str, Any], row: int, job: protocol.Job, *, is_chat: bool) -> dict[str, Any]:
    """Return the completion that an answer holds; fails for one that training would not see like this."""
    choice = answer["choices"][0]
    message = choice["message"] if is_chat else {"content": choice["text"]}
    if message.get("reasoning_content") or message.get("reasoning"):
        raise protocol.bad_input(
            f"{url}: the server takes the reasoning out of the completion, training does not; "
            "start it without a reasoning parser"
        )
    ids = choice.get("token_ids")
    tokens = len(ids) if ids else (answer.get("usage") or {}).get("completion_tokens")
    if tokens is None:
        raise protocol.machinery(
            f"{url}: row {row}: the answer says neither token ids nor usage.completion_tokens; use a server that does"
        )
    longest = job["sampling"]["max_completion_length"]
    if tokens > longest:
        raise protocol.machinery(
            f"{url}: row {row}: {tokens} tokens though {longest} were asked; it ignores max_tokens"
        )
    return {
        "text": message.get("content") or "",
        "ids": ids,
        "tokens": tokens,
        "finish_reason": finish_reason(url, choice, row),
    }


def finish_reason(url: str, choice: dict[str, Any], row: int) -> str:
    """Return `stop` or `length`; fails for any other end, which is no completion of the model."""
    said = choice.get("finish_reason")
    if said in STOPPED:
        return "stop"
    if said in CUT:
        return "length"
    raise protocol.machinery(
        f"{url}: row {row}: the server ended a completion with {said!r}; only stop and length are the model's own ends"
    )


if __name__ == "__main__":
    protocol.serve(sample)
