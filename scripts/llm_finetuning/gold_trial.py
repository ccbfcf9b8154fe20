"""Call the composed reward with every row's gold, before any completion of the model is there.

Two passes. The first hands the library's rewards an empty completion of every row: they abstain, and say why, where a
gold, a schema or the tests of a row cannot be read. The second writes golds in the honest forms of `probes/forms.py`
and tells whether they are paid more than wrong answers. Judges are not asked: each answer costs a call of a server.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_finetuning.brief import LoadedBrief, RewardBrief
from llm_finetuning.findings.abstentions import DATA_REASONS
from llm_finetuning.probes import prompts, reference
from llm_finetuning.probes.case import Prompt
from llm_finetuning.probes.forms import THOUGHT
from llm_finetuning.probes.trial import Trial
from llm_finetuning.stages import score as stage
from llm_finetuning.stages.audit import GoldReading, is_empty
from llm_finetuning.types import Component, Probe, Row, Sample, Score, Text

FORM_ROWS = 2000  # rows whose gold is written out and paid for, evenly spread over the data set
OWN_ROWS = 480  # the same where a reward is the user's own, whose cost is not known
PROGRAM_ROWS = 48  # the same where each is a program that the sandbox runs
CALL_ROWS = 512  # rows of one call of the first pass
SLICE_ROWS = 240  # rows of one search for the form that is paid
OPEN_ROWS = 6  # rows on which completions with and without an opening tag are compared

_COSTLY = "rubric_judge"
_RUNS_PROGRAMS = "unit_tests"
_IDS = [2]  # stands for a completion's tokens


def read_golds(
    loaded: LoadedBrief, components: Sequence[Component], rows: Sequence[Row], *, per_call: int, open_thought: bool
) -> tuple[GoldReading, list[str]]:
    """Return what the rewards made of the rows' golds, and notes on what was left out."""
    notes = _left_out(loaded, components)
    whole, raised = _callable(_without_judges(loaded, components), rows)
    library = [component for component in whole if component in _of_library(loaded, components)]
    unreadable = _abstentions(library, rows) if library else {}
    bad = {row for found in unreadable.values() for row in found}
    column = gold_column(loaded, whole, rows)
    usable = [row for row in rows if row.row not in bad and not (column and is_empty(row.columns.get(column)))]
    reading = GoldReading(tried=0, unreadable=unreadable, raised=raised)
    if not whole or not usable:
        return reading, notes
    most = min(_most(wanted) for wanted in loaded.brief.rewards)
    step = max(1.0, len(usable) / most)
    chosen = [usable[int(place * step)] for place in range(min(most, len(usable)))]
    if len(chosen) < len(usable):
        notes.append(f"golds of {len(chosen)} of {len(usable)} rows were tried as answers, evenly spread")
    trial = Trial(components=whole, generations=loaded.brief.sampling.num_generations, per_call=per_call)
    return _paid(loaded, trial, chosen, reading, notes, open_thought=open_thought), notes


def _most(wanted: RewardBrief) -> int:
    if wanted.use is None:
        return OWN_ROWS
    return PROGRAM_ROWS if wanted.use == _RUNS_PROGRAMS else FORM_ROWS


def gold_column(loaded: LoadedBrief, components: Sequence[Component], rows: Sequence[Row]) -> str | None:
    """Return the column that holds the right answer, None where none is known."""
    return prompts.gold_column(loaded, components, list(rows[0].columns))


def wanting_open_thought(
    loaded: LoadedBrief, components: Sequence[Component], rows: Sequence[Row], tags: Sequence[str]
) -> list[str]:
    """Return the rewards that pay a completion more with the opening tag in it than without.

    Where the template ends the prompt with that tag no completion has it, so such a reward is never paid in full.
    """
    whole, _ = _callable(_without_judges(loaded, components), rows)
    pairs = [
        (_probe(row, f"{row.row}/{place}", tag + rest), _probe(row, f"{row.row}/{place}/open", rest))
        for row in rows[:OPEN_ROWS]
        for tag in tags
        for place, rest in enumerate(_thoughtful(tag, _gold_words(loaded, whole, row)))
    ]
    trial = Trial(components=whole, generations=loaded.brief.sampling.num_generations, per_call=64)
    paid = trial.pay([probe for pair in pairs for probe in pair])
    wanting = set()
    for with_tag, without in zip(paid[::2], paid[1::2], strict=True):
        if with_tag.score is None or without.score is None:
            continue
        for one, other in zip(with_tag.score.values, without.score.values, strict=True):
            if one.value is not None and other.value is not None and one.value > other.value:
                wanting.add(one.name)
    return [component.name for component in whole if component.name in wanting]


def _gold_words(loaded: LoadedBrief, components: Sequence[Component], row: Row) -> str:
    column = gold_column(loaded, components, [row])
    gold = row.columns.get(column) if column else None
    return "42" if is_empty(gold) else str(gold)


def _thoughtful(tag: str, gold: str) -> Iterator[str]:
    """Yield what may follow an opening tag: a thought, its end and the gold in usual forms."""
    end = tag[0] + "/" + tag[1:]
    for blank in ("", "\n"):
        for answer in (
            f"<answer>{gold}</answer>",
            f"<answer>{blank}{gold}{blank}</answer>",
            f"\\boxed{{{gold}}}",
            gold,
        ):
            yield f"{blank}{THOUGHT}{blank}{end}{blank}{answer}"


def _left_out(loaded: LoadedBrief, components: Sequence[Component]) -> list[str]:
    judges = len(components) - len(_without_judges(loaded, components))
    return ["`rubric_judge` was not asked about golds: each answer costs a call of its server"] if judges else []


def _without_judges(loaded: LoadedBrief, components: Sequence[Component]) -> list[Component]:
    pairs = zip(loaded.brief.rewards, components, strict=True)
    return [component for wanted, component in pairs if wanted.use != _COSTLY]


def _of_library(loaded: LoadedBrief, components: Sequence[Component]) -> list[Component]:
    pairs = zip(loaded.brief.rewards, components, strict=True)
    return [component for wanted, component in pairs if wanted.use is not None]


def _callable(components: Sequence[Component], rows: Sequence[Row]) -> tuple[list[Component], dict[str, Sequence[int]]]:
    """Return the rewards that can be called with these columns, and for the others what TRL would die of."""
    whole: list[Component] = []
    raised: dict[str, Sequence[int]] = {}
    for component in components:
        try:
            _score([component], [_sample(row, "") for row in rows[:1]])
            whole.append(component)
        except stage.RewardFault as fault:
            named = isinstance(fault.cause, KeyError) and fault.cause.args
            words = (
                f"there is no column `{fault.cause.args[0]}`"
                if named and fault.cause
                else f"{fault.placed}, on an empty completion"
            )
            raised[f"`{component.name}`: {words}"] = [sample.row for sample in fault.samples]
    return whole, raised


def _abstentions(components: Sequence[Component], rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the rows from which a reward abstains for a fault of the row, by reward and reason."""
    found: dict[str, list[int]] = {}
    for begin in range(0, len(rows), CALL_ROWS):
        part = rows[begin : begin + CALL_ROWS]
        for score in _score(components, [_sample(row, "") for row in part], calls_again=False):
            for value in score.values:
                if value.value is None and value.reason and DATA_REASONS.fullmatch(value.reason):
                    found.setdefault(f"`{value.name}`: {value.reason}", []).append(int(score.sample_id))
    return {reason: sorted(places) for reason, places in found.items()}


def _score(components: Sequence[Component], samples: Sequence[Sample], *, calls_again: bool = True) -> list[Score]:
    return stage.score(
        samples,
        components,
        completions_per_call=len(samples),
        aggregation=stage.Aggregation(),
        calls_again=calls_again,
    )


def _sample(row: Row, text: str) -> Sample:
    return Sample(
        sample_id=str(row.row),
        prompt_id=str(row.row),  # not the row's own id: two rows of one id are two prompts here
        row=row.row,
        pass_name="policy",  # noqa: S106  the pass that training draws
        index=0,
        prompt=row.prompt,
        columns=row.columns,
        completion=_message(row, text),
        completion_ids=_IDS,
        tokens=len(_IDS),
        finish_reason="stop",
        temperature=1.0,
    )


def _message(row: Row, text: str) -> Text:
    return text if isinstance(row.prompt, str) else [{"role": "assistant", "content": text}]


def _probe(row: Row, probe_id: str, text: str) -> Probe:
    return Probe(
        probe_id=probe_id,
        kind="control",
        family="honest",
        prompt_id=str(row.row),
        prompt=row.prompt,
        columns=row.columns,
        completion=_message(row, text),
        about="the gold as an answer",
    )


def _paid(
    loaded: LoadedBrief,
    trial: Trial,
    rows: Sequence[Row],
    reading: GoldReading,
    notes: list[str],
    *,
    open_thought: bool,
) -> GoldReading:
    """Return the reading with what was paid for the golds of some rows."""
    import dataclasses

    known = list(_prompts(loaded, trial.components, rows, open_thought=open_thought))
    if not all(prompt.values_count for prompt in known):
        notes.append("no reward compares an answer with a gold, so golds were not tried as answers")
        return reading
    reach = sum(abs(part.weight) * (part.high - part.low) for part in trial.components)
    found = [
        one
        for begin in range(0, len(known), SLICE_ROWS)
        for one in reference.find(trial, known[begin : begin + SLICE_ROWS], reach)
    ]
    works = [one.work for one in found]
    silent = {one.work.row: silence.about for one in found for silence, _ in reversed(one.silences)}
    tried = [work for work in works if work.problem != "unknown"]
    if len(tried) < len(works):
        notes.append(f"{len(works) - len(tried)} golds have no form that a right answer could be written in")
    unscored = [work.row for work in tried if work.problem == "unscored"]
    raised = {**reading.raised, **_raised(trial, [row for row in rows if row.row in set(unscored)], loaded)}
    died = {row for places in raised.values() for row in places}
    return dataclasses.replace(
        reading,
        tried=len(tried),
        unscored=[row for row in unscored if row not in died],
        unpaid=[
            work.row
            for work in tried
            if work.problem in ("unpaid", "format_only") and not (work.failure is None and work.row in silent)
        ],
        silent=silent,
        raised=raised,
        forms_known=all(wanted.file is None for wanted in loaded.brief.rewards),
    )


def _prompts(
    loaded: LoadedBrief, components: Sequence[Component], rows: Sequence[Row], *, open_thought: bool
) -> Iterator[Prompt]:
    for begin in range(0, len(rows), prompts.PROMPTS):
        samples = [_sample(row, "") for row in rows[begin : begin + prompts.PROMPTS]]
        yield from prompts.prompts_of(loaded, components, samples, [], open_thought=open_thought)


def _raised(trial: Trial, rows: Sequence[Row], loaded: LoadedBrief) -> Mapping[str, Sequence[int]]:
    """Return what TRL would die of when the gold itself is the completion, by words."""
    probes = [_probe(row, str(row.row), _gold_words(loaded, trial.components, row)) for row in rows]
    found: dict[str, list[int]] = {}
    for row, paid in zip(rows, trial.pay(probes), strict=True):
        if paid.fault is not None:
            found.setdefault(paid.fault, []).append(row.row)
    return found


def columns_read(loaded: LoadedBrief, components: Sequence[Component], columns: Sequence[str]) -> list[str]:
    """Return the columns that rewards read: those named by options, by a function's own arguments, and the gold's."""
    named: set[Any] = {prompts.gold_column(loaded, components, columns), *columns_of_own(loaded, components, columns)}
    for wanted in loaded.brief.rewards:
        defaults = _defaults(wanted.use) if wanted.use is not None else {}
        named |= {wanted.options.get(option, default) for option, default in defaults.items()}
    return [column for column in columns if column in named]


def columns_of_own(loaded: LoadedBrief, components: Sequence[Component], columns: Sequence[str]) -> list[str]:
    """Return the columns that the user's own rewards name among their arguments."""
    import inspect

    named: set[str] = set()
    for wanted, component in zip(loaded.brief.rewards, components, strict=False):
        if wanted.use is None:
            try:
                named |= set(inspect.signature(component.function).parameters)
            except (TypeError, ValueError):  # written in C: it says nothing of its arguments
                named |= set(columns)
    return [column for column in columns if column in named]


def _defaults(name: str) -> dict[str, Any]:
    """Return the options of a library reward that name a column, with their defaults."""
    import importlib
    import inspect

    from llm_finetuning.rewards import LIBRARY

    module, kind, _ = LIBRARY[name]
    options = inspect.signature(getattr(importlib.import_module(module), kind)).parameters
    return {option: given.default for option, given in options.items() if option.endswith("_column")}
