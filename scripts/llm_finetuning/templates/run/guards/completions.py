"""TRL's tables of completions, kept in completions/ of the run, one file a log, evaluations beside training.

TRL writes both under one name, so that an evaluation at step N takes the place of the table of step N, mixed with what
was left of it. Here each evaluation gets a table of its own, with all of its rows.
"""

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

TRAINING, EVALUATION = "completions", "evaluation"


def keep(trainer: Any, here: Path) -> None:
    """Let the trainer's log and evaluation leave their tables in completions/."""
    if not trainer.log_completions:
        return
    log, evaluate = trainer.log, trainer.evaluate
    kind = TRAINING

    def logging(logs: dict[str, float], start_time: float | None = None) -> None:
        log(logs, start_time)  # adds TRL's metrics to `logs`
        # A step that reuses its completions, and the summary at the end, write the last table once more.
        fresh = "reward" in logs or "eval_reward" in logs
        _move(trainer, here, kind if fresh else None)

    def evaluating(*arguments: Any, **keywords: Any) -> Any:
        nonlocal kind
        logs, trainer._logs = trainer._logs, _unbounded(trainer._logs)  # noqa: SLF001  TRL's tables in the making
        kind = EVALUATION
        try:
            return evaluate(*arguments, **keywords)
        finally:
            trainer._logs = logs  # noqa: SLF001
            kind = TRAINING

    trainer.log, trainer.evaluate = logging, evaluating


def _unbounded(logs: dict[str, Any]) -> dict[str, Any]:
    """Return empty tables of the same columns, without the limit that a training batch has."""
    return {name: defaultdict(deque) if isinstance(column, dict) else deque() for name, column in logs.items()}


def _move(trainer: Any, here: Path, kind: str | None) -> None:
    """Take the table that was just written out of TRL's folder; without a kind it is thrown away."""
    if not trainer.accelerator.is_main_process:
        return
    step = f"{trainer.state.global_step:05d}.parquet"
    written = Path(trainer.args.output_dir) / "completions" / f"completions_{step}"
    if kind is None:
        written.unlink(missing_ok=True)
    elif written.is_file():
        folder = here / "completions"
        folder.mkdir(exist_ok=True)
        written.replace(folder / f"{kind}_{step}")
