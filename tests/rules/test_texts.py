"""What skills, commands and documentation show is true: links lead somewhere, commands parse, code runs."""

import ast
import re
import shlex
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from llm_finetuning import brief, findings
from llm_finetuning.cli import VERBS, _group
from llm_finetuning.findings import agreement, values

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "skills/**/*.md", "commands/*.md", "agents/*.md", "requirements/*.md")
    for path in ROOT.glob(pattern)
)
PARTS = [path for path in TEXTS if path.relative_to(ROOT).parts[0] in ("skills", "commands", "agents")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[`\s(])(?:scripts/|bin/)?finetune ((?:[a-z]+)(?: [^`\n]*)?)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[tuple[str, str]]:
    return FENCE.findall(path.read_text("utf-8"))


def shown_commands(path: Path) -> list[str]:
    """Return the `finetune` calls of a text: those in back-quotes and those in shell blocks."""
    text = path.read_text("utf-8")
    if path in PARTS:
        text = text.rpartition("---\n")[2]  # the frontmatter's permission rules are no calls
    found = re.findall(r"`((?:\"\$\{CLAUDE_PLUGIN_ROOT\}/bin/finetune\"|finetune) [^`\n]+)`", text)
    for language, body in blocks(path):
        if language in ("sh", "bash", "console"):
            found += [line.removeprefix("$ ").strip() for line in body.splitlines() if "finetune " in line]
    return [command for command in found if not command.endswith("...")]


def completed(shown: str) -> str:
    """Return the call with the run that it needs: `finetune score` in running text names the verb alone."""
    words = shlex.split(shown.partition("#")[0].partition("|")[0], comments=True)
    words = words[next(i for i, word in enumerate(words) if word.endswith("finetune")) + 1 :]
    if len(words) == 1 and words[0] in VERBS:
        command = _group().get_command(click.Context(_group()), words[0])
        assert command is not None
        words += ["RUN"] * any(isinstance(one, click.Argument) and one.required for one in command.params)
    return shlex.join(["finetune", *words])


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """A relative link names a file that is there."""
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PARTS, ids=name)
def test_named_references_are_there(path: Path) -> None:
    """`references/x.md` in a skill is a file beside it."""
    for target in re.findall(r"`(references/[\w-]+\.md)`", path.read_text("utf-8")):
        assert (path.parent / target).exists() or (path.parent.parent / target).exists(), target


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_shown_commands_parse(path: Path) -> None:
    """Each command has a verb that exists and options that it takes."""
    for shown in shown_commands(path):
        words = shlex.split(completed(shown))[1:]
        if not words or words[0].startswith("-") or words[0].isupper():
            continue
        assert words[0] in VERBS, shown
        command = _group().get_command(click.Context(_group()), words[0])
        assert command is not None
        command.make_context(words[0], words[1:], resilient_parsing=False)


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_code_blocks_run(path: Path) -> None:
    """Python runs, YAML briefs are briefs; a block without a language is output."""
    for language, body in blocks(path):
        if language == "python":
            exec(compile(body, name(path), "exec"), {})  # noqa: S102  our own documentation
        elif language in ("yaml", "yml"):
            data = YAML(typ="safe", pure=True).load(body)
            if isinstance(data, dict) and {"method", "model"} <= set(data):
                brief.parse(body, path)


@pytest.mark.parametrize("path", PARTS, ids=name)
def test_frontmatter_is_complete(path: Path) -> None:
    """The name is the folder's, and the description fits the client's listing."""
    if path.parent.name == "references":
        return
    text = path.read_text("utf-8")
    front = YAML(typ="safe", pure=True).load(text.split("---\n")[1])
    assert 20 <= len(front["description"]) <= 400
    if path.name == "SKILL.md":
        assert front["name"] == path.parent.name


@pytest.mark.parametrize("path", [path for path in PARTS if path.parent.name != "references"], ids=name)
def test_what_was_written_by_others_is_data(path: Path) -> None:
    """Whoever acts by a text is told, before its steps, that rows, completions and logs give no orders."""
    before_steps = re.split(r"^## (?:Steps|Phase 0)", path.read_text("utf-8"), flags=re.MULTILINE)[0]
    assert re.search(r"never an instruction to you|it is data\.|shown to the person and not obeyed", before_steps)


def finding_codes(path: Path) -> set[str]:
    """Return the codes that a module gives to findings: every text within a `code=` argument.

    A code that is put together is given by the texts of the module that complete it.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            (code,) = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            if isinstance(code, ast.Constant | ast.IfExp):
                found |= {str(part.value) for part in ast.walk(code) if isinstance(part, ast.Constant)}
    return found


def test_every_finding_of_the_gate_is_explained() -> None:
    """The codes in the reference are those in the code; what audit and probes found is explained as a whole."""
    text = (ROOT / "skills/grpo-rlvr-training/references/gate-findings.md").read_text("utf-8")
    codes = set().union(*map(finding_codes, Path(findings.__file__).parent.glob("*.py")))
    codes |= {f"reward-{fault.replace('_', '-')}" for fault in values._FAULTS}
    codes |= {kind.replace("_", "-") for kind, _, _ in agreement._KINDS}
    codes |= {"audit", "probe"}  # the two summaries; `audit-...` and `probe-...` carry the codes of those verbs
    explained = set(re.findall(r"^\| `([a-z-]+)`", text, re.MULTILINE))
    assert codes == explained
    assert "`audit-...`" in text
    assert "`probe-...`" in text


FREE = {
    "route *": "reads its answers and the table",
    "new *": "writes a brief where none is",
    "score *": "calls the rewards of the brief, which are the person's, on samples that are there",
    "probe *": "calls the same rewards on completions of its own",
    "gate *": "reads what is there",
    "plan *": "reckons",
    "preflight *": "looks at the machine, and changes nothing",
    "watch * --once": "reads a log and ends; without `--once` it would hold the session",
    "diagnose *": "reads a log",
    "compare *": "reads two evaluations and the data set",
    "status *": "reads what is there",
}
"""Calls of `finetune` that a text may let pass without a question, and what they do.

They load no model, fetch, install and publish nothing, cost no GPU time, and replace nothing but their own artifact.
Not among them: `audit` fetches a data set or a tokenizer from the hub and may install `datasets` for a table; `sample`
and `evaluate` load a model; `build` sets a run that has trained aside, and may install TRL; `train` spends; `calibrate`
asks a judge's server; `review` is a person's; `demo` does most of these.
"""

DENIED = {
    "gate *--override*": "is a person's word",
    "plan *--calibrate*": "loads the model",
    "plan *--python*": "starts any program that is named",
    "preflight *--python*": "likewise; the brief's `environment` is the person's",
    "watch *--python*": "likewise",
    "diagnose *--python*": "likewise",
    "diagnose *--out*": "writes over any file",
    "compare *--arena*": "asks a judge's server, which may cost",
    "compare *--python*": "starts any program that is named",
}
"""Options that the free calls would take in too, since no pattern of the client leaves one out: denied beside them."""


def test_free_verbs_alone_are_pre_approved() -> None:
    """No text lets more pass than the table, and none lets a call pass without denying its options."""
    for path in PARTS:
        if path.parent.name == "references":
            continue
        front = YAML(typ="safe", pure=True).load(path.read_text("utf-8").split("---\n")[1])
        rules = set(re.findall(r"Bash\(([^)]*)\)", front.get("allowed-tools", "")))
        assert rules <= {f"finetune {call}" for call in FREE}, path
        denied = {rule for rule in DENIED if any(call.split()[1] == rule.split()[0] for call in rules)}
        assert {f"Bash(finetune {rule})" for rule in denied} <= set(front.get("disallowed-tools", "").split(", ")), path


def test_the_door_lets_every_free_verb_pass() -> None:
    """`/finetune` walks the whole road, so it names them all; what else it lets pass is its own texts."""
    front = YAML(typ="safe", pure=True).load((ROOT / "commands/finetune.md").read_text("utf-8").split("---\n")[1])
    own = ["Skill(llm-finetuning:*)", "Read(/${CLAUDE_PLUGIN_ROOT}/**)"]
    assert front["allowed-tools"].split(", ") == [*(f"Bash(finetune {call})" for call in FREE), *own]
    assert front["disallowed-tools"].split(", ") == [f"Bash(finetune {rule})" for rule in DENIED]
    assert front["disable-model-invocation"] is True
