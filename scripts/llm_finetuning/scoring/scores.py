"""Call composed rewards as the trainer will, and tell where one of them would end a training run."""

import contextlib
import inspect
import sys
from collections.abc import Sequence

from llm_finetuning import console, lineage, watching
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import layout
from llm_finetuning.rewards import composition
from llm_finetuning.stages import score as stage
from llm_finetuning.types import Component, Sample, Score


def scores_of(
    loaded: LoadedBrief,
    components: Sequence[Component],
    samples: Sequence[Sample],
    *,
    mend: str = "TRL would stop there, so mend the reward and score again",
) -> list[Score]:
    """Return what the composed reward pays for each sample; refuses for a reward that TRL would die of.

    `mend` is the mending half of that refusal.
    """
    check_ids(loaded, components, samples)
    composition.make_ready(components)
    aggregation = stage.Aggregation(**lineage.objective_options(loaded))
    with contextlib.ExitStack() as stack:
        for folder in composition.folders_of(loaded):  # a reward may import its neighbours when it is called
            stack.enter_context(composition.importable_from(folder))
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # a reward that prints must not spoil --json
        told = [stack.enter_context(console.progress("scoring", len(samples)))]
        if any(wanted.file is not None for wanted in loaded.brief.rewards):
            told.append(stack.enter_context(watching.watched(str(loaded.run_dir), len(samples))))

        def tell(count: int) -> None:
            for one in told:
                one(count)

        try:
            return stage.score(
                samples,
                components,
                completions_per_call=completions_per_call(loaded),
                aggregation=aggregation,
                on_progress=tell,
            )
        except stage.RewardFault as fault:
            raise Refusal(f"{_fault_line(loaded, fault)}; {mend}") from None


def completions_per_call(loaded: LoadedBrief) -> int:
    """Return how many completions a reward is called with: what one trainer process draws at once, or one group."""
    return max(int(loaded.brief.sampling.num_generations), layout.of_brief(loaded.brief).completions_per_call)


def check_ids(loaded: LoadedBrief, components: Sequence[Component], samples: Sequence[Sample]) -> None:
    """Refuse a reward that names `completion_ids` when the server did not say them."""
    if all(sample.completion_ids is not None for sample in samples):
        return
    for component in components:
        try:
            names = inspect.signature(component.function).parameters
        except (TypeError, ValueError):
            continue
        if "completion_ids" in names:
            raise Refusal(
                f"{loaded.run_dir / 'samples.jsonl'}: `{component.name}` reads completion_ids, which this server does "
                "not return; sample with `engine: vllm` or `engine: transformers`"
            )


def _fault_line(loaded: LoadedBrief, fault: stage.RewardFault) -> str:
    place = f"reward `{fault.reward}`"
    for wanted in loaded.brief.rewards:
        if wanted.file is not None and fault.cause is not None:
            path = loaded.resolve(wanted.file.rpartition(":")[0])
            found = composition.place_of(fault.cause, path)
            if found != str(path):
                place = f"{found}: reward `{fault.reward}`"
    first = fault.samples[0]
    which = f"sample {first.sample_id} (data set row {first.row})"
    if len(fault.samples) > 1:
        which += f" and {len(fault.samples) - 1} more in one call"
    return f"{place}: {fault.words}: on {which}"
