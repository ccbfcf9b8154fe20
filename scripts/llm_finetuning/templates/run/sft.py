"""Fine-tune a model on the completions of a data set; start it as `python train.py`.

All that differs between runs stands in config.yaml. It goes on from the last whole checkpoint by itself. SIGTERM
finishes the step, saves and stops.

Leaves logs/ (progress.jsonl, outcome.json, effective.yaml), checkpoints/ and, at the end, model/.
Exit codes: 0 finished, or stopped on request; 1 not what was built, or stopped by a guard; 2 config or environment;
4 full disk, other machinery.
"""

from pathlib import Path

from guards import ending, gate_check

HERE = Path(__file__).resolve().parent

COLUMNS = ("prompt", "completion")


def main(run: ending.Run) -> None:
    """Train, with everything that has to hold checked on the way."""
    # First of all, before anything else is imported: the files here are those that were built, byte for byte.
    gate_check.check(HERE)

    from trl import SFTTrainer

    from guards import data, disk, interruption, last_step, offline_rows, options, progress

    # Every option is written out in config.yaml; one that this TRL does not have ends the run here.
    settings = options.load(HERE)
    args = options.trainer_config(settings)
    rows = data.Rows(settings)

    run.trainer = trainer = SFTTrainer(
        model=settings.model_source,
        args=args,
        train_dataset=offline_rows.table(rows.train, COLUMNS),
        eval_dataset=offline_rows.table(rows.held_out, COLUMNS) if rows.held_out else None,
        quantization_config=options.quantization_config(settings),
        peft_config=options.adapter_config(settings),
    )
    options.check_effective(settings, trainer)
    offline_rows.say_what_is_cut(trainer, args.max_length)

    trainer.add_callback(progress.Progress(HERE))
    trainer.add_callback(last_step.LastStep())
    trainer.add_callback(interruption.Interruption(HERE))
    trainer.add_callback(disk.Room(HERE))

    # On from the last whole checkpoint, where there is one; the model is saved in model/.
    run.train(f"{settings.file}: not one step was trained on {len(rows.train)} rows; take a smaller batch")


if __name__ == "__main__":
    with ending.recorded(HERE) as this_run:
        main(this_run)
