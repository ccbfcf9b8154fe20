"""Train a model with GRPO on rewards that a person inspected; start it as `python train.py`.

All that differs between runs stands in config.yaml; rewards/ holds the rewards as they were inspected, guards/ what
watches over the run. It goes on from the last whole checkpoint by itself. SIGTERM finishes the step, saves and stops.

Leaves logs/ (progress.jsonl, outcome.json, effective.yaml), checkpoints/, completions/ and, at the end, model/.
Exit codes: 0 finished, or stopped on request; 1 refused by the gate or stopped by a guard; 2 config or environment;
4 canary, full disk, other machinery.
"""

from pathlib import Path

from guards import ending, gate_check

HERE = Path(__file__).resolve().parent


def main(run: ending.Run) -> None:
    """Train, with everything that has to hold checked on the way."""
    # First of all, before anything else is imported: the files here are those that were built, byte for byte, and
    # the gate is open for the rewards, rows and options in them.
    brief = gate_check.check(HERE)

    from trl import GRPOTrainer

    from guards import (
        canary,
        completions,
        data,
        disk,
        end_tokens,
        interruption,
        last_step,
        options,
        progress,
        resume,
        rewards,
        stops,
    )

    # Every option is written out in config.yaml; one that this TRL does not have ends the run here.
    settings = options.load(HERE)
    args = options.trainer_config(settings)

    # The trainer gets prompts and row numbers; each reward gets the columns of its row as the file holds them.
    rows = data.Rows(settings)
    reward_funcs, watch = rewards.load(settings, brief, rows)

    # TRL loads the policy, makes the reference model (none with LoRA: the adapter is switched off) and the engine.
    run.trainer = trainer = GRPOTrainer(
        model=settings.model_source,
        reward_funcs=reward_funcs,
        args=args,
        train_dataset=rows.training_set(),
        eval_dataset=rows.held_out_set(),
        quantization_config=options.quantization_config(settings),
        peft_config=options.adapter_config(settings),
    )
    options.check_effective(settings, trainer)
    watch.end_tokens = frozenset(trainer.eos_token_ids)
    prompts = [row["prompt"] for row in rows.train[:2]]
    end_tokens.check(settings, trainer, prompts)

    # Both tables of a step are kept; prompts keep their order after a restart; the run stops with a reason; a
    # checkpoint has room; rollouts come from the weights that are trained.
    completions.keep(trainer, HERE)
    trainer.add_callback(resume.SameOrder(trainer))
    trainer.add_callback(progress.Progress(HERE))
    trainer.add_callback(last_step.LastStep())
    trainer.add_callback(interruption.Interruption(HERE))
    trainer.add_callback(stops.Stops(settings, trainer, watch))
    trainer.add_callback(disk.Room(HERE))
    if settings.guards["canary"]:
        trainer.add_callback(canary.Canary(trainer, prompts, float(settings.guards["canary_gap"])))

    # On from the last whole checkpoint, where there is one; the model is saved in model/. TRL drops an incomplete batch
    # of prompts and says nothing, so that no step at all ends the run.
    run.train(
        f"{settings.file}: not one step was trained: a step needs {args.generation_batch_size} completions, "
        f"{args.num_generations} a prompt, and there are {len(rows.train)} prompts; take a smaller batch"
    )


if __name__ == "__main__":
    with ending.recorded(HERE) as this_run:
        main(this_run)
