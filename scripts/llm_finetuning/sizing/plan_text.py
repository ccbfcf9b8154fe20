"""A plan as a person reads it in a terminal: a row a part and a column a phase, then time, change and notes."""

from pathlib import Path
from typing import Any

from llm_finetuning import console
from llm_finetuning.types import Plan


def lines_of(plan: Plan, run_dir: Path) -> list[str]:
    """Return the lines of a plan."""
    lines = [f"plan: {plan.verdict}: {plan.reason}"]
    if plan.device:
        lines.append(f"  free: {plan.device['free_gib']:.1f} GiB ({plan.device['words']})")
        lines += [*_layout_lines(plan.layout), ""]
    lines += _table(plan.phases)
    lines += _engine_lines(plan.engine)
    lines += _time_lines(plan.time)
    if plan.remedy:
        lines += ["", _remedy_line(plan.verdict, plan.remedy)]
        lines += [f"    {name}: costs {cost}" for name, cost in plan.remedy["costs"].items()]
    if plan.tried:
        lines.append("  tried, each with those before it:")
        lines += [f"    {one['gib']:6.1f} GiB  {one['verdict']:<13}+ {one['added']}" for one in plan.tried]
    lines += [f"  note: {note}" for note in plan.notes]
    return [*lines, "", f"wrote: {run_dir / 'plan.json'}", f"next: {plan.next_action}"]


def _layout_lines(layout: dict[str, Any] | None) -> list[str]:
    """Return which devices do what, and the batch."""
    if layout is None:
        return []
    held, times = layout["per_device_train_batch_size"], layout["gradient_accumulation_steps"]
    batch = f"  batch: {held} at once in each of {layout['processes']} process(es), {times} times a step"
    return [*(f"  {line}" for line in layout["devices"]), batch]


def _table(phases: list[dict[str, Any]]) -> list[str]:
    """Return a row a part and a column a phase, GiB of tensors; then the sums, their intervals, and what breaks."""
    if not phases:
        return []
    names = list(dict.fromkeys(part["name"] for phase in phases for part in phase["parts"]))
    sizes = [{part["name"]: f"{part['gib']:.1f}" for part in phase["parts"]} for phase in phases]
    rows = [(name, [column.get(name, "") for column in sizes]) for name in names]
    rows.append(("all, GiB", [f"{phase['gib']:.1f}" for phase in phases]))
    rows.append(("from", [f"{phase['low']:.1f}" for phase in phases]))
    rows.append(("to", [f"{phase['high']:.1f}" for phase in phases]))
    rows.append(("", ["BREAKS" if phase["breaks"] else "" for phase in phases]))
    heads = [phase["name"] for phase in phases]
    table = [("phase", heads), *rows]
    return [
        "".join(
            [f"  {name:<16}", *(f"  {cell:>{max(6, len(head))}}" for cell, head in zip(cells, heads, strict=True))]
        ).rstrip()
        for name, cells in table
        if name or any(cells)
    ]


def _engine_lines(engine: dict[str, Any] | None) -> list[str]:
    if engine is None:
        return []
    least, ample = engine["least"], engine["ample"]
    words = f"{least:.2f} holds one sequence of the longest length, {ample:.2f} all that are drawn at once"
    if engine["utilization"] is None:
        starts = "" if engine["starts"] is not False else "vLLM does not start on GPUs of its own; "
        return [f"  gpu_memory_utilization of the server: {starts}{words}"]
    starts = "" if engine["starts"] is not False else " vLLM does not start with it;"
    return [f"  vllm_gpu_memory_utilization is {engine['utilization']:g}:{starts} {words}"]


def _time_lines(time: dict[str, Any] | None) -> list[str]:
    """Return a row a phase of an optimizer step, then the step, the run and what holds them up."""
    if time is None:
        return []
    shape = "  {:<18}  {:>9}  {:>9}  {:>9}"
    lines = ["", shape.format("time of a step", "s", "from", "to")]
    rows = [*time["phases"], {"name": "all", **time["step"]}]
    lines += [shape.format(row["name"], *(f"{row[key]:.2f}" for key in ("seconds", "low", "high"))) for row in rows]
    said = f"  bottleneck: {time['bottleneck']}; {time['rates']['source']}"
    if time["run"] is None or not time["steps"]:
        return [*lines, said]
    likely, low, high = (console.duration(time["run"][key]) for key in ("seconds", "low", "high"))
    return [*lines, f"  {time['steps']} steps: {likely}, from {low} to {high}", said]


def _remedy_line(verdict: str, remedy: dict[str, Any]) -> str:
    what = "smallest change that fits" if verdict == "does not fit" else "for room to spare"
    return f"  {what}: {remedy['words']} ({remedy['gib']:.1f} GiB, {remedy['verdict']})"
