"""`finetune new`: a commented brief to edit, or the brief of the run that follows on another."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from llm_finetuning import console
from llm_finetuning.commands import options
from llm_finetuning.errors import EXIT_DONE, EXIT_NO, Refusal

if TYPE_CHECKING:
    from llm_finetuning.brief import LoadedBrief
    from llm_finetuning.diagnosis.record import Diagnosis

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "brief"

METHODS = ("grpo", "sft", "dpo", "kto", "orpo", "simpo")

_PARTS = {
    "prompt": "the task",
    "completion": "the right answer",
    "chosen": "the better answer",
    "rejected": "the worse answer",
}
_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """What the next brief is to say in place of the one before it; None leaves it."""

    method: str | None = None
    model: str | None = None
    dataset: str | None = None


@click.command("new", short_help="Write a commented brief for a method")
@options.run_dir
@click.option("--method", type=click.Choice(METHODS), default="grpo", show_default=True)
@click.option("--model", default="HuggingFaceTB/SmolLM2-135M-Instruct", show_default=True, help="Hub id or folder.")
@click.option("--dataset", default="data/train.jsonl", show_default=True, help="JSONL, CSV, Parquet or hub id.")
@click.option("--from", "source", type=options.RUN_DIR, metavar="RUN", help="Copy the brief of this run.")
@click.option("--apply", "applies", is_flag=True, help="With --from: make the one change that its diagnosis advises.")
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    run_dir: Path,
    method: str,
    model: str,
    dataset: str,
    source: Path | None,
    applies: bool,
    as_json: bool,
) -> int:
    """Write RUN_DIR/brief.yaml, which you edit; the data set and reward files of your own are yours to write too.

    Relative paths in a brief start from the folder that it stands in. With --from the brief is that of another run,
    whose files it names where they are: --model and --dataset change that one thing, and --method writes a brief of
    that method with the model, the rows, the sampling and the machine of the other. With --apply the next run differs
    by what `finetune diagnose` advised, and by nothing else. Exit code 1: the advice is to change nothing, or nothing
    that a brief says.
    """
    from llm_finetuning.commands import status

    if source is not None:
        typed = {"method": method, "model": model, "dataset": dataset}
        given = {name: value for name, value in typed.items() if _is_given(context, name)}
        if given and applies:
            raise Refusal(f"--{min(given)}: --apply makes the one change that was advised; leave out one of the two")
        code, facts = follow(run_dir, source, applies=applies, instead=Instead(**given))
        console.finish(_lines(facts), facts, as_json=as_json)
        return code
    if applies:
        raise Refusal("--apply: needs the run whose diagnosis it applies; add `--from RUN`")
    path = write(run_dir, method=method, model=model, dataset=dataset)
    facts = {"wrote": str(path), "method": method, "next": status.next_command(run_dir)}
    console.finish([f"wrote: {path}", f"next: {facts['next']}"], facts, as_json=as_json)
    return EXIT_DONE


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


_AS_IT_IS = Instead()


def follow(run_dir: Path, source: Path, *, applies: bool, instead: Instead = _AS_IT_IS) -> tuple[int, dict[str, Any]]:
    """Write the brief of a run that follows on another; return the exit code and the facts.

    Refuses to overwrite a brief, to apply a diagnosis that is not there or is of another state of the run, and rows
    that lack what another method reads.
    """
    from llm_finetuning import artifact, brief, next_brief
    from llm_finetuning.commands import diagnose

    path = _free(run_dir)
    loaded = brief.load(source)
    text = (loaded.run_dir / brief.FILE_NAME).read_text("utf-8-sig")
    facts: dict[str, Any] = {"from": str(source)}
    changes: list[str] = []
    if applies:
        found = diagnose.current(loaded)
        advice = found.advice
        facts |= {"verdict": found.verdict, "advice": advice.change, "checkpoint": found.checkpoint}
        changed = next_brief.advised(text, advice, found.text)
        if not changed.changes:
            return EXIT_NO, {
                **facts,
                "because": advice.because,
                "wrote": None,
                **_by_hand(run_dir, source, found),
            }
        text, changes = changed.text, changed.changes
    _check_places(run_dir, instead)
    if instead.method not in (None, loaded.brief.method):
        text, facts["left_out"] = _of_method(str(instead.method), loaded, run_dir, instead.dataset)
        named = brief.LoadedBrief(brief.parse(text, path), loaded.run_dir)
        facts["method"] = instead.method
    else:
        named = loaded
    new = {"model": instead.model, "dataset.path": instead.dataset}
    moved = next_brief.moved(text, named, run_dir, but=[name for name, value in new.items() if value is not None])
    pointed = next_brief.pointed(moved.text, model=instead.model, path=instead.dataset)
    made = brief.LoadedBrief(brief.parse(pointed.text, path), run_dir.resolve())  # one that we refuse is a defect
    artifact.write_text(path, pointed.text)
    facts |= {"wrote": str(path), "changed": [*changes, *pointed.changes], "paths": moved.changes}
    facts |= {"wanting": list(_wanting(made, loaded)), "next": artifact.shell_line("audit", run_dir)}
    if facts.get("method") == "sft":
        facts["then"] = _way_back(run_dir, source)
    return EXIT_DONE, facts


def _of_method(method: str, loaded: "LoadedBrief", run_dir: Path, path: str | None) -> tuple[str, list[str]]:
    """Return the brief of another method, seen from the source's folder, and what of the source it has no use for."""
    from llm_finetuning import next_brief

    rows = next_brief.rows_for(method, loaded, run_dir.resolve(), path)
    template = _template(run_dir, method=method, model=loaded.brief.model, dataset=rows.path)
    made = next_brief.of_method(template, loaded, rows)
    return made.text, made.changes


def _check_places(run_dir: Path, instead: Instead) -> None:
    """Refuse a path that is right from here and wrong from the new brief's folder, and an adapter for a model."""
    for option, given in (("model", instead.model), ("dataset", instead.dataset)):
        if given is None:
            continue
        here = Path(given).expanduser()
        seen = (run_dir.resolve() / here).resolve()  # the folder need not be there yet, so `..` is taken by name
        if not seen.exists() and here.exists():
            right = os.path.relpath(here.resolve(), run_dir.resolve())
            raise Refusal(f"--{option} {given}: a brief's paths start from its own folder, {run_dir}; write {right}")
        if option == "model" and (seen / "adapter_config.json").is_file() and not (seen / "config.json").is_file():
            raise Refusal(f"--model {given}: holds an adapter, no model; {_merged_instead(seen, run_dir)}")


def _merged_instead(adapter: Path, run_dir: Path) -> str:
    """Return how an adapter's folder becomes one that a brief may name as its model."""
    from llm_finetuning import artifact
    from llm_finetuning.checkpoints import FINAL, MERGED

    trained_in = adapter.parents[1]
    if adapter != trained_in / FINAL or not (trained_in / "brief.yaml").is_file():
        return "merge it into its base model and name that"
    merged = os.path.relpath(trained_in / MERGED, run_dir.resolve())
    return f"`{artifact.shell_line('merge', Path(os.path.relpath(trained_in)))}` makes one of it: --model {merged}"


def _wanting(made: "LoadedBrief", source: "LoadedBrief") -> Iterator[str]:
    """Yield a line for the model folder and for the rows of a new brief that are still to come."""
    from llm_finetuning import dataset
    from llm_finetuning.brief import COLUMNS_BY_METHOD

    model = Path(made.model_source())
    if model.is_absolute() and not model.exists():
        yield f"{model} is not there yet"
    path = made.resolve(made.brief.dataset.path)
    if dataset.is_file(made) and not path.exists():
        wanted = made.brief.dataset
        of_text = _has_text(source)
        row = {getattr(wanted, role): _part(role, of_text=of_text) for role in COLUMNS_BY_METHOD[made.brief.method]}
        yield f"{path} is not there yet; one row of it: {json.dumps(row)}"


def _has_text(source: "LoadedBrief") -> bool:
    """Tell whether the prompts of a run's rows are known to be text; chat messages otherwise."""
    from llm_finetuning import dataset

    if dataset.needs_program(source):
        return False
    try:
        return isinstance(dataset.read(source).rows[0].prompt, str)
    except Refusal:  # what is wrong with the rows of the run before is that run's audit to say
        return False


def _part(role: str, *, of_text: bool) -> Any:
    """Return what stands under a column of a row that is shown: the prompt's form, or whether a completion was good."""
    if role == "label":
        return True
    return _PARTS[role] if of_text else [{"role": _ROLES[role], "content": _PARTS[role]}]


def _way_back(run_dir: Path, source: Path) -> str:
    """Return the command that takes the model of an SFT run into the run that it was made for."""
    from llm_finetuning import artifact
    from llm_finetuning.checkpoints import FINAL

    after = source.with_name(f"{source.resolve().name}-after")
    model = os.path.relpath((run_dir / FINAL).resolve(), after.resolve())
    return artifact.shell_line("new", after, "--from", str(source), "--model", model)


def _by_hand(run_dir: Path, source: Path, found: "Diagnosis") -> dict[str, str]:
    """Return the command that follows on advice that changes no option of the brief, and why it does."""
    from llm_finetuning import artifact
    from llm_finetuning.diagnosis.advice import KEEP

    if found.advice.change == KEEP:
        return {"next": artifact.shell_line("evaluate", source, "--checkpoint", "last")}
    if found.advice.options or found.advice.variant:
        return {"why": "the brief says so already", "next": artifact.shell_line("diagnose", source)}
    return {
        "why": "it is no option of a brief: copy the brief, then make that change yourself",
        "next": artifact.shell_line("new", run_dir, "--from", str(source)),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = []
    if "advice" in facts:
        lines.append(f"advice for {facts['from']} ({facts['verdict'].replace('_', ' ')}): {facts['advice']}")
    if facts["wrote"] is None:
        why = f": {facts['why']}" if "why" in facts else ""
        lines += [f"  because {facts['because']}", f"wrote nothing{why}"]
    else:
        lines.append(f"wrote: {facts['wrote']}")
        lines += [f"  changed: {change}" for change in facts["changed"]]
        lines += [f"  {path} (where it was)" for path in facts["paths"]]
        if facts.get("left_out"):
            lines.append(f"  left out of a brief of method {facts['method']}: {', '.join(facts['left_out'])}")
        lines += [f"  {line}" for line in facts["wanting"]]
        if "then" in facts:
            lines.append(f"  when it is trained, the run before goes on from its model: {facts['then']}")
        if facts.get("checkpoint"):
            step, why = facts["checkpoint"]["step"], facts["checkpoint"]["why"]
            lines.append(f"  to go on from a checkpoint: one at or before step {step:g} as `model:` ({why})")
    return [*lines, f"next: {facts['next']}"]


def write(run_dir: Path, *, method: str, model: str, dataset: str) -> Path:
    """Write the brief and return its path; refuses to overwrite one."""
    from llm_finetuning import artifact, brief

    path = _free(run_dir)
    text = _template(run_dir, method=method, model=model, dataset=dataset)
    brief.parse(text, path)  # a brief of ours that we would refuse is a defect
    artifact.write_text(path, text)
    return path


def _template(run_dir: Path, *, method: str, model: str, dataset: str) -> str:
    """Return the commented brief of a method."""
    values = {"name": _name(run_dir), "method": method, "model": json.dumps(model), "dataset": json.dumps(dataset)}
    return "".join(
        Template((TEMPLATES / part).read_text("utf-8")).substitute(values)
        for part in ("head.yaml", f"{method}.yaml", "tail.yaml")
    )


def is_as_written(loaded: "LoadedBrief") -> bool:
    """Tell whether a brief is the template of its method still, with nothing in it that `new` was not told."""
    from llm_finetuning import brief

    said = loaded.brief
    template = _template(loaded.run_dir, method=said.method, model=said.model, dataset=said.dataset.path)
    return (loaded.run_dir / brief.FILE_NAME).read_text("utf-8-sig") == template


def _free(run_dir: Path) -> Path:
    from llm_finetuning import brief

    path = run_dir / brief.FILE_NAME
    if path.exists():
        raise Refusal(f"{path}: is there already; edit it, or choose another folder")
    return path


def _name(run_dir: Path) -> str:
    kept = "".join(
        letter if (letter.isalnum() and letter.isascii()) or letter in "_.-" else "-"
        for letter in run_dir.resolve().name
    )
    return kept.strip("-._") or "run"
