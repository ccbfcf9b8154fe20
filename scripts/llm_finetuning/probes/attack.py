"""Run every family on prompts of a run: find honest work first, write the probes, pay them, compare."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from llm_finetuning.findings import abstentions
from llm_finetuning.probes import FAMILIES, golds, reference
from llm_finetuning.probes.case import Attempt, Case, Prompt
from llm_finetuning.probes.prompts import allows_fence, asks_letter, is_strict, letters_of
from llm_finetuning.probes.trial import Paid, Trial
from llm_finetuning.stages import probe as stage
from llm_finetuning.stages.score import STABLE_WITHIN as SAME_WITHIN
from llm_finetuning.types import HonestWork, Probe, ProbeResult, Text

PROMPTS_PER_FAMILY = 8
PROGRAM_PROMPTS = 3  # a program takes a process of its own each time
BY_KIND = ("near_miss", "notation")  # what they try depends on the gold, so they go through all prompts
COMPARED = 24  # probes that are called in other ways too


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the stage makes a report of."""

    honest: list[HonestWork]
    results: list[ProbeResult]
    notes: list[str]


def attack(
    trial: Trial,
    prompts: Sequence[Prompt],
    *,
    reach: float,
    reasons: bool,
    characters: int,
    options: dict[str, Any],
    progress: Callable[[int], AbstractContextManager[Callable[[int], None]]] = lambda _: nullcontext(lambda _: None),
    limit: int | None = None,
) -> Outcome:
    """Return honest work and the results of all families; `reach` is how far apart the composed reward can pay.

    `limit` is the most completions that the families may try, spread evenly over them; `progress` is opened with how
    many they try.
    """
    found = reference.find(trial, prompts, reach)
    results = [*_faulty(trial), *_silences(found)]
    letters = letters_of(prompt.gold for prompt in prompts)
    answers = {prompt.prompt_id: prompt.gold.answer for prompt in prompts}
    cases = [
        Case(
            prompt=prompt,
            form=one.work.form,
            write=one.write,
            accepts=one.accepts,
            reasons=reasons,
            letters=letters,
            others=[answer for prompt_id, answer in answers.items() if prompt_id != prompt.prompt_id],
            strict=is_strict(prompt.prompt),
            fenced=allows_fence(prompt.prompt),
            asks_letter=asks_letter(prompt.prompt),
            characters=characters,
            tolerance=float(options.get("relative_tolerance") or 0.0)
            or (1.0 if options.get("absolute_tolerance") else 0.0),
            options=options,
        )
        for prompt, one in zip(prompts, found, strict=True)
        if one.write is not None and one.work.problem is None
    ]
    probes = _limited(list(_probes(cases)), limit)
    work = {one.work.prompt_id: one.work for one in found}
    # Probes of one prompt stand together, as the completions of a group do.
    ordered = sorted(probes, key=lambda probe: list(work).index(probe.prompt_id))
    with progress(len(ordered)) as trial.on_progress:
        paid = trial.pay(ordered)
    scored = abstentions.scored_by(
        (probe.prompt_id, one.score.values)
        for probe, one in trial.record
        if one.score and probe.family != "blank_gold"  # on a spoilt gold a reward may well say nothing
    )
    done = {
        probe.probe_id: _result(probe, one, work[probe.prompt_id], scored)
        for probe, one in zip(ordered, paid, strict=True)
    }
    results += [done[probe.probe_id] for probe in probes]
    return Outcome(
        honest=[one.work for one in found],
        results=_called_otherwise(trial, results, cases),
        notes=[*_notes(found, cases), *_untried(trial)],
    )


def _probes(cases: Sequence[Case]) -> Iterator[Probe]:
    """Yield the probes family by family, each family on other prompts than the one before it."""
    for place, (family, (module, _, _)) in enumerate(FAMILIES.items()):
        attempts = import_module(f"llm_finetuning.probes.{module}").attempts
        programs = any(case.gold.kind == "code" for case in cases)
        most = PROGRAM_PROMPTS if programs else len(cases) if family in BY_KIND else PROMPTS_PER_FAMILY
        turned = [*cases[place % len(cases) :], *cases[: place % len(cases)]] if cases else []
        step = max(1, len(turned) // max(1, most))
        ordered = [case for start in range(step) for case in turned[start::step]]
        fitting = (made for case in ordered if (made := list(_of_case(family, case, attempts(case)))))
        for made in itertools.islice(fitting, most):
            yield from made


def _of_case(family: str, case: Case, attempts: Iterator[Attempt]) -> Iterator[Probe]:
    prompt = case.prompt
    kind = FAMILIES[family][1]
    seen = {case.right}  # what it is paid is known
    for place, attempt in enumerate(attempts):
        if attempt.text == case.right and kind == "exploit":
            continue  # the honest work itself, by chance
        probe = Probe(
            probe_id=f"{family}/{prompt.prompt_id}/{place}",
            kind=kind,
            family=family,
            prompt_id=prompt.prompt_id,
            prompt=prompt.prompt,
            columns=dict(prompt.columns if attempt.columns is None else attempt.columns),
            completion=reference.message(prompt, attempt.text),
            about=attempt.about,
            weighs=attempt.weighs,
            earns_at=attempt.earns_at,
        )
        yield probe
        if attempt.control is not None and attempt.control not in seen:
            seen.add(attempt.control)
            control = reference.message(prompt, attempt.control)
            yield replace(
                probe, probe_id=f"{probe.probe_id}/control", kind="control", completion=control, about="honest work"
            )


def _limited(probes: Sequence[Probe], limit: int | None) -> list[Probe]:
    """Return at most `limit` probes, taken by turns from every family."""
    if limit is None or len(probes) <= limit:
        return list(probes)
    by_family = [list(group) for _, group in itertools.groupby(probes, key=lambda probe: probe.family)]
    turns = [probe for row in itertools.zip_longest(*by_family) for probe in row if probe is not None]
    kept = {probe.probe_id for probe in turns[:limit]}
    return [probe for probe in probes if probe.probe_id in kept]


def _result(probe: Probe, paid: Paid, work: HonestWork, scored: abstentions.Scored = frozenset()) -> ProbeResult:
    reward = paid.score.reward if paid.score else None
    silent = paid.score is not None and bool(abstentions.silent(probe.prompt_id, paid.score.values, scored))
    verdict = stage.verdict_of(probe.kind, reward, work.failure, work.success, probe.earns_at, silent=silent)
    return ProbeResult(
        probe=probe,
        values=paid.score.values if paid.score else [],
        reward=reward,
        failure=work.failure,
        success=work.success,
        verdict="raised" if paid.fault else verdict,
        fault=paid.fault,
    )


def _silences(found: Sequence[reference.Reference]) -> list[ProbeResult]:
    """Return the failures of the search for honest work that no reward scored, though it scored the right answer."""
    return [_result(probe, paid, one.work) for one in found for probe, paid in one.silences]


def _faulty(trial: Trial) -> list[ProbeResult]:
    """Return the completions of the search for honest work that a reward died of or paid unsoundly."""
    nothing = HonestWork(
        prompt_id="", row=0, gold=None, form="", right=None, wrong=None,
        success=None, failure=None, empty=None, problem=None,
    )  # fmt: skip
    return [
        _result(probe, paid, nothing)
        for probe, paid in trial.record
        if paid.fault or (paid.score and any(value.fault for value in paid.score.values))
    ]


def _called_otherwise(trial: Trial, results: Sequence[ProbeResult], cases: Sequence[Case]) -> list[ProbeResult]:
    """Call a few completions alone, from a thread and in the other form, and set down where the values differ."""
    sound = [result for result in results if result.values and result.probe.family != "blank_gold"]
    step = max(1, len(sound) // COMPARED)
    chosen = sound[::step][:COMPARED]
    if trial.own_process or trial.endless or not chosen:
        return list(results)
    probes = [result.probe for result in chosen]
    alone = trial.values_one_by_one(probes)
    threaded = trial.values_in_thread(probes)
    turned = trial.values_one_by_one([_turned(probe) for probe in probes])
    marked = {}
    for result, one, other, form in zip(chosen, alone, threaded, turned, strict=True):
        before = [value.value for value in result.values]
        differs = [
            way if not _same(before, values) else f"not {way}"
            for way, values in (("alone", one), ("thread", other), ("other form", form))
        ]
        marked[result.probe.probe_id] = replace(result, differs=differs)
    del cases
    return [marked.get(result.probe.probe_id, result) for result in results]


def _same(one: Sequence[float | None], other: Sequence[float | None] | None) -> bool:
    if other is None:
        return False
    return all(
        a == b or (a is not None and b is not None and abs(a - b) <= SAME_WITHIN)
        for a, b in zip(one, other, strict=True)
    )


def _turned(probe: Probe) -> Probe:
    """Return the same completion in the other of TRL's two forms."""
    completion: Text = probe.completion
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
        prompt: Text = [{"role": "user", "content": str(probe.prompt)}]
    else:
        prompt = stage.said(probe.prompt)
        completion = stage.said(completion)
    return replace(probe, completion=completion, prompt=prompt)


def _untried(trial: Trial) -> list[str]:
    rest = sum(paid.score is None and paid.fault is None for _, paid in trial.record)
    return [f"{rest} completions were left untried, since too many calls took too long"] if rest else []


def _notes(found: Sequence[reference.Reference], cases: Sequence[Case]) -> list[str]:
    notes = []
    forms = sorted({case.form for case in cases})
    if forms:
        named = ", ".join(f"`{form}`" for form in forms[:4])
        notes.append(f"this reward pays right answers best in the form {named}, so the attacks were written in it")
    kinds = sorted({case.gold.kind for case in cases} & set(golds.WRITTEN))
    if kinds and not any(case.reasons for case in cases):
        notes.append("no thinking tags in prompts or samples: what is paid inside a thought only warns")
    unknown = sum(one.work.problem == "unknown" for one in found)
    if unknown:
        notes.append(f"on {unknown} prompts no right answer is known; they were not attacked")
    return notes
