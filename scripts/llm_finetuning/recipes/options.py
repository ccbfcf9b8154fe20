"""Whether the options under a brief's `training` are known, stand where they belong, and fit together."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from llm_finetuning import trl_options
from llm_finetuning.recipes import adapters, rules

Fault = tuple[str, str]
"""An option, and what is wrong with it and how to mend it."""


def faults(training: Mapping[str, Any], method: str, use: str | None, sampled: Collection[str]) -> Iterator[Fault]:
    """Yield every fault that needs the brief alone.

    Args:
        training: The options, in TRL's spelling.
        method: The brief's.
        use: Its variant, where it names one.
        sampled: The options that stand under `sampling`.
    """
    known: dict[str, Any] = {}
    for option, value in training.items():
        words = _place_fault(option, method, sampled) or _value_fault(option, value)
        if words:
            yield option, words
        else:
            known[option] = value
    yield from adapters.faults(known, method)
    if method == "grpo":
        yield from rules.faults(known, use)


def _place_fault(option: str, method: str, sampled: Collection[str]) -> str | None:
    """Find an option that has another place, is gone from TRL, or never was there."""
    from llm_finetuning.brief import nearest

    if method == "grpo" and option in sampled:
        return f"belongs under `sampling`; write `sampling: {{{option}: ...}}`"
    if option in trl_options.OWNED:
        return trl_options.OWNED[option]
    if method == "grpo" and option in trl_options.OWNED_BY_GRPO:
        return trl_options.OWNED_BY_GRPO[option]
    if option in trl_options.REMOVED:
        return f"TRL {trl_options.TRL_VERSION} does not take it; {trl_options.REMOVED[option]}"
    known = trl_options.names(method)
    if option not in known:
        return f"unknown option of TRL {trl_options.TRL_VERSION}; {nearest(option, known)}"
    return None


def _value_fault(option: str, value: Any) -> str | None:
    """Check the options that decide how rewards are called and summed; TRL itself fails in its first step."""
    if option in trl_options.CHOICES and value not in trl_options.CHOICES[option]:
        allowed = ", ".join(str(choice) for choice in trl_options.CHOICES[option])
        return f"{value!r} is not one of {allowed}"
    if option in trl_options.BATCH_OPTIONS and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        return f"{value!r} is not a whole number from 1 on"
    return None
