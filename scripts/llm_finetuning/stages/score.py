"""Score samples with the composed reward, called and aggregated exactly as TRL 1.16.0's `GRPOTrainer` does.

Source: `GRPOTrainer._calculate_rewards` and the advantage code after it (trl/trainer/grpo_trainer.py, 1.16.0).
"""

import asyncio
import inspect
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from llm_finetuning.types import NOT_HANDED_ON, Component, RewardValue, Sample, Score

STD_EPSILON = 1e-4  # TRL adds it to the standard deviation of a group
STABLE_WITHIN = 1e-6  # TRL keeps rewards as float32; a smaller difference cannot be seen in training

_FLOAT32_MAX = 3.4028235e38

_NOT_THE_USERS = (str(Path(__file__).resolve().parents[1]), sys.prefix, sys.base_prefix, "<")
"""How the names of files begin that a user did not write."""


class RewardFault(Exception):  # noqa: N818  it is the reward's fault, not an error of the stage
    """A reward that TRL would die of: it raised, or returned something else than one number a completion."""

    def __init__(self, reward: str, samples: Sequence[Sample], words: str, cause: BaseException | None = None) -> None:
        """Name the reward, the samples of the call that failed and what happened."""
        super().__init__(words)
        self.reward = reward
        self.samples = list(samples)
        self.words = words
        self.cause = cause

    @property
    def placed(self) -> str:
        """What happened, with FILE:LINE where it was raised in a file that is none of ours and of no library."""
        frames = [] if self.cause is None else traceback.extract_tb(self.cause.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)]
        return f"{self.words} ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """The options of `GRPOConfig` that turn reward values into advantages."""

    scale_rewards: str = "group"
    multi_objective_aggregation: str = "sum_then_normalize"


@dataclass(slots=True)
class _Call:
    """What one call of one reward gave."""

    values: list[float]  # NaN where it abstained
    nan_places: set[int] = field(default_factory=set)  # where it returned NaN itself
    extras: dict[str, list[Any]] = field(default_factory=dict)
    seconds: float = 0.0


def score(
    samples: Sequence[Sample],
    components: Sequence[Component],
    *,
    completions_per_call: int,
    aggregation: Aggregation,
    on_progress: Callable[[int], None] = lambda _: None,
    calls_again: bool = True,
) -> list[Score]:
    """Return one score a sample, in order; raises RewardFault for the first reward that TRL would die of.

    Unless `calls_again` is off, each reward is called again on the two halves of the reversed batch: a value that moves
    is marked `unstable`, be it by chance, by its place or by its neighbours (a group may lie on several ranks, so none
    is sure of its neighbours).
    """
    scores: list[Score] = []
    for batch in _batches(samples, completions_per_call):
        calls = _call_all(components, batch)
        again = _values_again(components, batch) if calls_again else [call.values for call in calls]
        scores.extend(_scores(batch, components, calls, again, aggregation))
        on_progress(len(batch))
    return scores


def _values_again(components: Sequence[Component], batch: Sequence[Sample]) -> list[list[float]]:
    """Return each reward's values when the batch comes reversed and in two halves, in the batch's order."""
    turned = list(batch[::-1])
    halves = [half for half in (turned[: len(turned) // 2], turned[len(turned) // 2 :]) if half]
    calls = [_call_all(components, half) for half in halves]
    return [[value for call in calls for value in call[place].values][::-1] for place in range(len(components))]


def _batches(samples: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Split into calls: groups stay whole and the two passes apart, since training has policy samples alone."""
    batches: list[list[Sample]] = []
    for group in groups(samples):
        if batches and batches[-1][0].pass_name == group[0].pass_name and len(batches[-1]) + len(group) <= size:
            batches[-1].extend(group)
        else:
            batches.append(list(group))
    return batches


def groups(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Return the samples by pass and prompt, in order of first appearance."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        found.setdefault((sample.pass_name, sample.prompt_id), []).append(sample)
    return sorted(found.values(), key=lambda group: group[0].pass_name != "policy")


def keyword_arguments(batch: Sequence[Sample]) -> dict[str, Any]:
    """Return what TRL passes to a reward for these samples; fresh lists, so that a reward cannot alter the record."""
    keys = [key for key in batch[0].columns if key not in NOT_HANDED_ON]
    return {
        "prompts": [_copy(sample.prompt) for sample in batch],
        "completions": [_copy(sample.completion) for sample in batch],
        "completion_ids": [None if sample.completion_ids is None else list(sample.completion_ids) for sample in batch],
        **{key: [_copy(sample.columns.get(key)) for sample in batch] for key in keys},
        "trainer_state": SimpleNamespace(global_step=0, max_steps=0, epoch=0.0, num_train_epochs=0, log_history=[]),
        "log_metric": lambda name, value: None,
    }


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _call_all(components: Sequence[Component], batch: Sequence[Sample]) -> list[_Call]:
    """Call every reward on one batch: the plain ones first and in order, then the async ones together."""
    arguments = keyword_arguments(batch)  # one set of lists for all rewards, as in TRL
    calls: dict[int, _Call] = {}
    waiting: list[int] = []
    for place, component in enumerate(components):
        if is_async(component.function):
            waiting.append(place)
            continue
        call = _Call([])
        begun = time.perf_counter()
        try:
            raw = component.function(**arguments, log_extra=_logger(call))
            _take_values(call, component, batch, raw)
        except RewardFault:
            raise
        except (Exception, SystemExit) as error:  # sys.exit() in a reward is a fault of the reward
            raise _located(component, batch, error) from error
        call.seconds = time.perf_counter() - begun
        calls[place] = call
    if waiting:
        calls.update(_gather(components, waiting, batch, arguments))
    return [calls[place] for place in range(len(components))]


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether TRL would await this reward."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _gather(
    components: Sequence[Component], places: Sequence[int], batch: Sequence[Sample], arguments: Mapping[str, Any]
) -> dict[int, _Call]:
    """Await async rewards together on a thread of their own, as TRL does."""
    calls = {place: _Call([]) for place in places}
    failed: list[RewardFault] = []

    async def run(place: int) -> None:
        component, call = components[place], calls[place]
        begun = time.perf_counter()
        try:
            raw = await component.function(**arguments, log_extra=_logger(call))
            _take_values(call, component, batch, raw)
        except RewardFault as fault:
            failed.append(fault)
        except BaseException as error:  # noqa: BLE001  whatever a user's reward raises; this is not the main thread
            failed.append(RewardFault(component.name, batch, f"{type(error).__name__}: {error}", error))
        call.seconds = time.perf_counter() - begun

    async def run_all() -> None:
        await asyncio.gather(*(run(place) for place in places))

    thread = threading.Thread(target=lambda: asyncio.run(run_all()), name="async rewards")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return calls


def _logger(call: _Call) -> Callable[[str, list[Any]], None]:
    def log_extra(column: str, values: list[Any]) -> None:
        call.extras.setdefault(str(column), []).extend(values)  # TRL extends too

    return log_extra


def _located(component: Component, batch: Sequence[Sample], error: BaseException) -> RewardFault:
    """Find the completion a batch call died of by calling each alone; the whole batch if none does."""
    for sample in batch:
        try:
            component.function(**keyword_arguments([sample]), log_extra=lambda column, values: None)
        except (Exception, SystemExit) as alone:  # noqa: BLE001  whatever a user's reward raises
            return RewardFault(component.name, [sample], f"{type(alone).__name__}: {alone}", alone)
    return RewardFault(component.name, batch, f"{type(error).__name__}: {error}", error)


def _take_values(call: _Call, component: Component, batch: Sequence[Sample], raw: Any) -> None:
    """Check one call's result as TRL would convert it, and keep it; NaN stands for an abstention."""
    if isinstance(raw, str | dict) or not hasattr(raw, "__iter__"):
        raise RewardFault(component.name, batch, f"returned {_kind(raw)} where a list of numbers is needed")
    listed = list(raw)
    if len(listed) != len(batch):
        words = f"returned {len(listed)} value(s) for {len(batch)} completion(s); return exactly one for each, in order"
        raise RewardFault(component.name, batch, words)
    for place, (sample, item) in enumerate(zip(batch, listed, strict=True)):
        try:
            value = math.nan if item is None else _number(item)
        except (TypeError, ValueError, OverflowError):
            words = f"returned {_kind(item)} ({item!r:.40}) where a number or None is needed"
            raise RewardFault(component.name, [sample], words) from None
        if item is not None and math.isnan(value):
            call.nan_places.add(place)
        call.values.append(value)


def _number(item: Any) -> float:
    if isinstance(item, str | bytes):
        raise TypeError  # float("1.0") would hide a text that torch refuses
    value = float(item)
    # TRL keeps rewards as float32, where a larger number is infinite.
    return math.copysign(math.inf, value) if abs(value) > _FLOAT32_MAX else value


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _scores(
    batch: Sequence[Sample],
    components: Sequence[Component],
    calls: Sequence[_Call],
    again: Sequence[Sequence[float]],
    aggregation: Aggregation,
) -> list[Score]:
    table = [[call.values[place] for call in calls] for place in range(len(batch))]
    weights = [component.weight for component in components]
    rewards = [weighted_sum(row, weights) for row in table]
    advantages: Sequence[float | None] = [None] * len(batch)
    if batch[0].pass_name == "policy":
        sizes = [len(group) for group in groups(batch)]
        advantages = advantages_of(table, weights, sizes, aggregation)
    scores = []
    for place, sample in enumerate(batch):
        values = [
            _reward_value(component, call, repeated[place], place, len(batch))
            for component, call, repeated in zip(components, calls, again, strict=True)
        ]
        reasons = {f"{component.name}_reason" for component in components}
        scores.append(
            Score(
                sample_id=sample.sample_id,
                prompt_id=sample.prompt_id,
                pass_name=sample.pass_name,
                values=values,
                reward=rewards[place] if math.isfinite(rewards[place]) else None,
                advantage=advantages[place],
                extras={
                    column: _plain(listed[place])
                    for call in calls
                    for column, listed in call.extras.items()
                    if column not in reasons and len(listed) == len(batch)
                },
            )
        )
    return scores


def _reward_value(component: Component, call: _Call, repeated: float, place: int, n: int) -> RewardValue:
    value = call.values[place]
    same = (math.isnan(value) and math.isnan(repeated)) or value == repeated or abs(value - repeated) <= STABLE_WITHIN
    fault = None
    if place in call.nan_places:
        fault = "nan"
    elif math.isinf(value):
        fault = "infinite"
    elif not same:
        fault = "unstable"
    elif not math.isnan(value) and not component.low - STABLE_WITHIN <= value <= component.high + STABLE_WITHIN:
        fault = "out_of_range"
    reasons = call.extras.get(f"{component.name}_reason", [])
    return RewardValue(
        name=component.name,
        value=value if math.isfinite(value) else None,
        reason=str(reasons[place]) if len(reasons) == n and reasons[place] is not None else None,
        fault=fault,
        seconds=call.seconds / n,
    )


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float) and abs(value) < _FLOAT32_MAX:
        return value
    try:
        return str(value)
    except Exception:  # noqa: BLE001  what a reward logs may be any object
        return f"<{type(value).__name__}>"


def weighted_sum(row: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted sum over the rewards that did not abstain; NaN when all did. Weights are not renormalised."""
    if all(math.isnan(value) for value in row):
        return math.nan
    return sum(weight * value for value, weight in zip(row, weights, strict=True) if not math.isnan(value))


def advantages_of(
    table: Sequence[Sequence[float]], weights: Sequence[float], sizes: Sequence[int], aggregation: Aggregation
) -> list[float]:
    """Return each completion's advantage from its reward values (NaN: abstained).

    `sizes` are the lengths of the consecutive groups. A group with one value or none, or an infinite one, gets 0, as
    in TRL.
    """
    if aggregation.multi_objective_aggregation == "normalize_then_sum":
        columns = [
            _normalised([row[place] for row in table], sizes, divide_by="group") for place in range(len(weights))
        ]
        rewards = [weighted_sum(row, weights) for row in zip(*columns, strict=True)]
        return _finite(_normalised(rewards, [len(rewards)], divide_by="group"))
    rewards = [weighted_sum(row, weights) for row in table]
    return _finite(_normalised(rewards, sizes, divide_by=aggregation.scale_rewards))


def _normalised(values: Sequence[float], sizes: Sequence[int], *, divide_by: str) -> list[float]:
    """Subtract each group's mean and divide by a standard deviation: the group's, the batch's, or none."""
    batch_std = _std(values)
    result: list[float] = []
    begin = 0
    for size in sizes:
        group = values[begin : begin + size]
        begin += size
        known = [value for value in group if not math.isnan(value)]
        mean = sum(known) / len(known) if known else math.nan
        std = {"group": _std(group), "batch": batch_std, "none": 1.0 - STD_EPSILON}[divide_by]
        result.extend((value - mean) / (std + STD_EPSILON) for value in group)
    return result


def _std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (N-1) of the values that are there; NaN for fewer than two."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:  # noqa: PLR2004  N-1
        return math.nan
    mean = sum(known) / len(known)
    return math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))


def _finite(values: Sequence[float]) -> list[float]:
    return [value if math.isfinite(value) else 0.0 for value in values]
