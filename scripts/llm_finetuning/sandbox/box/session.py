"""What a job's judgement is made of: what is known so far, and the candidate that is spoken to."""

from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box import frames
from llm_finetuning.sandbox.box.hands import Hands
from llm_finetuning.sandbox.box.peer import new_token
from llm_finetuning.sandbox.box.supervision import Stopped, Supervision

_MAX_DETAIL = 1000
_LOADED, _ANSWERED, _ENDED = 5, 6, 5  # parts of a message


class Verdict:
    """What is known of a job so far; the first reason not to pass is the one that is told."""

    def __init__(self, total: int) -> None:
        """Take the declared number of tests."""
        self.total = total
        self.held: set[int] = set()
        self.status = ""
        self.detail = ""
        self.output = ""
        self.cpu_s = self.wall_s = self.memory_mb = 0.0

    def fail(self, detail: str) -> None:
        """Note that a test did not hold."""
        if not self.status:
            self.status, self.detail = "failed", detail

    def stop(self, status: str, detail: str) -> None:
        """Note a reason that weighs more than that a test did not hold."""
        if self.status in {"", "failed"} or status in {"forgery", "infrastructure"}:
            self.status, self.detail = status, detail

    def told(self) -> dict[str, Any]:
        """Return the outcome; a job without any test never passes."""
        if not self.status:
            self.status = "passed" if self.total and len(self.held) == self.total else "failed"
        return {
            "status": self.status,
            "passed": len(self.held),
            "total": self.total,
            "detail": " ".join(self.detail.split())[:_MAX_DETAIL],
            "output": self.output,
            "cpu_s": self.cpu_s,
            "wall_s": self.wall_s,
            "memory_mb": self.memory_mb,
        }


class Session:
    """A candidate that is watched and spoken to."""

    def __init__(self, job: Mapping[str, Any], hands: Hands) -> None:
        """Start the candidate; raises OSError if the machine cannot."""
        self.limits: dict[str, float] = dict(job["limits"])
        self.watch = Supervision(self.limits)
        self.candidate = self.watch.watch(hands.candidate(dict(self.limits)), subject="the program")
        self._number = 0
        self._token = new_token()

    def load(self, code: str) -> None:
        """Have the code loaded as a module; raises Stopped if it does not load."""
        self.watch.send(self.candidate, {"code": code, "token": self._token, "stdin": None})
        kind, name, text = self._answer(0, self._token, _LOADED)[2:]
        if kind == "x" and type(name) is str and type(text) is str:
            raise Stopped("memory" if name == "MemoryError" else "error", text)
        if kind != "v":
            raise Stopped("forgery", "answered what it was not asked")

    def ask(self, op: str, encoded: Any) -> tuple[Any, Any]:
        """Ask the candidate; return kind and content of its answer."""
        self._number += 1
        token = new_token()
        self.watch.send(self.candidate, [self._number, token, op, encoded, 0])
        answer = self._answer(self._number, token, _ANSWERED)
        return answer[2], answer[3]

    def run_whole(self, code: str, stdin: str) -> tuple[str, str]:
        """Run the code as a program until it is gone; return the name of what it raised and its text, if any."""
        self.watch.send(self.candidate, {"code": code, "token": self._token, "stdin": stdin})
        self.watch.until_gone(self.candidate)
        try:
            payload = self.candidate.incoming.take()
            message = None if payload is None else frames.unpack(payload)
        except frames.Broken as reason:
            raise Stopped("forgery", f"wrote on the judge's channel: {reason}") from None
        if message is None and not self.candidate.incoming.pending():
            return "", ""
        told = type(message) is list and len(message) == _ENDED and message[:3] == [0, self._token, "e"]
        if message is None or not told or self.candidate.incoming.pending():
            raise Stopped("forgery", "wrote on the judge's channel")
        return str(message[3])[:_MAX_DETAIL], str(message[4])[:_MAX_DETAIL]

    def close(self, verdict: Verdict) -> None:
        """End the candidate and note what it used and printed."""
        self.watch.close()
        ending = self.candidate.ending
        if ending is not None:
            verdict.cpu_s += ending.cpu_s
            verdict.memory_mb = max(verdict.memory_mb, ending.memory_mb)
        room = int(self.limits["output_kb"] * 1024)
        if not verdict.output:
            verdict.output = self.candidate.printed()[:room].decode("utf-8", "replace")

    def _answer(self, number: int, token: str, size: int) -> list[Any]:
        try:
            message = self.watch.receive(self.candidate)
        except frames.Broken as reason:
            raise Stopped("forgery", f"wrote what is no answer: {reason}") from None
        if type(message) is not list or len(message) != size or message[:2] != [number, token]:
            raise Stopped("forgery", "wrote an answer to nothing that was asked")
        return message
