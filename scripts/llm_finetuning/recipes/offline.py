"""What SFT and the preference methods share: a batch of rows, the passes over them, and how a config is put together.

They learn from completions that are in the data set, so no engine, no rewards and no gate take part.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import adapters, rules, shapes, shared, values
from llm_finetuning.recipes.config import Machine, Option, RunConfig, Shape

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A method's learning rate for all weights and for an adapter, with where it is from."""

    full: float
    adapter: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What a method's recipe says beside its own options."""

    rate: Rate
    epochs: float
    rows_a_step: int  # over all processes
    rows_a_device: int  # at once; the rest of a step's rows by accumulation
    least_a_device: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the rows are gone through."""

    options: Mapping[str, Option]
    steps: int  # of the optimiser, in the whole run
    note: str


class Faults:
    """Gathers the refusals of several checks, so that a person sees all of them at once."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Begin with those that are known."""
        self.lines = list(lines)

    def tried(self, check: Callable[[], Result], otherwise: Result) -> Result:
        """Return what a check returns, or keep its refusal and return `otherwise`."""
        try:
            return check()
        except Refusal as refusal:
            self.lines += refusal.lines
            return otherwise

    def refuse(self) -> None:
        """Refuse with all that was gathered, if anything was."""
        if self.lines:
            raise Refusal(*dict.fromkeys(self.lines))


def config(
    loaded: LoadedBrief,
    machine: Machine,
    rows: int,
    *,
    method: Method,
    own: Mapping[str, Option],
    checks: "Checks",
    wrong: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> RunConfig:
    """Return the config of a method that learns from the rows' completions; refuses with all faults at once.

    Args:
        loaded: The brief.
        machine: What its `hardware` names.
        rows: How many training rows there are.
        method: What the recipe says of learning rate and batch.
        own: The options of the method alone, as its recipe has them.
        checks: What each option's value must be, beyond what TRL checks when a config is made.
        wrong: Faults that the method's recipe found; they are told with the others.
        notes: What a person should know, of the method alone.
    """
    name, training, faults = loaded.brief.method, loaded.brief.training, Faults(wrong)
    shape = faults.tried(lambda: shapes.shape_for(machine, name, training), _ONE_PROCESS)
    faults.lines += [f"training.{option}: {words}" for option, words in adapters.faults(training, name)]
    kind = adapters.kind_of(training)
    schedule = faults.tried(lambda: schedule_of(rows, shape, method, training), Schedule(options={}, steps=1, note=""))
    rate = Option(method.rate.adapter if kind else method.rate.full, "recipe", method.rate.source)
    held_out = loaded.brief.dataset.evaluation is not None
    common = shared.common(machine, learning_rate=rate, steps=schedule.steps, held_out=held_out)
    options = shared.with_brief({**common, **schedule.options, **own}, training)
    faults.lines += value_faults(options, checks, training)
    faults.refuse()
    adapter, quantization = adapters.adapter_for(loaded, machine)
    return RunConfig(
        method=name,
        model=shared.model(loaded, machine, kind),
        adapter=adapter,
        quantization=quantization,
        trainer=options,
        rewards=(),
        data=shared.data(loaded),
        guards={},
        shape=shape,
        versions=shared.versions(shape),
        notes=(schedule.note, *rate_notes(method.rate, kind, options["learning_rate"]), *notes),
    )


_ONE_PROCESS = Shape(kind="cpu", engine="transformers", processes=1)


def schedule_of(rows: int, shape: Shape, method: Method, training: Mapping[str, Any]) -> Schedule:
    """Return batch, passes and steps; what the brief says of the one is kept by moving the others.

    Refuses no rows. A value of the brief that is none is passed over here, and told of by `value_faults`.
    """
    if rows < 1:
        raise Refusal("dataset: has no rows to train on; name a data set with at least one")
    share = max(1, method.rows_a_step // shape.processes)  # of one process, in one step
    device = max(min(method.rows_a_device, share), method.least_a_device)
    device = _said(training, "per_device_train_batch_size", is_whole, device)
    accumulated = _said(training, "gradient_accumulation_steps", is_whole, max(1, round(share / device)))
    epochs = _said(training, "num_train_epochs", is_positive, method.epochs)
    a_pass = math.ceil(math.ceil(rows / (device * shape.processes)) / accumulated)
    steps = _said(training, "max_steps", is_whole, math.ceil(epochs * a_pass))
    together = device * accumulated * shape.processes
    options = shared.given(
        "recipe",
        per_device_train_batch_size=device,
        per_device_eval_batch_size=device,
        gradient_accumulation_steps=(accumulated, f"{together} rows a step over {shape.processes} process(es)"),
        num_train_epochs=epochs,
        max_steps=(-1, "the passes decide"),
    )
    note = f"{steps} steps of {together} rows: {steps / a_pass:.3g} pass(es) of {rows}"
    return Schedule(options=options, steps=steps, note=note)


def _said(training: Mapping[str, Any], name: str, is_right: Callable[[Any], bool], otherwise: Any) -> Any:
    """Return what the brief says of an option, where it is right."""
    value = training.get(name)
    return value if is_right(value) else otherwise


def rate_notes(rate: Rate, adapter: str | None, said: Option) -> list[str]:
    """Return a warning where the brief's learning rate fits the other way of training, and so was likely copied."""
    if said.source != "brief" or not is_positive(said.value):
        return []
    if adapter and said.value <= 2 * rate.full:
        words = "is one for all weights; an adapter hardly moves at it"
        return [f"learning_rate {said.value:g} {words}, its recipe has {rate.adapter:g}"]
    if not adapter and said.value >= rate.adapter / 2:
        words = "is one for an adapter; all weights trained at it tend to collapse"
        return [f"learning_rate {said.value:g} {words}, their recipe has {rate.full:g}"]
    return []


Checks = Mapping[str, tuple[Callable[[Any], bool], str]]
"""By option: what holds of a right value, and how a person is told."""


def value_faults(options: Mapping[str, Option], checks: Checks, training: Mapping[str, Any]) -> list[str]:
    """Return a fault for each value that TRL would take and then fail of in the first step, or silently train wrong."""
    found = [
        f"training.{name}: {options[name].value!r} is not {words}"
        for name, (is_right, words) in {**GENERAL, **checks}.items()
        if name in options and not is_right(options[name].value)
    ]
    others = [name for name in training if name not in checks and name not in GENERAL]
    told = [(name, values.fault(name, training[name])) for name in others]
    told += list(rules.model_faults(training))
    return [*found, *(f"training.{name}: {words}" for name, words in told if words)]


def is_positive(value: Any) -> bool:
    """Tell whether a value is a number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def one_of(*choices: str) -> tuple[Callable[[Any], bool], str]:
    """Return the check for an option that is one of some words."""
    return lambda value: value in choices, f"one of {', '.join(choices)}"


GENERAL: Checks = {
    "max_length": (lambda value: value is None or is_whole(value), "a whole number of tokens from 1 on"),
}
