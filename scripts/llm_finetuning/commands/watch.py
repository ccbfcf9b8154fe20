"""`finetune watch`: a run while it trains, with alarms by the rules of `diagnose`; it never changes a run."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, Refusal

if TYPE_CHECKING:
    from llm_finetuning.live_view import View
    from llm_finetuning.run_watcher import RunWatcher

POLL_S = 0.2
PAGE_EVERY_S = 5

Show = Callable[["RunWatcher"], None]


@click.command("watch", short_help="Show a run while it trains, with alarms")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Print the state as it is now, and end.")
@click.option("--serve", is_flag=True, help="Also show the diagnosis as a page on this machine, renewed as it goes.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the page; a free one when left out.")
@click.option("--goal", metavar="NAME", help="The component of the reward that is wanted.")
@click.option("--moe/--dense", "moe", default=None, help="Whether the model is a mixture of experts.")
@options.python
@options.as_json
def command(path: Path, once: bool, serve: bool, port: int, as_json: bool, **known: Any) -> int:
    """Watch a run: a run directory, a trainer's output folder or a log file that is being written.

    Shows the reward and its components, groups with a signal, length and cuts, entropy, KL, ratios, the time of a step
    and what is left, the newest completions, and alarms by the same rules as `diagnose`. It reads, and changes nothing.
    Where no reward is logged, as by SFT, it shows the loss, the gradient norm and the learning rate, without alarms.
    Before the first step it shows what the held-out rows were measured at, and says that no step has been taken.
    A finished run is shown once, in its final state. Where there is no terminal, or a dumb one, it prints one block and
    then a line a step. --json prints the state as it is now. Ctrl-C ends it, and the run goes on.
    """
    from llm_finetuning.run_watcher import RunWatcher

    if serve and (once or as_json):
        raise Refusal("--serve: shows a page until Ctrl-C, which --once and --json do not wait for; leave one out")
    watcher = RunWatcher(path, **{**known, "moe": _experts(path) if known["moe"] is None else known["moe"]})
    if once or as_json:
        found = watcher.look()
        assert found is not None  # the first look answers or refuses
        _finish(found, as_json=as_json)
        return EXIT_DONE
    with ExitStack() as held:
        address = held.enter_context(_page(watcher, port)) if serve else ""
        with _screen(address) if _is_terminal() else _lines() as show:
            _follow(watcher, show)
        assert watcher.view is not None  # what has ended was shown
        _finish(watcher.view, as_json=False)
        while serve:  # the page of a run that has ended stays until Ctrl-C
            time.sleep(POLL_S)
    return EXIT_DONE


def _experts(path: Path) -> bool | None:
    """Return whether the run's model is a mixture of experts, as `diagnose` takes it; None where nobody says."""
    from llm_finetuning import brief
    from llm_finetuning.commands import diagnose

    try:
        return diagnose.has_experts(brief.load(path))
    except Refusal:  # no run of ours, or a brief that was changed since: watching needs none
        return None


def _follow(watcher: "RunWatcher", show: Show) -> None:
    """Show the run until it has ended; Ctrl-C goes on to whoever called."""
    while watcher.view is None or watcher.view.reached.state != "ended":
        if watcher.look(patient=True) is not None:
            show(watcher)
        time.sleep(POLL_S)


def _is_terminal() -> bool:
    """Tell whether a screen can be drawn; over ssh it can, in a pipe or a log it cannot."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _finish(found: "View", *, as_json: bool) -> None:
    """Print the state as a block, or as one JSON object; in ASCII where there is no terminal that shows more."""
    import dataclasses

    from llm_finetuning import live_view

    # What else a table of completions holds may be anything.
    kept = tuple(dataclasses.replace(row, columns={}) for row in found.completions)
    found = dataclasses.replace(found, completions=kept)
    lines = live_view.block(found)
    if not _is_terminal():
        lines = [live_view.ascii_only(console.visible(line)) for line in lines]
    console.finish(lines, dataclasses.asdict(found), as_json=as_json)


@contextmanager
def _lines() -> Iterator[Show]:
    """Yield what prints the state once and then a line for each new step, in ASCII alone."""
    from llm_finetuning import live_view

    reached: float | None = None
    verdict = head = ""

    def show(watcher: "RunWatcher") -> None:
        nonlocal reached, verdict, head
        assert watcher.found is not None
        log, found = watcher.found
        if reached is None:
            if found.reached.state != "ended":  # of one that has, the final state is all
                _say(live_view.block(found))
        else:
            step = found.reached.step
            # The steps of a run that was set back to a checkpoint are new again.
            rows = live_view.rows_after(log, reached if step >= reached else step - 1)
            _say([line for _, line in rows])
            if _verdict(found) != verdict:
                _say([f"{kind}: {words}" for kind, words in live_view.alarms(found)])
            if not found.has_steps and found.reached.state != "ended" and live_view.head(found) != head:
                _say([live_view.head(found)])  # what it does, while there is no step to show
        reached, verdict, head = found.reached.step, _verdict(found), live_view.head(found)

    yield show


def _verdict(found: "View") -> str:
    return found.diagnosis.verdict if found.diagnosis is not None else ""


def _say(lines: list[str]) -> None:
    from llm_finetuning import live_view

    sys.stdout.write("".join(f"{live_view.ascii_only(live_view.one_line(line))}\n" for line in lines))
    sys.stdout.flush()


@contextmanager
def _screen(address: str) -> Iterator[Show]:
    """Yield what draws the state over the last one; the screen that was there before comes back at the end."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from llm_finetuning import live_view

    terminal = Console(stderr=True, highlight=False)
    top = Text(f"{f'page: {address}   ' if address else ''}Ctrl-C ends this, not the run", style="dim")
    waiting = Text("nothing is logged yet; waiting")
    with Live(Group(top, waiting), console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        live.refresh()

        def show(watcher: "RunWatcher") -> None:
            assert watcher.view is not None
            drawn = live_view.screen(watcher.view, plain=terminal.options.ascii_only)
            live.update(Group(top, drawn), refresh=True)

        yield show


@contextmanager
def _page(watcher: "RunWatcher", port: int) -> Iterator[str]:
    """Serve the diagnosis as it stands, renewed where the run was looked at again; yield the page's address."""
    from llm_finetuning.web import diagnosis_report
    from llm_finetuning.web.live_page import serving

    made: tuple[View | None, str] = (None, "")

    def page() -> tuple[str, int | None]:
        nonlocal made
        if watcher.found is None:
            return _WAITING, PAGE_EVERY_S
        log, found = watcher.found
        if found is not made[0]:
            made = (found, diagnosis_report.render(log, found.diagnosis) if found.diagnosis else _plain(found))
        return made[1], None if found.reached.state == "ended" else PAGE_EVERY_S

    with serving(page, port=port) as address:
        console.note(f"watch at: {address}\nCtrl-C here ends it; the run goes on")
        yield address


def _plain(found: "View") -> str:
    """Return the page of a run that no rule is about: what the terminal shows."""
    import html

    from llm_finetuning import live_view

    lines = html.escape("\n".join(live_view.block(found)))
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Training</title><pre>{lines}</pre>'


_WAITING = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Waiting</title><p>Nothing is logged yet.'
