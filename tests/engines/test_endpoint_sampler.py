"""The endpoint engine against servers that fail, refuse and lie; a real server is in test_real_sampling."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from endpoint_stub import Answer, Answering, StubServer

from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.program import run_program

Start = Callable[[Answering], StubServer]

MODELS = {"data": [{"id": "smol", "max_model_len": 2048}, {"id": "other"}]}
CHAT = [{"role": "user", "content": "What is 1 + 1?"}]


def job(url: str, *, prompts: tuple[Any, ...] = (CHAT,), n: int = 2, **changes: Any) -> dict[str, Any]:
    """Return a job with one request a prompt; `changes` go to the endpoint or the sampling options."""
    endpoint = {"url": url, "model": "smol", "api_key_env": None, "concurrency": 4, "timeout_s": 2.0, "retries": 2}
    sampling = {"max_completion_length": 8, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    for name, value in changes.items():
        (endpoint if name in endpoint else sampling)[name] = value
    requests = [
        {
            "prompt_id": f"p{row}",
            "row": row,
            "prompt": prompt,
            "pass_name": "policy",
            "n": n,
            "temperature": 1.0,
            "seed": row,
        }
        for row, prompt in enumerate(prompts, start=1)
    ]
    shared = {"model": "smol", "chat_template_kwargs": {}}
    return {**shared, "endpoint": endpoint, "sampling": sampling, "batches": [requests]}


def run(a_job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the records of the endpoint engine."""
    return run_program("endpoint_sampler", a_job, python=sys.executable)


def groups(a_job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the group records alone."""
    return [record for record in run(a_job) if record["kind"] == "group"]


def completion(body: dict[str, Any], **changes: Any) -> Answer:
    """Return a good answer to a request, with its choice changed."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    choice |= {"message": {"content": "2"}} if "messages" in body else {"text": "2"}
    content = {"choices": [{**choice, **changes}], "usage": {"completion_tokens": 2, "prompt_tokens": 9}}
    return 200, {}, content


def good(route: str, body: dict[str, Any], _count: int) -> Answer:
    """Answer as a healthy server."""
    return (200, {}, MODELS) if route == "/models" else completion(body)


def failing(first: int, answer: Answer) -> Answering:
    """Answer so for the first requests, then well."""

    def reply(route: str, body: dict[str, Any], count: int) -> Answer:
        return answer if route != "/models" and count <= first else good(route, body, count)

    return reply


def refusing(field: str, status: int = 400) -> Answering:
    """Refuse every request that has the field, naming it."""

    def reply(route: str, body: dict[str, Any], count: int) -> Answer:
        if field in body:
            return status, {}, {"error": {"message": f"Unrecognized request argument supplied: {field}"}}
        return good(route, body, count)

    return reply


def test_each_completion_is_one_request_with_its_own_seed(stub_server: Start) -> None:
    """Servers that ignore n would otherwise give one completion a group."""
    server = stub_server(good)

    made = groups(job(server.url, prompts=(CHAT, "1 + 1 ="), n=3))

    assert {3} == {len(group["completions"]) for group in made}
    assert {"text": "2", "ids": None, "tokens": 2, "finish_reason": "stop"} == made[0]["completions"][0]
    sent = [(route, body) for route, body in server.asked if route != "/models"]
    assert sorted(route for route, _ in sent) == ["/chat/completions"] * 3 + ["/completions"] * 3
    assert len({body["seed"] for _, body in sent}) == 6
    assert {(body["n"], body["max_tokens"], body["top_p"], body["temperature"]) for _, body in sent} == {(1, 8, 1, 1)}
    assert {(body["top_k"], body["min_p"], body["repetition_penalty"]) for _, body in sent} == {(-1, 0, 1)}


def test_a_server_that_is_down_is_told_within_seconds() -> None:
    """Nobody listens on the port; the line names the address."""
    begun = time.monotonic()

    with pytest.raises(MachineryFailure, match=r"http://127\.0\.0\.1:9/v1: the server failed"):
        groups(job("http://127.0.0.1:9/v1", retries=8))

    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"retry-after": "0.1"}, {"error": {"message": "slow down"}}),
        (429, {"retry-after": "nonsense"}, b""),
        (500, {}, b"<html>oops</html>"),
        (503, {}, {"detail": "loading"}),
        (0, {}, b""),
        (200, {}, b'{"choices": [{"mess'),
        (200, {}, b"[]"),
        (200, {}, {"choices": []}),
        (200, {}, {"choices": [{"message": None, "finish_reason": "stop"}]}),
        (200, {"content-length": "999"}, b"{"),
    ],
    ids=["429", "429 garbled", "500", "503", "hang-up", "cut", "list", "none", "null", "short body"],
)
def test_trouble_that_passes_costs_nothing(stub_server: Start, answer: Answer) -> None:
    """Two bad answers, then good ones: every completion is there once."""
    server = stub_server(failing(2, answer))

    made = groups(job(server.url, prompts=(CHAT, CHAT), timeout_s=1.0))

    assert sorted(group["prompt_id"] for group in made) == ["p1", "p2"]


def test_trouble_that_stays_ends_the_run(stub_server: Start) -> None:
    """The last words of the server are in the line."""
    server = stub_server(failing(10**6, (500, {}, {"error": {"message": "CUDA error"}})))

    with pytest.raises(MachineryFailure, match="failed 3 times, last with status 500: CUDA error"):
        groups(job(server.url))


def test_a_server_that_hangs_ends_the_run(stub_server: Start) -> None:
    """A request has a time limit."""

    def hang(route: str, body: dict[str, Any], count: int) -> Answer:
        if route != "/models":
            time.sleep(3)
        return good(route, body, count)

    with pytest.raises(MachineryFailure, match="ReadTimeout"):
        groups(job(stub_server(hang).url, n=1, timeout_s=0.3, retries=1))


def test_groups_done_before_the_server_died_are_kept(stub_server: Start) -> None:
    """What was complete is already out when the failure is raised."""

    def dying(route: str, body: dict[str, Any], count: int) -> Answer:
        return good(route, body, count) if route == "/models" or count <= 4 else (0, {}, b"")

    made: list[dict[str, Any]] = []
    with pytest.raises(MachineryFailure):
        made.extend(run(job(stub_server(dying).url, prompts=(CHAT,) * 6, concurrency=1, retries=1)))

    assert ["ready", "group", "group"] == [record["kind"] for record in made]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "refuses the key"),
        (403, "refuses the key"),
        (404, "status 404"),
        (413, "status 413"),
        (307, "endpoint.url"),
    ],
)
def test_what_asking_again_cannot_change_is_refused_at_once(stub_server: Start, status: int, expected: str) -> None:
    """No retries for a wrong key, route or address."""
    answer = (status, {"location": "http://elsewhere/"}, {"error": {"message": "no"}})
    server = stub_server(lambda route, body, count: good(route, body, count) if route == "/models" else answer)

    with pytest.raises(Refusal, match=expected):
        groups(job(server.url, n=1))

    assert len(server.asked) == 2


def test_the_key_is_sent_and_never_shown(stub_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that repeats the key in its message does not get it into our output."""
    monkeypatch.setenv("MADE_UP_KEY", "sk-made-up-123")
    server = stub_server(lambda *_: (401, {}, {"error": {"message": "bad key sk-made-up-123"}}))

    with pytest.raises(Refusal, match=r"bad key \[key\]") as caught:
        groups(job(server.url, api_key_env="MADE_UP_KEY"))

    assert "sk-made-up" not in str(caught.value)
    assert server.headers[0]["Authorization"] == "Bearer sk-made-up-123"


def test_a_key_variable_that_is_not_set_is_named() -> None:
    """The run ends before the server hears of it."""
    with pytest.raises(Refusal, match=r"environment variable ABSENT_KEY: is not set"):
        groups(job("http://127.0.0.1:9/v1", api_key_env="ABSENT_KEY"))


def test_a_model_that_is_not_served_lists_those_that_are(stub_server: Start) -> None:
    """The right name is mostly in the list."""
    with pytest.raises(Refusal, match=r"serves no model 'smoll'; set endpoint.model to one of: other, smol"):
        groups(job(stub_server(good).url, model="smoll"))


@pytest.mark.parametrize("answer", [(404, {}, b""), (405, {}, b""), (200, {}, b"hello"), (200, {}, {"models": []})])
def test_a_server_without_a_list_of_models_is_used_all_the_same(stub_server: Start, answer: Answer) -> None:
    """The list is a courtesy, not a part of sampling."""
    server = stub_server(lambda route, body, count: answer if route == "/models" else good(route, body, count))

    assert len(groups(job(server.url))) == 1


@pytest.mark.parametrize("field", ["return_token_ids", "top_k", "min_p", "repetition_penalty", "n", "seed"])
@pytest.mark.parametrize("status", [400, 422])
def test_a_field_that_changes_nothing_is_left_out_for_a_server_that_refuses_it(
    stub_server: Start, field: str, status: int
) -> None:
    """A strict server still gets every field that matters."""
    server = stub_server(refusing(field, status))

    assert len(groups(job(server.url, prompts=(CHAT, CHAT)))) == 2

    taken = [body for route, body in server.asked if route != "/models" and field not in body]
    assert {"temperature", "top_p", "max_tokens"} <= taken[0].keys()
    assert len(taken[0]) == 10


def test_max_tokens_gets_its_new_name_where_the_server_wants_it(stub_server: Start) -> None:
    """Newer models of one vendor refuse the old name and say the new one."""

    def modern(route: str, body: dict[str, Any], count: int) -> Answer:
        if "max_tokens" in body:
            return 400, {}, {"error": {"message": "Unsupported: 'max_tokens'. Use 'max_completion_tokens' instead."}}
        return good(route, body, count)

    server = stub_server(modern)

    assert len(groups(job(server.url))) == 1
    assert server.asked[-1][1]["max_completion_tokens"] == 8


@pytest.mark.parametrize(("field", "value"), [("top_k", 20), ("min_p", 0.1), ("repetition_penalty", 1.1)])
def test_an_option_that_matters_is_not_dropped_in_silence(stub_server: Start, field: str, value: float) -> None:
    """Samples drawn without it would not be those of training."""
    with pytest.raises(Refusal, match=f"refuses {field}={value}"):
        groups(job(stub_server(refusing(field)).url, **{field: value}))


def test_a_refused_prompt_names_its_row_and_the_reason(stub_server: Start) -> None:
    """The server's own sentence says how long is too long."""
    words = "maximum context length is 2048 tokens"
    server = stub_server(
        lambda route, body, count: good(route, body, count) if route == "/models" else (400, {}, {"message": words})
    )

    with pytest.raises(Refusal, match=f"row 1: the server refuses the request: {words}"):
        groups(job(server.url))


@pytest.mark.parametrize(("said", "ours"), [("stop", "stop"), ("eos", "stop"), ("length", "length")])
def test_the_ends_of_a_completion_are_translated(stub_server: Start, said: str, ours: str) -> None:
    """Servers spell the end token's end in two ways."""
    server = stub_server(
        lambda route, body, _: (200, {}, MODELS) if route == "/models" else completion(body, finish_reason=said)
    )

    assert [ours, ours] == [each["finish_reason"] for each in groups(job(server.url))[0]["completions"]]


@pytest.mark.parametrize(
    ("changes", "error", "expected"),
    [
        ({"finish_reason": "content_filter"}, MachineryFailure, "content_filter"),
        ({"finish_reason": None}, MachineryFailure, "None"),
        ({"token_ids": list(range(9))}, MachineryFailure, "ignores max_tokens"),
        ({"message": {"content": "2", "reasoning_content": "well"}}, Refusal, "without a reasoning parser"),
    ],
    ids=["filtered", "no end", "too long", "reasoning"],
)
def test_what_is_no_completion_of_the_model_is_refused(
    stub_server: Start, changes: dict[str, Any], error: type[Exception], expected: str
) -> None:
    """A reward must not see a text that training would not produce."""
    server = stub_server(
        lambda route, body, _: (200, {}, MODELS) if route == "/models" else completion(body, **changes)
    )

    with pytest.raises(error, match=expected):
        groups(job(server.url, n=1))


def test_no_more_requests_at_once_than_allowed(stub_server: Start) -> None:
    """The bound holds over groups."""
    running, most = [0], [0]

    def counting(route: str, body: dict[str, Any], count: int) -> Answer:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)
        running[0] -= 1
        return good(route, body, count)

    groups(job(stub_server(counting).url, prompts=(CHAT,) * 6, n=4, concurrency=3))

    assert 2 <= most[0] <= 3


def test_closing_early_stops_asking(stub_server: Start) -> None:
    """A command that ends does not leave a program that goes on spending tokens."""

    def slow(route: str, body: dict[str, Any], count: int) -> Answer:
        time.sleep(0 if route == "/models" else 0.1)
        return good(route, body, count)

    server = stub_server(slow)
    with contextlib.closing(run(job(server.url, prompts=(CHAT,) * 50, concurrency=1))) as records:
        next(records)
        next(records)
    asked = len(server.asked)
    time.sleep(0.5)

    assert len(server.asked) <= asked + 1
    assert asked < 20
    assert json.dumps(server.asked[-1][1])
