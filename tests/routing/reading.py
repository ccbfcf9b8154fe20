"""Have a model, or a person, choose among the skills as a client's model does, and count what it chose.

python tests/routing/reading.py list > list.txt       the skills as a client lists them, then the requests by number
python tests/routing/reading.py count chosen.tsv      a line each: number, tab, full name of the skill or `none`

The list holds no answers, and its order tells nothing: what reads it can be any model that takes a long text. It is
the part of `claude plugin eval` that needs no client; what a client adds, its own tools and what was said before, is
not in it.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import requests_table
from requests_table import PLUGIN, Request

from llm_finetuning import statistics

ASK = """\
For each message below, by itself and from its words alone, write its number, a tab, and the full name of the one skill
that you would use first, or `none` if no skill of the list fits."""
NONE = "none"


def main(arguments: Sequence[str]) -> None:
    """Print the list, or the shares of what was chosen."""
    if list(arguments) == ["list"]:
        sys.stdout.write(listed())
    elif len(arguments) == 2 and arguments[0] == "count":
        sys.stdout.write("".join(line + "\n" for line in counted(chosen_in(Path(arguments[1])))))
    else:
        sys.exit(__doc__)


def shuffled() -> list[Request]:
    """Return all requests in the order of their numbers."""
    table = requests_table.requests()
    random.Random(0).shuffle(table)
    return table


def listed() -> str:
    """Return what is read: skills, then messages."""
    skills = [f"- {name}: {text}" for name, text in requests_table.listing().items()]
    random.Random(0).shuffle(skills)
    messages = [f"{number}\t{request.say}" for number, request in enumerate(shuffled(), 1)]
    return "\n".join(["The following skills are available:", "", *skills, "", ASK, "", *messages, ""])


def chosen_in(path: Path) -> dict[int, str]:
    """Return the names chosen, by number; ends the program where a message has none, or one that is not in the list."""
    pairs = (line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip())
    found = {int(number): name.strip() for number, name in pairs}
    wanted, names = set(range(1, len(shuffled()) + 1)), {*requests_table.listing(), NONE}
    if missing := sorted(wanted ^ found.keys()):
        sys.exit(
            f"{path}: no choice, or more than a list of {len(wanted)} has: {missing[:10]}; write one line a number"
        )
    if strange := sorted({*found.values()} - names):
        sys.exit(f"{path}: no skill of the list: {strange[:5]}; write full names, or `{NONE}`")
    return found


def is_right(request: Request, name: str) -> bool:
    """Tell whether the skill that a request is for was chosen; for none of ours, whether ours were left alone."""
    return name == f"{PLUGIN}:{request.skill}" if request.skill else not name.startswith(f"{PLUGIN}:")


def counted(found: dict[int, str]) -> list[str]:
    """Return a line for each part of the table, and one for each miss."""
    parts: dict[str, list[bool]] = {}
    missed = []
    for number, request in enumerate(shuffled(), 1):
        right = is_right(request, found[number])
        part = f"list {request.round}" if request.skill else "for none of ours"
        parts.setdefault(f"{request.language}, {part}", []).append(right)
        if not right:
            missed.append(f"  {request.say!r}: {found[number]}, not {request.skill or 'none of ours'}")
    lines = []
    for part, rights in sorted(parts.items()):
        rate = statistics.rate(sum(rights), len(rights))
        lines.append(f"{part}: {rate.hits} of {rate.n} right ({rate.low:.1%} to {rate.high:.1%})")
    return [*lines, *(["missed:", *missed] if missed else [])]


if __name__ == "__main__":
    main(sys.argv[1:])
