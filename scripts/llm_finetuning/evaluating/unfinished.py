"""Evaluations that a kill left unfinished, and the one command that goes on with each."""

from pathlib import Path

from llm_finetuning import artifact, pipeline
from llm_finetuning.brief import LoadedBrief, SamplingBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating import calls, turn
from llm_finetuning.types import Sample


def names(run_dir: Path) -> list[str]:
    """Return the evaluations, `.drift` among their names, that have completions and no result."""
    folder = run_dir / "eval"
    begun = {path.name.removesuffix(pipeline.TRANSCRIPTS) for path in folder.glob(f"*{pipeline.TRANSCRIPTS}")}
    return sorted(begun - {path.stem for path in folder.glob("*.json")})


def command(run_dir: Path, loaded: LoadedBrief) -> str | None:
    """Return the line that goes on with the first of them; None where there is none.

    Left out are those that another process is making now, those that cannot be read, and those that were drawn as the
    brief no longer says, which no command goes on with.
    """
    for name in names(run_dir):
        try:
            found = artifact.read_lines(
                run_dir / f"eval/{name}{pipeline.TRANSCRIPTS}", Sample, without=["completion_ids"]
            )
        except Refusal:
            continue
        is_drift = name.endswith(pipeline.DRIFT)
        plain = name.removesuffix(pipeline.DRIFT)
        is_made_now = turn.is_taken(run_dir / pipeline.evaluation_file(plain, "goldens"))
        if is_made_now or not _is_drawn_as_said(loaded, found.header, is_drift=is_drift):
            continue
        settings = found.header.settings
        usual, options = calls.model_options(
            loaded, loaded.run_dir, str(settings.get("model")), settings.get(calls.SERVER)
        )
        if usual != plain:
            options = [*options, "--name", plain]
        if is_drift:
            options = ["--suite", "drift", *options]
        elif settings["sampling"].get("temperature") == 0:
            options.append("--greedy")
        elif (samples := settings["sampling"].get("samples")) != loaded.brief.sampling.num_generations:
            options += ["--samples", str(samples)]
        return artifact.shell_line("evaluate", run_dir, *options)
    return None


def _is_drawn_as_said(loaded: LoadedBrief, header: artifact.Header, *, is_drift: bool) -> bool:
    """Tell whether the brief still says what the completions were drawn with; weights and rows are not read for it."""
    from llm_finetuning.evaluating.general import PLAIN
    from llm_finetuning.sampling import drawing

    sampling: SamplingBrief = loaded.brief.sampling
    if is_drift:
        sampling = sampling.model_copy(update={**PLAIN, "seed": 0})
    said = header.settings.get("sampling")
    engine = "endpoint" if calls.SERVER in header.settings else sampling.engine
    now = {**drawing.drawn_with(sampling), "chat_template_kwargs": sampling.chat_template_kwargs}
    if not isinstance(said, dict) or any(said.get(key) != value for key, value in now.items()):
        return False
    warm = is_drift or said.get("temperature") in (0, sampling.temperature)
    parents = {"seed": artifact.digest_value(sampling.seed), "engine": artifact.digest_value(engine)}
    return warm and all(header.parents.get(key) == value for key, value in parents.items())
