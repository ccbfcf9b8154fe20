"""The command line: a table of verbs, and one place where a refusal becomes one line and an exit code."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from llm_finetuning import version
from llm_finetuning.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, EXIT_MACHINERY, Stop

if TYPE_CHECKING:
    import click

VERBS: Mapping[str, tuple[str, str]] = {  # help lives here, so that --help imports no command
    "route": ("llm_finetuning.commands.route", "Choose a method, or the way out of training"),
    "new": ("llm_finetuning.commands.new", "Write a commented brief for a method"),
    "audit": ("llm_finetuning.commands.audit", "Find the data set's faults before sampling"),
    "sample": ("llm_finetuning.commands.sample", "Sample completions of the base model"),
    "score": ("llm_finetuning.commands.score", "Score the samples as the trainer will"),
    "probe": ("llm_finetuning.commands.probe", "Attack the reward, and try right work in other forms"),
    "review": ("llm_finetuning.commands.review", "Read samples and label them"),
    "calibrate": ("llm_finetuning.commands.calibrate", "Measure a rubric judge against people's labels"),
    "gate": ("llm_finetuning.commands.gate", "Decide whether the reward may be trained on"),
    "pairs": ("llm_finetuning.commands.pairs", "Write preference data from graded samples"),
    "plan": ("llm_finetuning.commands.plan", "Say whether the run fits the machine"),
    "preflight": ("llm_finetuning.commands.preflight", "Try on this machine what training needs"),
    "build": ("llm_finetuning.commands.build", "Write a folder that trains this run anywhere"),
    "train": ("llm_finetuning.commands.train", "Start the built run in the background, or stop it"),
    "watch": ("llm_finetuning.commands.watch", "Show a run while it trains, with alarms"),
    "diagnose": ("llm_finetuning.commands.diagnose", "Say what a training log shows"),
    "merge": ("llm_finetuning.commands.merge", "Write a trained LoRA adapter into its base model"),
    "evaluate": ("llm_finetuning.commands.evaluate", "Measure a model on the held-out rows"),
    "compare": ("llm_finetuning.commands.compare", "Decide whether a candidate takes the base's place"),
    "export": ("llm_finetuning.commands.export", "Write an evaluation for inspect-ai or as Parquet"),
    "status": ("llm_finetuning.commands.status", "Show where a run stands and the next command"),
    "demo": ("llm_finetuning.commands.demo", "Walk the road once on a real model and a wrong reward"),
}


MEANT: Mapping[tuple[str, str], str] = {  # an option that is not there, where the nearest in spelling is not meant
    ("evaluate", "--no-drift"): "--suite goldens",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; an unexpected exception keeps its traceback, because it is our bug."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except ImportError as error:
        from llm_finetuning.environment import repair_and_restart

        return repair_and_restart(error)
    except BrokenPipeError:  # `finetune ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except Exception:  # noqa: BLE001  a defect of ours: the traceback is for the report, the code for the caller
        import traceback

        traceback.print_exc()
        sys.stderr.write("finetune: this is a defect of finetune, not of your input; report it with the lines above\n")
        return EXIT_MACHINERY


def _run(arguments: list[str]) -> int:
    import click

    try:
        return int(_group().main(arguments, prog_name="finetune", standalone_mode=False) or EXIT_DONE)
    except Stop as stop:
        return _stopped(arguments, _as_typed(stop.lines, arguments), stop.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stdout.write(error.format_message() + "\n")
        return EXIT_DONE
    except click.ClickException as error:
        called = getattr(getattr(error, "ctx", None), "command_path", "finetune")
        words = error.format_message().rstrip(".")
        if meant := MEANT.get((called.rpartition(" ")[2], getattr(error, "option_name", ""))):
            words = f"{words.partition(' Did you mean ')[0].rstrip('.')}; did you mean `{meant}`?"
        return _stopped(arguments, [f"{words}; see `{called} --help`"], EXIT_BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return _stopped(arguments, ["interrupted; what was written is kept, run it again to go on"], EXIT_INTERRUPTED)


def _as_typed(lines: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return what is said of a folder that was typed by the name that was typed."""
    from pathlib import Path

    from llm_finetuning import as_given

    folders = [Path(word) for word in arguments[1:] if not word.startswith("-") and Path(word).is_dir()]
    said = list(lines)
    for folder in folders:
        said = [as_given.said(line, folder) for line in said]
    return said


def _stopped(arguments: Sequence[str], lines: list[str], code: int) -> int:
    from llm_finetuning.console import visible

    if "--json" in arguments:
        sys.stdout.write(json.dumps({"exit": code, "faults": lines}) + "\n")
    for line in lines:
        sys.stderr.write(f"finetune: {visible(line)}\n")
    return code


def _group() -> "click.Group":
    import click

    class Verbs(click.Group):
        """A group that imports the module of the chosen verb alone."""

        def list_commands(self, ctx: click.Context) -> list[str]:
            del ctx
            return list(VERBS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            del ctx
            if cmd_name not in VERBS:
                return None
            command: click.Command = import_module(VERBS[cmd_name][0]).command
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            if args and args[0] not in VERBS and not args[0].startswith("-"):
                import difflib

                close = difflib.get_close_matches(args[0], VERBS, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(VERBS)}"
                raise click.UsageError(f"no verb `{args[0]}`; {hint}")
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            del ctx
            with formatter.section("Verbs, in the order of the road"):
                formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])

    group = Verbs(name="finetune", help="Prove a reward before a GPU hour is spent on it, then train with it.")
    return click.version_option(version(), prog_name="finetune")(group)
