"""The tasks of the benchmark, by name."""

from gate_bench.tasks import boxed, choice, code, countdown, extract, gsm, sums, think, tools
from gate_bench.tasks.task import Task

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK for module in (sums, gsm, boxed, choice, extract, tools, think, countdown, code)
}
