"""Write the table of requests as cases for `claude plugin eval`, which asks a real model.

python tests/routing/eval_suite.py [FOLDER] [--all]

Without `--all` it is the selection that is kept in `evals/`: for each skill one request in English, Chinese and
Japanese, and one near miss. It costs model calls; run it with an account of your own:

claude plugin eval . --ablation none --trust-plugin --no-publish
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import requests_table
from requests_table import PLUGIN, ROOT, SKILLS, Request

FOLDER = ROOT / "evals"


def main(arguments: Sequence[str]) -> None:
    """Write the cases, in place of those that are there."""
    named = [one for one in arguments if one != "--all"]
    folder = Path(named[0]) if named else FOLDER
    chosen = requests_table.requests() if "--all" in arguments else selection()
    if folder.exists():
        shutil.rmtree(folder)
    for path, text in files(chosen).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


def selection() -> list[Request]:
    """Return the requests that are kept as cases."""
    table = requests_table.requests()
    found = []
    for skill in SKILLS:
        found += [
            next(one for one in table if (one.skill, one.language) == (skill, language))
            for language in ("en", "zh", "ja")
        ]
        found.append(next(one for one in table if one.near == skill and one.skill is None))
    return found


def files(asked: Sequence[Request]) -> dict[str, str]:
    """Return the files of the cases, by their path in the folder."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for request in asked:
        stem = f"{request.language}-{request.skill or f'not-{request.near}'}"
        seen[stem] = seen.get(stem, 0) + 1
        case = f"{stem}-{seen[stem]:02}"
        found[f"{case}/prompt.md"] = _prompt(request)
        found.update({f"{case}/graders/{name}.md": text for name, text in _graders(request)})
    return found


def _prompt(request: Request) -> str:
    about = f"for {request.skill}" if request.skill else "for no skill of this plugin"
    head = [
        f"description: A request {about}.",
        f"tags: [routing, {request.language}]",
        "max_turns: 4",
        "timeout_seconds: 180",
        "allowed_tools: [Skill]",
    ]
    return "\n".join(["---", *head, "---", request.say, ""])


def _graders(request: Request) -> Iterator[tuple[str, str]]:
    if request.skill:
        yield "chosen", _grader(request.skill, "min: 1", "The skill that the request is for was used.")
    if request.near and request.skill:
        yield "not-near", _grader(request.near, "min: 0\nmax: 0", "The skill that it only sounds like was not used.")
    if request.skill is None:
        yield "none", _grader(None, "min: 0\nmax: 0", "No skill of this plugin was used.")


def _grader(skill: str | None, bounds: str, words: str) -> str:
    pattern = rf'"skill"\s*:\s*"(?:{PLUGIN}:)?{skill}"' if skill else rf'"skill"\s*:\s*"{PLUGIN}:'
    re.compile(pattern)
    quoted = json.dumps(pattern)
    return f"---\ntype: tool_used\ntool: Skill\ninput_match: {quoted}\n{bounds}\n---\n{words}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
