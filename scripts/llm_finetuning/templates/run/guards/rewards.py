"""The frozen rewards as the trainer calls them: with the rows' own columns, counted, otherwise passed through."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guards import data, ending
from guards.reward_faults import CtrlC, Faults, own_interrupts

if TYPE_CHECKING:
    from guards.options import Settings

Tally = dict[int, tuple[int, int]]
"""Row -> completions of it that a reward judged, and how many of these it abstained on."""


class Watch:
    """What the rewards did since the last look, on this process; training alone is counted."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the names of the rewards in the trainer's order."""
        self.names = list(names)
        self._tallies: dict[str, Tally] = {name: {} for name in self.names}
        self.end_tokens: frozenset[int] = frozenset()  # of the trainer, once there is one

    def count(self, name: str, rows: Sequence[int], values: Sequence[Any]) -> None:
        """Add one call's values; None is an abstention."""
        tally = self._tallies[name]
        for row, value in zip(rows, values, strict=True):
            judged, abstained = tally.get(row, (0, 0))
            tally[row] = (judged + 1, abstained + (value is None))

    def finish(self, ids: Sequence[int]) -> str:
        """Return how a completion ended, in the words of the gate's samples."""
        return "stop" if ids and ids[-1] in self.end_tokens else "length"

    def take(self) -> dict[str, Tally]:
        """Return the tallies and begin anew."""
        taken, self._tallies = self._tallies, {name: {} for name in self.names}
        return taken


def load(settings: "Settings", loaded: Any, rows: data.Rows) -> tuple[list[Callable[..., Any]], Watch]:
    """Return the rewards of the brief that the gate check handed on, as `reward_funcs`, and the watch that counts.

    Ends the run where they are not those that config.yaml lists, or lack machinery such as a sandbox.
    """
    from llm_finetuning.rewards import composition  # the frozen one, which the gate check put on the path

    components = composition.compose(loaded, rows.columns)
    wanted = [(reward["name"], float(reward["weight"])) for reward in settings.rewards]
    found = [(component.name, component.weight) for component in components]
    if wanted != found:
        raise ending.refuse(f"{settings.file}: rewards: lists {wanted}, and brief.yaml asks for {found}; build again")
    composition.make_ready(components)
    watch = Watch([component.name for component in components])
    first = components[0].name
    files = composition.own_rewards(loaded)
    functions = [
        wrap(component.function, component.name, rows, watch, tables=component.name == first, files=files)
        for component in components
    ]
    return functions, watch


def wrap(
    function: Callable[..., Any],
    name: str,
    rows: data.Rows,
    watch: Watch,
    *,
    tables: bool = False,
    files: Sequence[Path] = (),
) -> Callable[..., Any]:
    """Return the reward under its component's name, as TRL's metric is called; an awaited one stays awaitable.

    It is called as at the gate: every column of the row as the JSONL holds it, TRL's own keywords, nothing of ours.
    With `tables`, the row and the length stand in the completions table. `files` are the brief's own reward files.
    What it returns goes to TRL as a list; raises Ended, with the reward's name, for what is no list of finite numbers
    and None, and for whatever the reward raises, `sys.exit()` too: in the thread of TRL's loop that would hang the run.
    """
    faults = Faults(name, rows, files)

    def counted(numbers: list[int], returned: Any) -> list[Any]:
        values = faults.values(returned, numbers)
        if all(rows.is_training(row) for row in numbers):
            watch.count(name, numbers, values)
        return values

    def called(**given: Any) -> Any:
        numbers, keywords = _arguments(given, rows, watch, tables=tables)

        def alone(place: int) -> Any:
            return faults.values(function(**_one(keywords, rows, numbers[place], place)), [numbers[place]])

        try:
            with own_interrupts():
                return counted(numbers, function(**keywords))
        except CtrlC:
            raise KeyboardInterrupt from None
        except BaseException as error:  # noqa: BLE001  whatever a person's reward raises
            faults.end(error, numbers, alone)

    async def awaited(**given: Any) -> Any:
        numbers, keywords = _arguments(given, rows, watch, tables=tables)
        try:
            return counted(numbers, await function(**keywords))
        except GeneratorExit:  # the loop is closed
            raise
        except BaseException as error:  # noqa: BLE001  whatever a person's reward raises
            faults.end(error, numbers)

    wrapper = awaited if is_awaited(function) else called
    wrapper.__name__ = wrapper.__qualname__ = name
    return wrapper


def _arguments(
    given: dict[str, Any], rows: data.Rows, watch: Watch, *, tables: bool
) -> tuple[list[int], dict[str, Any]]:
    """Return the rows of a call and what the reward is called with."""
    numbers = [int(row) for row in given.pop(data.ROW)]
    if tables and given.get("log_extra") is not None:
        given["log_extra"](data.ROW, numbers)
        all_ids = given["completion_ids"]
        given["log_extra"]("finetune_tokens", [len(ids) for ids in all_ids])
        given["log_extra"]("finetune_finish", [watch.finish(ids) for ids in all_ids])
    return numbers, {**{column: rows.column(column, numbers) for column in rows.columns}, **given}


def _one(keywords: dict[str, Any], rows: data.Rows, row: int, place: int) -> dict[str, Any]:
    """Return the arguments of a call for one of its completions, which leaves nothing in the tables and metrics."""
    one = {**keywords, **{column: rows.column(column, [row]) for column in rows.columns}}
    one.update((key, [keywords[key][place]]) for key in ("prompts", "completions", "completion_ids") if key in keywords)
    one.update((key, _drop) for key in ("log_extra", "log_metric") if key in keywords)
    return one


def _drop(name: str, values: Any) -> None:
    """Log nothing."""


def is_awaited(function: Any) -> bool:
    """Tell whether TRL would await the reward: a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  an object's own `async def __call__`
