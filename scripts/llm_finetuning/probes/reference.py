"""Find how this reward is honestly earned: what a right answer is paid in the form that is paid best, and a wrong one.

Right answers are written in a table of forms (`forms`); the winning form is the one that is paid best over several
prompts. Honest success is what it is paid with the gold in it, honest failure with an answer that is wrong by much.
Where the winning form is not paid on one prompt, all others are tried there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from llm_finetuning.findings import abstentions
from llm_finetuning.probes.case import Prompt, Write
from llm_finetuning.probes.forms import forms
from llm_finetuning.probes.trial import Paid, Trial
from llm_finetuning.types import HonestWork, Probe, Text

FIRST_PROMPTS = 6  # over which the forms compete
FIRST_PROGRAMS = 2  # likewise where each answer is a program, which takes long to run
LEAST_SPAN = 0.02  # of the range that the composed reward can pay; less than this tells nothing apart
NEARLY = 0.05  # of the span: forms that are paid so nearly the same are all accepted

IGNORANCE = "I do not know."

Pay = Mapping[tuple[str, str, str], float | None]  # (prompt, form, which answer) -> reward


@dataclass(frozen=True, slots=True)
class Reference:
    """Honest work on one prompt, and the form that right answers are written in."""

    work: HonestWork
    write: Write | None
    accepts: frozenset[str]
    silences: Sequence[tuple[Probe, Paid]] = ()  # wrong answers and nothing, left unscored though the gold is scored


def message(prompt: Prompt, text: str) -> Text:
    """Return a completion in the form that training has."""
    return [{"role": "assistant", "content": text}] if prompt.chat else text


def find(trial: Trial, prompts: Sequence[Prompt], reach: float) -> list[Reference]:
    """Return honest work on every prompt; `reach` is how far apart the composed reward can pay."""
    known = [prompt for prompt in prompts if prompt.gold.kind != "none" and prompt.wrong]
    programs = any(prompt.gold.kind == "code" for prompt in known)
    first = _spread(known, FIRST_PROGRAMS if programs else FIRST_PROMPTS)
    writers = {prompt.prompt_id: dict(forms(prompt)) for prompt in known}
    pay: dict[tuple[str, str, str], float | None] = {}
    _pay(trial, pay, [(prompt, name, writers) for prompt in first for name in writers[prompt.prompt_id]])
    order = _order(pay, first, reach)
    if order:
        _pay(trial, pay, [(prompt, order[0], writers) for prompt in known if order[0] in writers[prompt.prompt_id]])
    unpaid = [prompt for prompt in known if not order or _span(pay, prompt, order[0]) <= LEAST_SPAN * reach]
    _pay(trial, pay, [(prompt, name, writers) for prompt in unpaid for name in writers[prompt.prompt_id]])
    _pay_nothing(trial, pay, prompts)
    _pay_samples(trial, pay, [prompt for prompt in prompts if prompt not in known])
    beyond = {name: _beyond(pay, name, order[0]) for name in order}
    found = [_reference(prompt, writers.get(prompt.prompt_id, {}), beyond, pay, reach) for prompt in prompts]
    return _with_silences(trial, prompts, found)


def _with_silences(trial: Trial, prompts: Sequence[Prompt], found: Sequence[Reference]) -> list[Reference]:
    """Return the references with the failures that no reward scored, though it scored right work on the same prompt."""
    scored = abstentions.scored_by((probe.prompt_id, paid.score.values) for probe, paid in trial.record if paid.score)
    tried = {(probe.prompt_id, str(probe.completion)): (probe, paid) for probe, paid in trial.record}
    return [
        one if one.work.success is None else replace(one, silences=list(_silences(prompt, one, tried, scored)))
        for prompt, one in zip(prompts, found, strict=True)
    ]


def _silences(
    prompt: Prompt,
    one: Reference,
    tried: Mapping[tuple[str, str], tuple[Probe, Paid]],
    scored: abstentions.Scored,
) -> Iterator[tuple[Probe, Paid]]:
    wrong = [] if prompt.gold.kind == "calls" and prompt.gold.raw == [] else [("nothing at all", "")]
    if one.write is not None and one.work.gold is not None:
        wrong += [("a wrong answer in the form that is paid", one.write(answer)) for answer in prompt.wrong]
    for place, (about, text) in enumerate(wrong):
        probe, paid = tried.get((prompt.prompt_id, str(message(prompt, text))), (None, None))
        if probe and paid and paid.score and abstentions.silent(prompt.prompt_id, paid.score.values, scored):
            yield replace(probe, probe_id=f"honest/{prompt.prompt_id}/{place}", about=about), paid


def _spread(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    step = max(1.0, len(prompts) / count)
    return [prompts[int(place * step)] for place in range(min(count, len(prompts)))]


def _pay(
    trial: Trial,
    pay: dict[tuple[str, str, str], float | None],
    wanted: Sequence[tuple[Prompt, str, Mapping[str, Mapping[str, Write]]]],
) -> None:
    """Set down what the gold and the wrong answers are paid in some forms."""
    probes: dict[tuple[str, str, str], Probe] = {}
    for prompt, name, writers in wanted:
        for which, answer in (("gold", prompt.gold.answer), *(("wrong", answer) for answer in prompt.wrong)):
            place = f"{which} {answer}" if which == "wrong" else which
            key = (prompt.prompt_id, name, place)
            if key not in pay and key not in probes:
                probes[key] = _probe(prompt, f"reference/{len(probes)}", writers[prompt.prompt_id][name](answer))
    for key, paid in zip(probes, trial.pay(list(probes.values())), strict=True):
        pay[key] = paid.score.reward if paid.score else None


def _pay_nothing(trial: Trial, pay: dict[tuple[str, str, str], float | None], prompts: Sequence[Prompt]) -> None:
    probes = [_probe(prompt, f"nothing/{place}", "") for place, prompt in enumerate(prompts)]
    for prompt, paid in zip(prompts, trial.pay(probes), strict=True):
        pay[prompt.prompt_id, "", "empty"] = paid.score.reward if paid.score else None


def _pay_samples(trial: Trial, pay: dict[tuple[str, str, str], float | None], prompts: Sequence[Prompt]) -> None:
    """Set down, where no gold is known, what the best-paid real completion and an answer that says nothing are paid."""
    for prompt in prompts:
        if prompt.best is None:
            continue
        texts = {"gold": prompt.best, "wrong": IGNORANCE}
        probes = [_probe(prompt, f"sample/{prompt.prompt_id}/{which}", text) for which, text in texts.items()]
        for which, paid in zip(texts, trial.pay(probes), strict=True):
            pay[prompt.prompt_id, "sample", which] = paid.score.reward if paid.score else None


def _probe(prompt: Prompt, probe_id: str, text: str) -> Probe:
    return Probe(
        probe_id=probe_id,
        kind="control",
        family="honest",
        prompt_id=prompt.prompt_id,
        prompt=prompt.prompt,
        columns=dict(prompt.columns),
        completion=message(prompt, text),
        about="honest work",
    )


def _success(pay: Pay, prompt: Prompt, name: str) -> float | None:
    return pay.get((prompt.prompt_id, name, "gold"))


def _failure(pay: Pay, prompt: Prompt, name: str) -> float | None:
    """Return what the worst-paid of the wrong answers gets: one of another row may be right by chance."""
    paid = [pay.get((prompt.prompt_id, name, f"wrong {answer}")) for answer in prompt.wrong]
    known = [value for value in paid if value is not None]
    return min(known) if known else None


def _span(pay: Pay, prompt: Prompt, name: str) -> float:
    success, failure = _success(pay, prompt, name), _failure(pay, prompt, name)
    return 0.0 if success is None else success - (failure if failure is not None else success)


def _order(pay: Pay, prompts: Sequence[Prompt], reach: float) -> list[str]:
    """Return the forms from the best paid on, by the mean over prompts; equal ones as the table has them."""
    names = dict.fromkeys(name for _, name, which in pay if which == "gold")
    means = {}
    for name in names:
        paid = [_success(pay, prompt, name) for prompt in prompts]
        known = [value for value in paid if value is not None]
        spans = [_span(pay, prompt, name) for prompt in prompts]
        if known and len(known) * 2 >= len(prompts):
            mean = sum(known) / len(known)
            # What is paid best may be paid for anything; of equal ones the one that tells right from wrong comes first.
            means[name] = (round(mean / (reach or 1.0), 2), round(sum(spans) / len(spans), 6))
    return sorted(means, key=lambda name: means[name], reverse=True)


def _reference(
    prompt: Prompt, writers: Mapping[str, Write], beyond: Mapping[str, float | None], pay: Pay, reach: float
) -> Reference:
    """Return one prompt's honest work; `beyond` has the forms from the best paid on, with their mean over the best."""
    least = LEAST_SPAN * reach
    if not writers:
        return _without_gold(prompt, pay, least)
    empty = pay.get((prompt.prompt_id, "", "empty"))
    tried = [name for name in writers if (prompt.prompt_id, name, "gold") in pay]
    telling = [name for name in tried if _span(pay, prompt, name) > least]
    name = next((name for name in list(beyond)[:1] if name in telling), None)
    if name is None:
        ranked = sorted(telling or tried, key=lambda name: _success(pay, prompt, name) or -1e9, reverse=True)
        name = ranked[0] if ranked else None
    if name is None:
        work = _work(prompt, "", None, None, None, empty, "unknown")
        return Reference(work, None, frozenset())
    success, failure = _success(pay, prompt, name), _failure(pay, prompt, name)
    span = _span(pay, prompt, name)
    problem = None
    if success is None:
        problem = "unscored"
    elif span <= least:
        problem = "format_only" if success - (empty if empty is not None else success) > least else "unpaid"
    accepts = frozenset(
        other for other, mean in beyond.items() if mean is not None and mean >= -NEARLY * max(span, least)
    )
    return Reference(_work(prompt, name, writers[name], success, failure, empty, problem), writers[name], accepts)


def _without_gold(prompt: Prompt, pay: Pay, least: float) -> Reference:
    """Return the best real completion as honest work, if it is paid more than one that says nothing."""
    success, failure = (pay.get((prompt.prompt_id, "sample", which)) for which in ("gold", "wrong"))
    empty = pay.get((prompt.prompt_id, "", "empty"))
    told = success is not None and failure is not None and success - failure > least
    best = str(prompt.best)
    work = HonestWork(
        prompt_id=prompt.prompt_id,
        row=prompt.row,
        gold=None,
        form="sample",
        right=message(prompt, best) if told else None,
        wrong=message(prompt, IGNORANCE) if told else None,
        success=success,
        failure=failure,
        empty=empty,
        problem=None if told else "unknown",
    )
    return Reference(work, (lambda _: best) if told else None, frozenset())


def _beyond(pay: Pay, name: str, winner: str) -> float | None:
    """Return how much more a form is paid than the winning one, by the mean over the prompts that have both."""
    both = [
        (value, other)
        for (prompt_id, form, which), value in pay.items()
        if form == name and which == "gold" and value is not None
        if (other := pay.get((prompt_id, winner, "gold"))) is not None
    ]
    return sum(value - other for value, other in both) / len(both) if both else None


def _work(
    prompt: Prompt,
    name: str,
    write: Write | None,
    success: float | None,
    failure: float | None,
    empty: float | None,
    problem: str | None,
) -> HonestWork:
    return HonestWork(
        prompt_id=prompt.prompt_id,
        row=prompt.row,
        gold=prompt.gold.answer or None,
        form=name,
        right=message(prompt, write(prompt.gold.answer)) if write else None,
        wrong=message(prompt, write(prompt.wrong[0])) if write and prompt.wrong else None,
        success=success,
        failure=failure,
        empty=empty,
        problem=problem,  # type: ignore[arg-type]
    )
