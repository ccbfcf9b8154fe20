"""A suite: the tests run in a process of their own, which tells the judge what held."""

from collections.abc import Mapping
from typing import Any

from llm_finetuning.sandbox.box import frames
from llm_finetuning.sandbox.box.hands import Hands
from llm_finetuning.sandbox.box.session import Session, Verdict
from llm_finetuning.sandbox.box.supervision import Stopped, Watched


def run(job: Mapping[str, Any], hands: Hands, verdict: Verdict) -> None:
    """Judge a program by test code. The tests' own faults are never the program's."""
    session = Session(job, hands)
    try:
        session.load(job["code"])
        if session.candidate.incoming.pending():
            raise Stopped("forgery", "wrote an answer before it was asked")  # noqa: TRY301  ends the job
        session.watch.unwatch_channel(session.candidate)
        tester = hands.tester(dict(session.limits), session.candidate.child.channel)
        watched = session.watch.watch(tester, subject="the tests, with what the program gave them,")
        session.candidate.child.channel.close()
        _Suite(session, watched, verdict).run(job)
    except Stopped as stopped:
        verdict.stop(stopped.status, stopped.detail)
    finally:
        session.close(verdict)


class _Suite:
    def __init__(self, session: Session, tester: Watched, verdict: Verdict) -> None:
        self._session = session
        self._tester = tester
        self._verdict = verdict
        self._called = False

    def run(self, job: Mapping[str, Any]) -> None:
        """Send the tests and take what they tell; raises Stopped for whatever is not a test that failed."""
        told = {"source": job["source"], "names": job["names"], "entry_points": job["entry_points"]}
        try:
            self._session.watch.send(self._tester, told)
            self._listen()
        except Stopped as stopped:
            if self._called or stopped.status == "forgery" or stopped.detail.startswith("the program"):
                raise
            raise Stopped("infrastructure", f"tests: {stopped.detail}") from None
        except (frames.Broken, ValueError, TypeError, IndexError) as error:
            raise Stopped("infrastructure", f"tests: {type(error).__name__}: {error}") from None

    def _listen(self) -> None:
        while True:
            message = self._session.watch.receive(self._tester)
            if message[0] == "called":
                self._called = message[1]
            elif message[0] == "test":
                self._note(*message[1:])
            else:
                self._end(*message[1:])
                return

    def _note(self, index: int, held: bool, detail: str, raised: str) -> None:  # noqa: FBT001  a message's part
        if held and 0 <= index < self._verdict.total:
            self._verdict.held.add(index)
        elif raised == "MemoryError":
            self._verdict.stop("memory", detail)
        else:
            self._verdict.fail(detail)

    def _end(self, calls: int, missing: list[str], ended: list[Any] | None, fault: str) -> None:
        if ended is not None:
            forged, reason = ended
            if forged:
                raise Stopped("forgery", reason)
            raise self._session.watch.gone(self._session.candidate)
        if fault:
            self._verdict.held.clear()
            raise Stopped("infrastructure", f"tests: {fault}")
        if missing:
            raise Stopped("error", f"the program defines no `{missing[0]}`")
        if not calls and self._verdict.held:
            self._verdict.held.clear()
            raise Stopped("failed", "no test called the program")
