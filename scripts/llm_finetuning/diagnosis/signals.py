"""The quantities that the rules ask about, taken from a log of any era under one meaning each.

What changed between TRL's releases (its tags v0.14 to v1.16): `reward_std` was the mean deviation within groups and
is, since 0.27, that of the whole batch, so that only before it says whether groups differ; `frac_reward_zero_std` came
with 0.18 and says it ever since; `completions/clipped_ratio` came with 0.17, and in older logs a mean length that lies
on one ceiling in many rows takes its place; `kl` is there only with beta above 0, which is no default since 0.19.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llm_finetuning.diagnosis import trends
from llm_finetuning.diagnosis.log import RunLog
from llm_finetuning.diagnosis.trends import Trend

if TYPE_CHECKING:
    from llm_finetuning.diagnosis.log import Column, Mask

_FORM = re.compile(r"format|fmt|xml|tags?(_|$)|json|schema|len(gth)?(_|$)|long|short|styl|lang|think|boxed|int_reward")
_WANTED = (
    "correct",
    "accura",
    "answer",
    "exact",
    "solv",
    "succe",
    r"pass(_|$|ed|rate)",
    "gold|truth",
    "right",
    "verif",
)
SILENT = 0.8
"""Share of groups without a signal from which nothing is learned: four of five generations are wasted. Public logs that
went nowhere lie above it, those that learned below 0.6."""

SOLVED = 0.9
"""Share of the way to the ceiling from which a task counts as solved; noise keeps the mean of a solved one below it."""

P_GAIN = 0.02
"""Chance of a false gain in reward: twice `trends.P_TREND`, as what follows from a gain is to change nothing."""

P_HINT = 0.1
"""Chance above which a rise is not even hinted at: a rule that says "without a gain" needs that."""

_SORTED_FORMS = ("trainer_state", "wandb", "csv")

_NO_SPREAD = 1e-6  # rewards are averaged in single precision
_NEAR_CEILING = 0.03  # of the cap: a batch whose mean length is so near to it is cut nearly as a whole


@dataclass(frozen=True, eq=False)
class Signals:
    """A log, what the caller knows beside it, and what follows from both; every series has one place a row."""

    log: RunLog
    goal: str | None = None  # component that the caller wants to rise
    moe: bool | None = None

    @cached_property
    def rows(self) -> int:
        """Count the rows."""
        return len(self.log.steps)

    @cached_property
    def steps(self) -> float:
        """Return how many steps the log spans: a row speaks of the steps since the one before."""
        import numpy as np

        if not self.rows:
            return 0.0
        stride = float(np.median(np.diff(self.log.steps))) if self.rows > 1 else 1.0
        return float(max(self.log.steps[-1], self.log.steps[-1] - self.log.steps[0] + stride))

    @property
    def options(self) -> Mapping[str, Any]:
        """Return what is known of the training arguments."""
        return self.log.options

    def option(self, name: str) -> float | None:
        """Return an option that is a number; None where it is not known, or is no number."""
        value = self.options.get(name)
        try:
            found = float(value) if value is not None and not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            return None
        return found if math.isfinite(found) else None

    def column(self, name: str) -> "Column":
        """Return a training metric; no number anywhere where it was not logged."""
        import numpy as np

        found = self.log.series.get(name)
        return found.values if found is not None else np.full(self.rows, np.nan)

    def has(self, name: str) -> bool:
        """Tell whether a training metric holds a number anywhere."""
        return bool(trends.present(self.column(name)).any())

    def bad(self, name: str) -> "Mask":
        """Tell in which rows a metric was logged as null, NaN or infinity."""
        import numpy as np

        found = self.log.series.get(name)
        return found.bad if found is not None else np.zeros(self.rows, dtype=bool)

    def held(self, name: str) -> tuple["Column", "Column"]:
        """Return steps and values of the rows that hold a number of a metric."""
        values = self.column(name)
        there = trends.present(values)
        return self.log.steps[there], values[there]

    @cached_property
    def _trends(self) -> dict[str, Trend]:
        return {}

    def trend(self, name: str) -> Trend:
        """Return the course of a training metric."""
        if name not in self._trends:
            self._trends[name] = trends.trend(self.column(name))
        return self._trends[name]

    @cached_property
    def reward_moves(self) -> str:
        """Return whether the reward went `up` or `down` over the log, steadily or in its first rows; else `flat`."""
        found = self.trend("reward")
        if found.direction in ("up", "down"):
            return found.direction
        if found.direction == "flat" and found.p < P_GAIN and found.moved > 0:
            return "up"
        early = trends.jump(self.column("reward"))
        return early.direction if early is not None else "flat"

    def hints_at_a_gain(self, name: str = "reward") -> bool:
        """Tell whether a metric may have risen: that a rise is not significant does not show that there is none."""
        found = self.trend(name)
        return found.direction == "up" or (found.p < P_HINT and found.moved > 0)

    def said(self, name: str) -> str:
        """Return the course of a metric in words: steadily, with its p, or within its first rows."""
        found = self.trend(name)
        early = trends.jump(self.column(name))
        if found.direction in ("up", "down") or early is None:
            return f"{found.start:.3g} -> {found.end:.3g} (p = {found.p:.2g})"
        return f"{early.start:.3g} -> {early.tail:.3g} within its first rows, and stays there"

    @cached_property
    def silent(self) -> "Column":
        """Return the share of groups in which all completions were paid the same, in 0..1.

        In logs from before 0.18 it is 1 where the mean deviation within groups is 0, and else not known to be above 0.
        """
        import numpy as np

        share = self.column("frac_reward_zero_std")
        if trends.present(share).any():
            # A reward of no number compares as unlike its neighbours: TRL 1.16 logs a share of 0 then.
            rows: Column = np.where(self.bad("reward"), np.nan, share)
        else:
            spread = self.column("reward_std")
            rows = np.where(np.isfinite(spread), np.abs(spread) <= _NO_SPREAD, np.nan)
        return rows

    @cached_property
    def cap(self) -> float | None:
        """Return the length at which completions are cut; None where neither options nor log tell.

        A log tells where its greatest length stands in three rows or more, exactly.
        """
        import numpy as np

        known = self.option("max_completion_length")
        if known is not None and known > 0:
            return known
        for name in ("completions/max_length", "completions/mean_length"):
            _, lengths = self.held(name)
            if len(lengths):
                top = float(np.max(lengths))
                if int(np.sum(lengths >= top * (1 - 1e-4))) >= 3:  # noqa: PLR2004  one ceiling, not a chance maximum
                    return top
        return None

    @cached_property
    def cut(self) -> "Column":
        """Return the share of completions that were cut at the cap, in 0..1; before 0.17 what the length gives away."""
        import numpy as np

        share = self.column("completions/clipped_ratio")
        if trends.present(share).any():
            return share
        lengths = self.column("completions/mean_length")
        if self.cap is None or not self.cut_is_guessed:
            return np.full(self.rows, np.nan)
        rows: Column = np.where(np.isfinite(lengths), lengths >= self.cap * (1 - _NEAR_CEILING), np.nan)
        return rows

    @cached_property
    def cut_is_guessed(self) -> bool:
        """Tell whether `cut` has to come from the mean length alone."""
        return not self.has("completions/clipped_ratio") and self.has("completions/mean_length")

    @cached_property
    def live_gradients(self) -> tuple["Column", "Column"]:
        """Return steps and gradient norms of rows with a signal: where most groups are silent, norms are about 0."""
        import numpy as np

        norms = self.column("grad_norm")
        known = trends.present(self.silent)
        # A step that uses a generation again (num_iterations) logs no share: the one before holds for it.
        last = np.maximum.accumulate(np.where(known, np.arange(self.rows), 0)) if self.rows else known
        silent = np.nan_to_num(self.silent[last], nan=0.0) >= SILENT
        there = np.isfinite(norms) & ~silent & (norms > 0)
        return self.log.steps[there], norms[there]

    @cached_property
    def clips(self) -> float | None:
        """Return the mean share of tokens that the clip met; above 0 only off-policy. None where it was not logged.

        With num_iterations above 1 it stands in rows that have no reward.
        """
        import numpy as np

        _, share = self.held("clip_ratio/region_mean")
        return float(np.mean(share)) if len(share) else None

    @cached_property
    def off_policy(self) -> bool | None:
        """Tell whether ratios differ from 1, so that clipping and the level of ratios act; None where nothing tells."""
        if self.clips is not None and self.clips > 0:
            return True
        generations = self.option("num_iterations"), self.option("steps_per_generation")
        accumulation = self.option("gradient_accumulation_steps") or 1.0
        if (generations[0] or 1) > 1 or (generations[1] or 0) > accumulation:
            return True
        return False if self.clips is not None or any(value is not None for value in generations) else None

    @cached_property
    def at_ceiling(self) -> bool:
        """Tell whether the reward rose and has gone nine tenths of the way to its ceiling: solved.

        A reward that stays within 0 and 1 has its ceiling at 1, any other at the most that the log shows.
        """
        import numpy as np

        _, reward = self.held("reward")
        if len(reward) < 8 or self.reward_moves != "up":  # noqa: PLR2004
            return False
        low, high = float(np.min(reward)), float(np.max(reward))
        ceiling = 1.0 if low >= 0 and high <= 1 else high
        start = float(np.mean(reward[:3]))
        tail = float(np.mean(reward[-max(2, len(reward) // 4) :]))
        return tail - start >= SOLVED * (ceiling - start)

    @cached_property
    def components(self) -> dict[str, str]:
        """Return the components of the reward, name -> metric; none where the reward has one part alone."""
        found = {name: f"rewards/{name}/mean" for name in self.log.components}
        return found if len(found) > 1 else {}

    @cached_property
    def weights(self) -> dict[str, float]:
        """Return the weight of each component, by name; none where the options do not tell."""
        held, names = self.log.weights or self.options.get("reward_weights"), self.log.components
        if isinstance(held, Mapping):
            held = [held.get(name) for name in names]
        elif self.weights_lack_names:
            return {}
        if not isinstance(held, list | tuple) or len(held) != len(names):
            return {}
        known = all(isinstance(weight, int | float) and math.isfinite(weight) for weight in held)
        return dict(zip(names, held, strict=True)) if known else {}

    @cached_property
    def weights_lack_names(self) -> bool:
        """Tell whether weights are a list that fits no order: transformers writes its state with sorted names."""
        held, names = self.options.get("reward_weights"), list(self.log.components)
        if self.log.weights or not isinstance(held, list | tuple) or len(names) < 2:  # noqa: PLR2004  nothing to mix up
            return False
        return self.log.form in _SORTED_FORMS and names == sorted(names) and any(one != held[0] for one in held)

    @cached_property
    def ended(self) -> bool:
        """Tell whether all steps of the run are done, as far as log, options or the run's own record say."""
        last = self.option("max_steps")
        return self.log.ended or bool(self.rows and last is not None and 0 < last <= float(self.log.steps[-1]))

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """Return the components that are wanted: the caller's, else by name, else those that are not named as a form.

        A component of weight 0 goes before names: it is logged to be seen, and not trained on.
        Empty where no name tells, which the rules then treat as "any of them may be the one".
        """
        names = list(self.components)
        if self.goal is not None and self.goal in names:
            return (self.goal,)
        if watched := tuple(name for name, weight in self.weights.items() if weight == 0):
            return watched
        by_name = [name for name in names if is_wanted(name)]
        if by_name:
            return (min(by_name, key=_rank),)
        rest = [name for name in names if not _FORM.search(name.lower())]
        return tuple(rest) if len(rest) < len(names) else ()

    def second_half(self, values: "Column") -> "Column":
        """Return the numbers in the second half of the rows that hold one."""
        there = values[trends.present(values)]
        return there[len(there) // 2 :]

    def begins(self, values: "Column", least: float) -> float | None:
        """Return the step from which a metric is at least so high to the end; None where it never is."""
        there = trends.present(values)
        row = trends.begins(values[there], least)
        return None if row is None else float(self.log.steps[there][row])


def is_wanted(name: str) -> bool:
    """Tell whether a metric's name says that it is what a person wants, and no form of it."""
    return _rank(name) < len(_WANTED) and not _FORM.search(name.lower())


def _rank(name: str) -> int:
    """Return the place of the first pattern that a name meets: `correct` says more than `right`."""
    return next((place for place, part in enumerate(_WANTED) if re.search(part, name.lower())), len(_WANTED))
