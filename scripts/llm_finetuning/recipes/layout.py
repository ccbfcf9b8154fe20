"""How many completions are drawn and trained on at once: TRL's batch rules, and layouts that satisfy them.

Rules: TRL 1.16.0, `GRPOConfig.__post_init__` and `GRPOTrainer.get_train_dataloader`. A batch counts completions, not
prompts. One generation draws `per_device x processes x steps_per_generation` completions, which must be whole groups of
`num_generations`; rows that do not fill a generation are dropped, silently.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_finetuning.recipes import variants

if TYPE_CHECKING:
    from llm_finetuning.brief import Brief

PER_DEVICE = 8  # completions
ACCUMULATION = 4  # micro-batches an optimizer step
PROMPTS = 4  # of one device, an optimizer step
LEAST_SIGNAL = 8  # generations a prompt below which most groups carry no signal
SUGGESTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A batch layout; every number is at least 1."""

    per_device: int  # completions of one forward and backward pass of one process
    processes: int  # of the trainer, over all machines
    accumulation: int  # micro-batches an optimizer step
    steps_per_generation: int  # micro-batches drawn at once
    group: int  # completions a prompt

    @property
    def generation_batch(self) -> int:
        """Completions drawn at once, by all processes."""
        return self.per_device * self.processes * self.steps_per_generation

    @property
    def completions_per_call(self) -> int:
        """Completions drawn at once by one process, and so those that a reward is called with."""
        return self.per_device * self.steps_per_generation

    @property
    def prompts_per_generation(self) -> int:
        """Prompts of one generation; whole where the layout is valid."""
        return self.generation_batch // self.group

    @property
    def prompts_per_step(self) -> float:
        """Prompts that one optimizer step sees; a fraction where it sees part of a group."""
        return self.per_device * self.processes * self.accumulation / self.group

    @property
    def is_valid(self) -> bool:
        """Tell whether a generation holds whole groups."""
        return self.generation_batch % self.group == 0

    def options(self) -> dict[str, int]:
        """Return the layout in TRL's names."""
        return {
            "per_device_train_batch_size": self.per_device,
            "gradient_accumulation_steps": self.accumulation,
            "steps_per_generation": self.steps_per_generation,
        }

    def words(self) -> str:
        """Return what the layout costs and gives, for a person."""
        prompts = f"{self.prompts_per_step:g} prompt{'' if self.prompts_per_step == 1 else 's'} an optimizer step"
        held = f"{self.per_device} completion{'' if self.per_device == 1 else 's'} held at once a device"
        return f"{prompts}, {held} to train and {self.completions_per_call} to generate"


def of_brief(brief: "Brief", processes: int | None = None) -> Layout:
    """Return the batch layout of a brief; without `processes`, on as many as its `hardware` says."""
    if processes is None:
        processes = processes_of(brief.hardware, brief.training)
    off_policy = variants.off_policy_of(variants.use_of(brief))
    return layout_of(brief.training, brief.sampling.num_generations, processes, off_policy=off_policy)


def processes_of(hardware: str, training: Mapping[str, Any]) -> int:
    """Return the trainer's processes, as far as the brief says them: with `auto` there is one until the run is built.

    The text is one that the brief takes; where its shape has faults, `build` names them.
    """
    from llm_finetuning.errors import Refusal
    from llm_finetuning.recipes import shapes

    if hardware.strip().lower() == "auto":
        return 1
    try:
        return shapes.shape_for(shapes.machine_of(hardware), "grpo", training).processes
    except Refusal:
        return 1


def layout_of(training: Mapping[str, Any], group: int, processes: int, *, off_policy: int = 1) -> Layout:
    """Return the brief's layout, with the recipe for what it leaves open; it may be invalid: see `faults`.

    Named values are kept. The recipe has 8 completions a device and 4 micro-batches a step, and more micro-batches
    where these do not hold whole groups of 4 prompts a device: as many prompts in less memory, or of larger groups.
    `off_policy` is the number of optimizer steps that one generation serves.
    """
    device = training.get("per_device_train_batch_size") or _per_device(training, group, processes, off_policy)
    accumulation = training.get("gradient_accumulation_steps") or _accumulation(training, device, group, off_policy)
    steps = training.get("steps_per_generation") or off_policy * accumulation
    if "generation_batch_size" in training and "steps_per_generation" not in training:
        steps = max(1, training["generation_batch_size"] // (device * processes))
    return Layout(
        per_device=device, processes=processes, accumulation=accumulation, steps_per_generation=steps, group=group
    )


def _per_device(training: Mapping[str, Any], group: int, processes: int, off_policy: int) -> int:
    """Return the most completions a device up to the recipe's with which the options given make whole groups."""
    if "generation_batch_size" in training:
        fitting = [n for n in range(1, PER_DEVICE + 1) if training["generation_batch_size"] % (n * processes) == 0]
        return max(fitting, default=PER_DEVICE)
    steps = training.get("steps_per_generation") or off_policy * training.get("gradient_accumulation_steps", 0)
    if not steps:
        return PER_DEVICE
    unit = group // math.gcd(group, processes * steps)
    return max(unit, PER_DEVICE // unit * unit)


def _accumulation(training: Mapping[str, Any], device: int, group: int, off_policy: int) -> int:
    """Return the fewest micro-batches that make whole groups of the recipe's number of prompts in each process."""
    if "steps_per_generation" in training and off_policy > 1:
        return max(1, int(training["steps_per_generation"]) // off_policy)
    completions = PER_DEVICE * ACCUMULATION
    wanted = max(completions, PROMPTS * group)
    if "generation_batch_size" in training or "steps_per_generation" in training:
        return max(1, completions // device)
    unit = group // math.gcd(group, device * off_policy)
    fewest = -(-wanted // (device * off_policy))
    return -(-fewest // unit) * unit


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule of TRL that a layout breaks."""

    option: str  # of the brief's `training`, where it is told
    what: str
    mend: str
    rows: bool = False  # too few rows, not a batch of another size


def faults(layout: Layout, training: Mapping[str, Any], rows: int | None = None) -> Iterator[Fault]:
    """Yield the rule of TRL that the layout breaks, if any; `rows` are the training rows, where known."""
    each = layout.per_device * layout.processes
    generation = training.get("generation_batch_size")
    if generation is not None and "steps_per_generation" in training:
        what = "TRL refuses it beside `steps_per_generation`"
        yield Fault("generation_batch_size", what, "leave one of them out")
    elif generation is not None and generation % each:
        what = (
            f"{generation} completions are no multiple of the {each} completions a step of all devices; TRL refuses it"
        )
        yield Fault("generation_batch_size", what, f"leave it out and {said(nearest(layout))}")
    elif not layout.is_valid:
        what = (
            f"a generation batch of {layout.generation_batch} completions is no multiple of num_generations "
            f"{layout.group}; TRL refuses it"
        )
        out = "leave `generation_batch_size` out and " if generation is not None else ""
        yield Fault(_named(training), what, out + said(nearest(layout)))
    elif rows is not None and rows < layout.prompts_per_generation:
        what = (
            f"{rows} rows are fewer than the {layout.prompts_per_generation} prompts of one generation batch: TRL "
            "trains zero steps and exits 0"
        )
        yield Fault(_named(training), what, f"add rows{_smaller(layout, rows)}", rows=True)


def _named(training: Mapping[str, Any]) -> str:
    """Return the option of the brief that a fault of the batch is told at."""
    order = ("generation_batch_size", "steps_per_generation", "gradient_accumulation_steps")
    return next((name for name in order if name in training), "per_device_train_batch_size")


def _smaller(layout: Layout, rows: int) -> str:
    fitting = [one for one in _around(layout) if one.is_valid and one.prompts_per_generation <= rows]
    fitting.sort(key=lambda one: (-one.prompts_per_generation, -one.per_device))
    return f", or write {_option_text(fitting[0])} ({fitting[0].words()})" if rows and fitting else ""


def nearest(layout: Layout) -> list[Layout]:
    """Return the valid layouts nearest to one that is not: first those of the same memory, then of the same steps.

    They keep the groups and the processes, and how many optimizer steps a generation serves.
    """
    same = [one for one in _around(layout) if one.is_valid]
    wanted = layout.per_device * layout.accumulation

    def distance(one: Layout) -> tuple[float, bool, int]:
        # Prompts a step may differ a little; memory is what a layout is chosen for.
        return (
            abs(math.log(one.per_device * one.accumulation / wanted)),
            one.per_device > layout.per_device,
            one.per_device,
        )

    of_memory = sorted((one for one in same if one.per_device == layout.per_device), key=distance)
    others = sorted((one for one in same if one.per_device != layout.per_device), key=distance)
    return [*of_memory[: SUGGESTIONS - 1], *others][:SUGGESTIONS]


def _around(layout: Layout) -> Iterator[Layout]:
    """Yield layouts of the same group and processes, with more and fewer completions a device and micro-batches."""
    ratio = max(1, layout.steps_per_generation // layout.accumulation)
    devices = {layout.per_device, layout.group, *(size for size in (1, 2, 4, 8, 16, 32) if size <= 4 * layout.group)}
    for device in sorted(devices):
        unit = layout.group // math.gcd(layout.group, device * layout.processes * ratio)
        near = layout.accumulation // unit
        for accumulation in sorted({unit, *(unit * k for k in (near - 1, near, near + 1) if k >= 1)}):
            yield replace(
                layout, per_device=device, accumulation=accumulation, steps_per_generation=accumulation * ratio
            )


def drawn_words(layout: Layout, rows: int) -> str:
    """Return what a layout draws of so many rows, for a person."""
    left = rows % layout.prompts_per_generation
    return (
        f"one generation batch takes {layout.prompts_per_generation} prompts, one optimiser step sees "
        f"{layout.prompts_per_step:g}, on {layout.processes} trainer process(es); {left} of {rows} rows are left over "
        "each epoch"
    )


def said(layouts: Sequence[Layout]) -> str:
    """Return layouts as a person writes them, with what each gives."""
    return "write " + "; or ".join(f"{_option_text(one)} ({one.words()})" for one in layouts)


def _option_text(layout: Layout) -> str:
    options = layout.options()
    if layout.steps_per_generation == layout.accumulation:
        del options["steps_per_generation"]
    return "`" + ", ".join(f"{name}: {value}" for name, value in options.items()) + "`"


def steps_of(layout: Layout, rows: int, *, epochs: float = 1.0, max_steps: int = -1, iterations: int = 1) -> int:
    """Return how many optimizer steps TRL and transformers take; 0 where the rows fill no generation."""
    generations = rows // layout.prompts_per_generation
    micro_batches = generations * layout.steps_per_generation * iterations
    if not micro_batches:
        return 0
    if max_steps > 0:
        return max_steps
    return math.ceil(epochs * -(-micro_batches // layout.accumulation))


def eval_batch(group: int, processes: int, wanted: int) -> int:
    """Return the completions a device of an evaluation: whole groups over all processes, near the wanted number."""
    unit = group // math.gcd(group, processes)
    return max(unit, wanted // unit * unit)


def eval_faults(training: Mapping[str, Any], group: int, processes: int) -> Iterator[Fault]:
    """Yield a fault where an evaluation's batch does not hold whole groups; TRL refuses it."""
    size = training.get("per_device_eval_batch_size")
    if size is not None and size * processes % group:
        fitting = eval_batch(group, processes, size)
        what = (
            f"{size} completions on {processes} processes are no multiple of num_generations_eval {group}; TRL refuses "
            "it"
        )
        yield Fault("per_device_eval_batch_size", what, f"write `per_device_eval_batch_size: {fitting}`")


def share_with_signal(passed: float, group: int) -> float:
    """Return the share of groups whose completions do not all pass or all fail, where every prompt passes alike.

    `passed` is the pass rate, 0 to 1. Prompts of different difficulty give less; the gate counts those that are there.
    """
    return 1.0 - passed**group - (1.0 - passed) ** group
