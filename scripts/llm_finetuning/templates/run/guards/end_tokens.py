"""Where prompts begin and completions end: the trainer, the engine and the template have to mean the same tokens."""

from collections.abc import Sequence
from typing import Any

from guards import ending
from guards.options import Settings

PROBE = "a"  # what the assistant says in a rendered conversation


def check(settings: Settings, trainer: Any, prompts: Sequence[Any]) -> None:
    """Compare start and end tokens before anything is generated; ends the run where they would spoil it."""
    tokenizer, prompt = trainer._tokenizer, prompts[0]  # noqa: SLF001  a processor's tokenizer too
    ids = [list(one) for one in trainer._tokenize_prompts([prompt])[0]]  # noqa: SLF001  as a step does
    faults = _start_faults(tokenizer, ids[0])
    if trainer.use_vllm:
        faults += _engine_prompt_faults(trainer, ids)
    faults += _end_faults(settings, trainer, prompt, chat=not isinstance(prompt, str))
    if faults:
        raise ending.refuse(*(f"{settings.here}: {fault}" for fault in faults))


def _start_faults(tokenizer: Any, ids: list[int]) -> list[str]:
    start = tokenizer.bos_token_id
    if start is None:
        return []
    if ids[:2] == [start, start]:
        words = (
            f"prompts begin with two start tokens ({tokenizer.bos_token!r}): the text holds one and the tokenizer adds "
            "another; take it out of the prompts, or give them as messages"
        )
        return [words]
    if list(tokenizer(PROBE)["input_ids"])[:1] == [start] and ids[:1] != [start]:
        ending.say(
            f"prompts do not begin with {tokenizer.bos_token!r}, which this tokenizer puts before plain text; a model "
            "that was trained with it does worse without, so look at its chat template"
        )
    return []


def _engine_prompt_faults(trainer: Any, ids: list[list[int]]) -> list[str]:
    """Ask the engine for one token and compare what it says it read; every process takes part."""
    engine = trainer.vllm_generation
    length, engine.max_completion_length = engine.max_completion_length, 1
    try:
        read = engine.generate(prompts=ids, images=None, num_generations=1)[0]
    finally:
        engine.max_completion_length = length
    if [list(one) for one in read] == ids:
        return []
    words = (
        f"the engine reads the first prompt as {_brief(read[0])} and the trainer as {_brief(ids[0])}; both need the "
        "same tokenizer and template"
    )
    return [words]


def _end_faults(settings: Settings, trainer: Any, prompt: Any, *, chat: bool) -> list[str]:
    """Compare what ends a completion for the trainer with what the template and the engine end one with."""
    tokenizer, known = trainer._tokenizer, set(trainer.eos_token_ids)  # noqa: SLF001
    foreign = {}
    if chat and (last := _turn_end(trainer, prompt)) is not None and last not in known:
        foreign[last] = "the chat template ends a turn with it"
    for token in _engine_ends(trainer) - known:
        foreign[token] = "the engine stops at it"
    faults = []
    for token, why in foreign.items():
        words = (
            f"{why}, and for the trainer {tokenizer.convert_ids_to_tokens(token)!r} ({token}) ends nothing: it knows "
            f"{sorted(known)}; add it to eos_token_id in the model's generation_config.json"
        )
        if settings.trainer.get("mask_truncated_completions"):
            faults.append(f"{words}; as it is, every such completion counts as cut off and 100% would be masked")
        else:
            ending.say(f"{words}; as it is, finished completions count as cut off")
    return faults


def _turn_end(trainer: Any, prompt: Any) -> int | None:
    """Return the first token that the template writes after what the assistant said; None where that cannot be seen.

    Only a special token counts: a newline ends no turn.
    """
    tokenizer = trainer._tokenizer  # noqa: SLF001
    said = [*prompt, {"role": "assistant", "content": PROBE}]
    try:
        whole = tokenizer.apply_chat_template(said, tokenize=False, **trainer.chat_template_kwargs)
    except Exception as error:  # noqa: BLE001  a template is a program of the model's maker and may raise anything
        ending.say(f"the chat template does not render an answer ({error}); what ends a turn was not checked")
        return None
    tail = tokenizer(whole.rpartition(PROBE)[2], add_special_tokens=False)["input_ids"]
    special = set(tokenizer.all_special_ids)
    return tail[0] if tail and tail[0] in special else None


def _engine_ends(trainer: Any) -> set[int]:
    """Return the tokens at which an engine in this process stops; none where the trainer itself generates."""
    engine = getattr(getattr(trainer, "vllm_generation", None), "llm", None)
    if engine is None:
        return set()
    given = engine.llm_engine.model_config.try_get_generation_config().get("eos_token_id")
    ends = {given} if isinstance(given, int) else set(given or ())
    own = engine.get_tokenizer().eos_token_id
    return ends if own is None else ends | {own}


def _brief(ids: Sequence[int]) -> str:
    return f"{list(ids[:8])}{'...' if len(ids) > 8 else ''}"  # noqa: PLR2004  enough to see the start
