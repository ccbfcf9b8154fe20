"""`finetune review`: a person reads samples and labels them; the rewards stay hidden meanwhile."""

import getpass
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_finetuning import console, keyboard
from llm_finetuning.commands import options
from llm_finetuning.errors import Refusal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from llm_finetuning.artifact import Appender
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.types import Label, Reading, Sample, Score, Verdict

VERDICTS: dict[str, "Verdict"] = {"a": "accept", "r": "reject", "u": "unsure"}
KEYS = "a accept   r reject   u unsure   n note   k back   q stop"
_BACK = ("k", "b")  # `b` was its name in earlier versions
_SAID: dict["Verdict", str] = {"accept": "accepted", "reject": "rejected", "unsure": "left unsure"}

READS = 60  # completions that are asked for: the 50 that the gate wants, and some to be unsure of

LOCK_WAIT_S = 5.0  # for another reader's label to be written

PROGRAM_READER = "oracle"  # the demo's reader; a person may not take its name


@click.command("review", short_help="Read samples and label them")
@options.run_dir
@click.option("--reader", help="Your name in the labels; the login name when left out.")
@click.option("--count", default=READS, show_default=True, type=click.IntRange(1), help="How many samples to read.")
@click.option("--terminal", is_flag=True, help="Read in this terminal instead of a page in the browser.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the page; a free one when left out.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in the browser of this machine.")
@click.option(
    "--import", "import_file", type=click.Path(path_type=Path, dir_okay=False), help="Take labels from a CSV file."
)
@click.option(
    "--export",
    "export_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what you are asked to read to a new CSV file, to be filled and imported.",
)
@options.as_json
def command(
    run_dir: Path,
    reader: str | None,
    count: int,
    terminal: bool,
    port: int,
    opens: bool,
    import_file: Path | None,
    export_file: Path | None,
    as_json: bool,
) -> int:
    """Read samples one by one and label each: accept, reject or unsure.

    Judge the completion alone, as if no reward existed; what the rewards paid is shown after you have decided, in the
    terminal where you go back with `k`. The page is served on this machine alone, under an address with a random key;
    Ctrl-C ends it. Every label is on the disk before the next sample appears. Labels are a person's: an agent does not
    run this for you.

    The CSV of --import has the columns sample_id and verdict, and may have note and reader; commas, semicolons or tabs
    separate it. A verdict is accept, reject or unsure, or its first letter. Rows without one, or that say what is known
    already, add nothing. --export writes such a file of the samples that the page would show, with their texts, without
    what the rewards paid: fill `verdict` and, if you like, `note`. Leave `seen` as it is: by it the import knows that
    the text is still the same, and for which part of the statistics it was drawn. There an apostrophe stands before
    what a spreadsheet would take for a formula or a date; the import reads ids with it and without.
    """
    from llm_finetuning.commands import status

    if export_file:
        if import_file or terminal:
            raise Refusal(f"--export and {'--import' if import_file else '--terminal'}: name one of them")
        facts = export_readings(run_dir, export_file, reader, count)
        console.finish(_exported_lines(facts, run_dir), facts, as_json=as_json)
        return 0
    if import_file:
        facts = import_labels(run_dir, import_file, reader)
    elif terminal:
        facts = read_in_terminal(run_dir, reader, count)
    else:
        facts = read_in_page(run_dir, reader, count, port, opens=opens)
    lines = [
        f"{_added(facts)}, {facts['judged']} of {facts['samples']} samples judged",
        *([f"wrote: {facts['wrote']}"] if facts["added"] else []),
        f"next: {status.next_command(run_dir)}",
    ]
    console.finish(lines, facts, as_json=as_json)
    return 0


def _added(facts: dict[str, Any]) -> str:
    by = f"reader{'s' if len(facts['readers']) > 1 else ''} {', '.join(facts['readers'])}"
    words = [f"{facts['added']} labels added ({by})"]
    words += [f"{facts['unchanged']} unchanged"] if facts.get("unchanged") else []
    words += [f"{facts['skipped']} rows without a verdict skipped"] if facts.get("skipped") else []
    return ", ".join(words)


def _exported_lines(facts: dict[str, Any], run_dir: Path) -> list[str]:
    from llm_finetuning import artifact

    again = artifact.shell_line("review", run_dir, "--import", facts["wrote"], "--reader", facts["reader"])
    lines = [f"{facts['exported']} samples to read: {facts['random']} drawn at random, {facts['chosen']} chosen"]
    if facts["long"]:
        lines.append(f"note: too long for a spreadsheet's cell, read it on the page: {', '.join(facts['long'])}")
    return [*lines, f"wrote: {facts['wrote']}", f"next: fill the column `verdict`, then `{again}`"]


def add_labels(run_dir: Path, make: Callable[["Appender[Label]", Sequence["Sample"]], None]) -> dict[str, Any]:
    """Open the labels, let `make` append to them, and return the facts."""
    from llm_finetuning import brief, lineage

    loaded = brief.load(run_dir)
    samples = lineage.complete_samples(loaded).records
    with _open_labels(loaded) as appender:
        before = len(appender.records)
        make(appender, samples)
        return {
            "added": len(appender.records) - before,
            "judged": len(lineage.judged(samples, appender.records)),
            "samples": len(samples),
            "wrote": str(run_dir / "labels.jsonl"),
        }


def _open_labels(loaded: "LoadedBrief") -> "AbstractContextManager[Appender[Label]]":
    from llm_finetuning import artifact
    from llm_finetuning.types import Label

    path = loaded.run_dir / "labels.jsonl"
    if path.exists() and artifact.ends_cut(path):
        console.note(
            f"{path}: its last line is half written, as by a killed writer; it is cut off, label that one again"
        )
    # No parents: each label carries the digest of what was on screen, so labels outlive a change elsewhere.
    return artifact.appending(path, artifact.header_for(path, {}), Label)


def _reader_name(name: str | None) -> str:
    try:
        chosen = (name or getpass.getuser()).strip()
    except (KeyError, OSError):  # a container's user without an entry in the password file
        chosen = ""
    if not chosen:
        raise Refusal("review: who reads? give your name with `--reader NAME`")
    if chosen.casefold() == PROGRAM_READER:
        raise Refusal(f"--reader {chosen!r}: is the demo's program, not a person; give your own name")
    return chosen


# --- labels made elsewhere ------------------------------------------------------------------------------------------


def import_labels(run_dir: Path, file: Path, reader: str | None) -> dict[str, Any]:
    """Take labels from a CSV file; all of them or, if a row is wrong, none."""
    from llm_finetuning import label_table, labelling, lineage

    told: dict[str, Any] = {}

    def make(appender: "Appender[Label]", samples: Sequence["Sample"]) -> None:
        found = label_table.read(file, samples, appender.records, lambda name: _reader_name(name or reader))
        if found.unsigned and not reader:
            seen = lineage.seen_digests(samples)
            console.note(f"{file}: {labelling.taken_as(_reader_name(None), found.unsigned, appender.records, seen)}")
        appender.append(found.labels)
        told.update(readers=found.readers, unchanged=found.unchanged, skipped=found.skipped)

    return {**add_labels(run_dir, make), **told}


def export_readings(run_dir: Path, file: Path, reader: str | None, count: int) -> dict[str, Any]:
    """Write what this reader is still asked to read to a CSV file, and return the facts."""
    from llm_finetuning import brief, label_table, labelling, lineage

    loaded = brief.load(run_dir)
    samples = lineage.complete_samples(loaded).records
    name, labels = _reader_name(reader), lineage.labels(loaded)
    known = {sample.sample_id: sample for sample in samples}
    read = labelling.standing_of(name, labels, lineage.seen_digests(samples))
    chosen = labelling.to_read(loaded, samples, labels, name, count)
    left = [item for item in chosen if item.sample_id not in read]
    if not left:
        raise Refusal(f"--export: {name} has read all {len(chosen)} samples already; ask for more with `--count`")
    long = label_table.write(file, left, known)
    parts = {part: sum(item.part == part for item in left) for part in ("random", "chosen")}
    return {"exported": len(left), **parts, "reader": name, "long": long, "wrote": str(file)}


# --- the page -------------------------------------------------------------------------------------------------------


def read_in_page(run_dir: Path, reader: str | None, count: int, port: int, *, opens: bool) -> dict[str, Any]:
    """Serve the page until Ctrl-C and return the facts; each label is appended by itself, so that two readers can."""
    import threading

    from llm_finetuning import brief, lineage
    from llm_finetuning.commands import status
    from llm_finetuning.web.desk import Desk
    from llm_finetuning.web.review_page import serve

    lock, added = threading.Lock(), 0
    loaded = brief.load(run_dir)

    def write(labels: Sequence["Label"]) -> None:
        with _open_labels(loaded) as appender:
            appender.append(labels)

    def append(labels: Sequence["Label"]) -> None:
        nonlocal added
        with lock:
            _patiently(lambda: write(labels))
            added += len(labels)

    name = _reader_name(reader)
    desk = Desk(run_dir, name, count, append, lambda: status.next_command(run_dir))
    append([])  # an unwritable folder is said now, not at the first label
    serve(desk, port=port, announce=lambda address: _announce(address, opens=opens))
    samples = lineage.complete_samples(loaded).records
    return {
        "added": added,
        "readers": [name],
        "judged": len(lineage.judged(samples, lineage.labels(loaded))),
        "samples": len(samples),
        "wrote": str(run_dir / "labels.jsonl"),
    }


def _patiently(write: Callable[[], Any]) -> None:
    """Write, waiting a moment where another reader is writing just now."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            write()
        except Refusal:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _announce(address: str, *, opens: bool) -> None:
    import webbrowser

    console.note(f"read at: {address}\nCtrl-C here ends it; every label is on the disk as soon as the page says so")
    if opens and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
        webbrowser.open(address)


# --- the terminal form ----------------------------------------------------------------------------------------------


def read_in_terminal(run_dir: Path, reader: str | None, count: int) -> dict[str, Any]:
    """Show one sample a screen and append a label at each decision."""
    from llm_finetuning import brief, lineage
    from llm_finetuning.labelling import scores_of, to_read

    loaded = brief.load(run_dir)
    lineage.complete_samples(loaded)  # nothing to read is the first thing to mend
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refusal(
            "review --terminal: needs a terminal, since a person has to read; run it in one, read in the browser "
            "without `--terminal`, or bring labels made elsewhere with `--import FILE.csv`"
        )
    name = _reader_name(reader)

    def make(appender: "Appender[Label]", samples: Sequence["Sample"]) -> None:
        with keyboard.single_keys():
            by_id = {sample.sample_id: sample for sample in samples}
            chosen = to_read(loaded, list(samples), appender.records, name, count)
            scores = scores_of(loaded, list(samples))
            told = {item.sample_id: _paid(item, scores.get(item.sample_id)) for item in chosen}
            _read_all(appender, [(by_id[item.sample_id], item) for item in chosen], told, name)

    return {**add_labels(run_dir, make), "readers": [name]}


def _paid(reading: "Reading", score: "Score | None") -> str:
    """Return what the rewards paid, and why it is read, as a reader sees it who has decided; nothing unscored."""
    if score is None:
        return ""
    lines = [f"chosen for reading: {reading.why}"] if reading.why else []
    for value in score.values:
        paid = "abstained" if value.value is None else f"{value.value:.4g}"
        lines.append(f"{value.name}: {paid}{f' ({value.reason})' if value.reason else ''}")
    return "\n".join([*lines, f"weighted sum: {'none' if score.reward is None else f'{score.reward:.4g}'}"])


def _read_all(
    appender: "Appender[Label]", chosen: Sequence[tuple["Sample", "Reading"]], paid: dict[str, str], reader: str
) -> None:
    from llm_finetuning import lineage
    from llm_finetuning.labelling import label_for, standing_of

    seen = lineage.seen_digests(sample for sample, _ in chosen)

    def mine() -> dict[str, "Label"]:
        return standing_of(reader, appender.records, seen)

    place = next((i for i, (sample, _) in enumerate(chosen) if sample.sample_id not in mine()), len(chosen))
    note = pressed = ""
    while place < len(chosen):
        sample, reading = chosen[place]
        label = mine().get(sample.sample_id)
        _show(sample, f"sample {place + 1} of {len(chosen)}")
        _show_label(label, note, paid[sample.sample_id] if label else "")  # before the decision it would sway
        _show_keys(pressed)
        key, pressed = keyboard.key(), ""
        if key in VERDICTS:
            rest = {"reader": reader, "note": note, "source": "terminal", "part": reading.part}
            appender.append([label_for(sample, VERDICTS[key], **rest)])
            place, note = place + 1, ""
        elif key == "n":
            note = keyboard.line("note: ")
        elif key in _BACK:
            place, note = max(0, place - 1), ""
        elif key in ("q", "\x03", "\x04", "end"):
            return
        else:
            pressed = key
    _close(mine())


def _close(labels: "dict[str, Label]") -> None:
    """Take the last sample off the screen with the keys that were meant for more, and say how all were labelled."""
    from collections import Counter

    from rich.console import Console

    keyboard.drop()
    Console(stderr=True).clear()
    counts = Counter(label.verdict for label in labels.values())
    words = ", ".join(f"{counts[verdict]} {said}" for verdict, said in _SAID.items() if counts[verdict])
    console.note(f"all {len(labels)} samples are read: {words}")


def _show(sample: "Sample", place: str) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    from llm_finetuning.findings.wording import text_of

    screen = Console(stderr=True, highlight=False)
    screen.clear()
    name = console.visible(sample.sample_id)
    screen.print(Text(f"{place}   {name}   {sample.tokens} tokens", style="bold"))
    # Text, never markup: a completion that holds [bold] or an escape sequence is shown, not obeyed.
    screen.print(Panel(Text(console.visible(text_of(sample.prompt))), title="prompt", title_align="left"))
    if sample.columns.get("answer") is not None:
        screen.print(Panel(Text(console.visible(str(sample.columns["answer"]))), title="gold", title_align="left"))
    ending = "" if sample.finish_reason == "stop" else " (cut at the cap)"
    screen.print(
        Panel(Text(console.visible(text_of(sample.completion))), title="completion" + ending, title_align="left")
    )


def _show_label(label: "Label | None", note: str, paid: str) -> None:
    """Show the reader's label, what the rewards paid for it, and the note that is begun."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    screen = Console(stderr=True, highlight=False)
    if paid:
        screen.print(Panel(Text(console.visible(paid)), title="what the rewards paid", title_align="left"))
    if label is not None:
        screen.print(Text(f"your label: {label.verdict} {console.visible(label.note)}", style="italic"))
    if note:
        screen.print(Text(f"note: {console.visible(note)}", style="italic"))


def _show_keys(pressed: str) -> None:
    """Show which keys there are, after one that is none of them with its name."""
    from rich.console import Console
    from rich.text import Text

    screen = Console(stderr=True, highlight=False)
    if pressed:
        named = pressed if pressed.isprintable() and not pressed.isspace() else repr(pressed)
        screen.print(Text(f"no such key: {console.visible(named)}; there are", style="bold"))
    screen.print(Text(KEYS, style="bold" if pressed else "dim"))
