"""An evaluation as a person reads it in a terminal."""

from llm_finetuning.types import Estimate, Evaluation

SHOWN_BUCKETS = 20  # of a column with more values the file holds the rest


def lines_of(found: Evaluation) -> list[str]:
    """Return one suite's evaluation: pass@k, its parts, rewards and lengths, each with its interval."""
    how = "greedy" if found.greedy else f"{found.samples} completions each"
    unit, of = ("row", "held-out rows") if found.suite == "goldens" else ("item", "items of the drift suite")
    lines = [f"{found.name}: {found.model} on {len(found.items)} {of}, {how}", ""]
    lines += [_share_line(f"pass@{k}", share) for k, share in found.passes.items()]
    if found.corrected is not None:
        lines.append(_line("corrected for the judge", found.corrected, ".3f"))
    lines += _bucket_lines(found, unit)
    # The drift suite's one component is what its pass@1 is read from.
    apart = set(found.components) - set(found.graders)
    named = {
        f"{name} (grader)" if apart and name in found.graders else name: mean for name, mean in found.components.items()
    }
    paid = {**({"reward": found.reward} if found.reward else {}), **named}
    means = {**(paid if found.suite == "goldens" else {}), **({"tokens": found.tokens} if found.tokens else {})}
    lines += [_line(name, mean, ".3g") for name, mean in means.items()]
    lines += [_line("cut at the cap", found.cut, ".3f")] if found.cut else []
    lines += ["", "  the second column is the 95% interval over " + f"{unit}s"]
    return [*lines, *(f"  note: {note}" for note in found.notes)]


def _bucket_lines(found: Evaluation, unit: str) -> list[str]:
    items: dict[str, int] = {}
    for item in found.items:
        items[str(item.bucket)] = items.get(str(item.bucket), 0) + 1
    lines = []
    for name, share in list(found.buckets.items())[:SHOWN_BUCKETS]:
        count = f"   {items[name]} {unit}{'s' if items[name] > 1 else ''}"
        lines.append(_share_line(f"  {name}", share) + count)
    more = len(found.buckets) - SHOWN_BUCKETS
    return [*lines, *([f"    and {more} more parts in the file"] if more > 0 else [])]


def _share_line(name: str, found: Estimate) -> str:
    """Return a share; one of no item at all, since none was graded so often, is no number."""
    return _line(name, found, ".3f") if found.n else f"  {name:<24}{'-':>8}"


def _line(name: str, found: Estimate, form: str) -> str:
    return f"  {name:<24}{found.value:>8{form}}   {found.low:{form}} to {found.high:{form}}"
