"""Proof that rollouts come from the weights that are trained: before the first step of a start, and after it.

An engine that keeps its first weights, or gets them without the adapter, raises no error: losses, spread and rewards
look normal, and the samples are the base model's for ever. So the trained weights are changed in a way that cannot be
missed, synced by the trainer's own code, and the engine has to follow, agree with the trained model, and come back.
"""

import math
from collections.abc import Sequence
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from guards import ending, outcome, rollouts
from guards.perturbation import Perturbation
from guards.rollouts import Agreement, Rollout

LENGTH = 12  # tokens of a greedy completion
AGREED = 0.75  # share of tokens that have to be the trained model's own choice
MOVED = 0.5  # nats that a change should take from the first token that was said before
MOVED_LITTLE = 0.02  # nats; enough where a model's choices lie so close together that no change takes more ...
NOISE = 10  # ... and where it is so many times what engine and trainer differ by with nothing changed

CHANGED_GAPS = 5  # times the allowed gap under changed weights, whose larger activations lose more in low precision

TURN_OFF = "`guards: {canary: false}` in config.yaml trains without this proof"


class Canary(TrainerCallback):  # type: ignore[misc]  # transformers is not beside the type checker
    """Ends the run (exit 4) where rollouts do not follow what is trained."""

    def __init__(self, trainer: Any, prompts: Sequence[Any], gap: float) -> None:
        """Watch a trainer with one or two fixed prompts; `gap` is the allowed mean distance in nats a token."""
        self._trainer, self._gap = trainer, gap
        self._prompts = trainer._tokenize_prompts(list(prompts))[0]  # noqa: SLF001  as a step does
        self._length = min(LENGTH, int(trainer.max_completion_length))
        self._after: int | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look before the first step."""
        self._look(f"before step {state.global_step + 1}")
        self._after = state.global_step + 1

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look once more after it."""
        if state.global_step == self._after:
            self._look(f"after step {state.global_step}")

    def _look(self, when: str) -> None:
        with rollouts.undisturbed(self._trainer):
            fault, words = self._prove()
        fault = next((one for one in gather_object([fault]) if one), None)  # an engine of another process
        if fault:
            raise ending.Ended(f"canary {when}: {fault}", outcome.EXIT_MACHINERY)
        ending.say(f"canary {when}: {words}")

    def _prove(self) -> tuple[str | None, str]:
        """Return what is wrong, or None, and what was seen; all processes walk through the same calls."""
        before = self._greedy()
        at_first = self._agreement(before)
        try:
            change = Perturbation(self._trainer)
        except LookupError as error:
            return f"cannot tell ({error}); {TURN_OFF}", ""
        try:
            moved = self._move(change, before, at_first.gap)
            changed = self._greedy() if moved else before
            then = self._agreement(changed)
        finally:
            change.restore()
        after = self._greedy()
        back = self._agreement(after)
        if not moved:
            return f"cannot tell: no change of what is trained moves the model's own first choice; {TURN_OFF}", ""
        fault = (
            self._disagreement(at_first, "as training begins, with nothing changed")
            or self._standstill(before, changed, then, adapter=change.of_adapter)
            or (
                self._disagreement(back, "after the change was taken back")
                if _tokens(after) != _tokens(before)
                else None
            )
        )
        return fault, (
            f"rollouts follow what is trained and come back; {then.share:.0%} of the tokens are the trained model's "
            f"own choice, log-probabilities {at_first.gap:.2g} nats apart ({then.gap:.2g} under the change)"
        )

    def _greedy(self) -> list[Rollout]:
        return rollouts.greedy(self._trainer, self._prompts, self._length)

    def _agreement(self, said: list[Rollout]) -> Agreement:
        """Return the worst over the prompts."""
        seen = [rollouts.agreement(self._trainer, rollout, self._gap) for rollout in said]
        return Agreement(
            share=min(one.share for one in seen),
            gap=max(one.gap for one in seen),
            first=min(one.first for one in seen),
        )

    def _move(self, change: Perturbation, before: list[Rollout], noise: float) -> bool:
        """Change what is trained until the trained model would begin otherwise, in every process; tell if it does.

        The smallest change that does is taken, since large ones in low precision make engine and trainer differ.
        """
        moves: dict[float, float] = {}
        for strength in change.strengths:
            change.apply(strength)
            seen = self._agreement(before).first
            moves[strength] = min(gather_object([seen if math.isfinite(seen) else 0.0]))
            if moves[strength] >= MOVED:
                return True
        best = max(moves, key=lambda strength: moves[strength])
        change.apply(best)
        return moves[best] >= float(max(gather_object([MOVED_LITTLE, NOISE * noise])))

    def _disagreement(self, seen: Agreement, when: str, times: float = 1.0) -> str | None:
        if seen.share >= AGREED and seen.gap <= times * self._gap:
            return None
        return (
            f"engine and trainer disagree {when}: {seen.share:.0%} of the engine's greedy tokens are the trained "
            f"model's own choice (at least {AGREED:.0%} wanted) and log-probabilities lie {seen.gap:.2g} nats apart "
            f"({times * self._gap:g} allowed, by guards.canary_gap); the engine holds another model, precision or part "
            "of the weights; compare what both load, then start again"
        )

    def _standstill(
        self, before: list[Rollout], changed: list[Rollout], then: Agreement, *, adapter: bool
    ) -> str | None:
        if any(one == other for one, other in zip(_tokens(before), _tokens(changed), strict=True)):
            what = "the adapter is not in what the engine gets" if adapter else "the weights do not reach the engine"
            return (
                "the engine kept its old weights: what is trained was changed and synced, and it says the same as "
                f"before; {what}, so every rollout would come from weights that are not trained; check that the "
                "versions in requirements.txt are installed (TRL pushes the weights) and start again"
            )
        return self._disagreement(then, "after what is trained was changed and synced", CHANGED_GAPS)


def _tokens(said: list[Rollout]) -> list[tuple[int, ...]]:
    return [rollout.tokens for rollout in said]
