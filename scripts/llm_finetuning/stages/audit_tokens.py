"""Judge what the model's tokenizer and chat template make of the prompts.

Source: TRL 1.16.0, `GRPOTrainer.__init__` and `_tokenize_prompts` (trl/trainer/grpo_trainer.py). Prompts are never cut;
every end token of the generation config ends a completion beside the tokenizer's own; without a pad token the end
token pads, and padding goes by length, so that no end token is lost.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llm_finetuning.types import Finding

READ_TRL = (1, 16, 0)  # the version whose source was read


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Every prompt's tokens and what stood out in them, as `engines/prompt_reader.py` says it."""

    counts: Mapping[int, int]  # row -> tokens
    refused: Mapping[int, str]  # row -> the template's words
    facts: Mapping[str, Any]
    chat: bool  # prompts are lists of messages
    cap: int  # max_completion_length
    window: int | None  # tokens that prompt and completion may have together
    ends_with_assistant: Sequence[int] = ()  # rows whose last message is the assistant's
    masks_truncated: bool = False  # mask_truncated_completions
    wants_open: Sequence[str] = ()  # rewards that pay less where the template has opened the thought
    promised_open: Sequence[str] = ()  # rewards that were told that the template opens the thought


def findings(tokens: Tokens) -> list[Finding]:
    """Return all that the tokens, the template and the end tokens show."""
    return [*_rendering(tokens), *_lengths(tokens), *_thought(tokens), *_starts(tokens), *_ends(tokens)]


def spread(counts: Sequence[int]) -> dict[str, int] | None:
    """Return min, median, p95 and max of some counts (the smallest that so many do not exceed); None for none."""
    ordered = sorted(counts)
    if not ordered:
        return None
    places = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}
    return {name: ordered[max(0, -int(-share * len(ordered) // 1) - 1)] for name, share in places.items()}


def _rendering(tokens: Tokens) -> Iterator[Finding]:
    facts = tokens.facts
    if tokens.chat and not facts["has_chat_template"]:
        yield Finding(
            code="no-chat-template",
            weight="blocks",
            text="prompts are chats, but the tokenizer has no chat template",
            next_action="use an instruct model, or write the prompts as plain text",
        )
    elif tokens.refused:
        words = next(iter(tokens.refused.values()))
        yield Finding(
            code="template-refuses",
            weight="blocks",
            text=f"the chat template refuses {len(tokens.refused)} prompts: {words}",
            next_action="mend the roles and contents of these rows",
            data_rows=sorted(tokens.refused),
        )
    if not tokens.chat and facts["has_chat_template"]:
        yield Finding(
            code="template-unused",
            weight="warns",
            text="prompts are plain text, which the model's chat template is not applied to; a model that was tuned "
            "for chat often ends at once on them: write them as lists of messages",
            next_action="write prompts as lists of messages, if the model was tuned for chat",
        )
    if facts["empty_rows"]:
        yield Finding(
            code="prompt-without-tokens",
            weight="blocks",
            text=f"{len(facts['empty_rows'])} prompts give no token: the model would have nothing to continue",
            next_action="fill these prompts or take the rows out",
            data_rows=list(facts["empty_rows"]),
        )
    if tokens.ends_with_assistant:
        yield Finding(
            code="ends-with-assistant",
            weight="warns",
            text=f"{len(tokens.ends_with_assistant)} prompts end with the assistant; TRL opens a new turn after that",
            next_action="end these prompts with the user's message",
            data_rows=list(tokens.ends_with_assistant),
        )


def _lengths(tokens: Tokens) -> Iterator[Finding]:
    found = spread(list(tokens.counts.values()))
    if found is None:
        return
    lengths = ", ".join(f"{name} {count}" for name, count in found.items())
    if tokens.window is None:
        text = f"prompt tokens: {lengths}; the model's config names no context length"
        yield Finding(code="prompt-too-long", weight="warns", text=text, next_action="compare with the model's card")
        return
    room = tokens.window - tokens.cap
    long = sorted(row for row, count in tokens.counts.items() if count > room)
    limit = f"context {tokens.window} less max_completion_length {tokens.cap} leaves {room}"
    if long:
        action = (
            "take these rows out, since TRL cuts no prompt, or lower sampling.max_completion_length"
            if room > 0
            else f"lower sampling.max_completion_length below {tokens.window}"
        )
        yield Finding(
            code="prompt-too-long",
            weight="blocks",
            text=f"{len(long)}/{len(tokens.counts)} prompts do not fit: {limit} tokens; they have {lengths}",
            next_action=action,
            data_rows=long,
        )
    else:
        yield Finding(
            code="prompt-too-long", weight="fine", text=f"all prompts fit: {limit} tokens; {lengths}", next_action=None
        )


def _thought(tokens: Tokens) -> Iterator[Finding]:
    opened: Mapping[str, Sequence[int]] = tokens.facts["opened_thoughts"]
    rows = sorted(row for rows in opened.values() for row in rows)
    tags = " and ".join(f"`{tag}`" for tag in opened)
    if opened and tokens.wants_open:
        yield Finding(
            code="thought-opened",
            weight="blocks",
            text=(
                f"{len(rows)}/{len(tokens.counts)} prompts end with {tags}, so no completion holds it, but "
                f"{_names(tokens.wants_open)} pays for it in the completion"
            ),
            next_action=(
                "tell the reward with `opened_by_template`, or render without thinking by "
                "`sampling.chat_template_kwargs`"
            ),
            data_rows=rows,
        )
    elif opened:
        text = f"{len(rows)}/{len(tokens.counts)} prompts end with {tags}: completions begin inside the thought"
        weight: Literal["fine", "warns"] = "fine" if len(rows) == len(tokens.counts) and len(opened) == 1 else "warns"
        action = None if weight == "fine" else "render all prompts alike"
        yield Finding(code="thought-opened", weight=weight, text=text, next_action=action, data_rows=rows)
    if not opened and tokens.promised_open and tokens.counts:
        yield Finding(
            code="thought-not-opened",
            weight="blocks",
            text=f"{_names(tokens.promised_open)} says `opened_by_template`, but no prompt ends with an opening tag",
            next_action="leave `opened_by_template` out, or set what opens it in `sampling.chat_template_kwargs`",
        )


def _starts(tokens: Tokens) -> Iterator[Finding]:
    facts = tokens.facts
    doubled, missing = list(facts["doubled_start_rows"]), list(facts["rows_without_start"])
    start = facts["start_token"]
    if doubled:
        who = "the template writes it twice" if tokens.chat else "the text has it and the tokenizer adds another"
        yield Finding(
            code="start-doubled",
            weight="blocks",
            text=f"{len(doubled)}/{len(tokens.counts)} prompts begin with two start tokens `{start}`: {who}",
            next_action="take one of them out of the template or the text",
            data_rows=doubled,
        )
    if missing and tokens.chat and facts["tokenizer_adds_start"]:
        yield Finding(
            code="start-missing",
            weight="warns",
            text=(
                f"{len(missing)}/{len(tokens.counts)} prompts begin without `{start}`, which the tokenizer puts before "
                "plain text: the template has to write it"
            ),
            next_action="compare with the template on the model's card",
            data_rows=missing,
        )


def _ends(tokens: Tokens) -> Iterator[Finding]:
    facts = tokens.facts
    if not facts["end_ids"]:
        yield Finding(
            code="end-unknown",
            weight="blocks",
            text="neither the tokenizer nor the generation config names an end token: no completion can end",
            next_action="set `eos_token` in the tokenizer's config",
        )
        return
    names = _names(facts["end_tokens"])
    second = [token for token in facts["generation_config_end_ids"] if token not in facts["tokenizer_end_ids"]]
    version = _version(facts["trl_version"]) or READ_TRL
    if second and version < READ_TRL:
        masked = tokens.masks_truncated
        yield Finding(
            code="end-second",
            weight="blocks" if masked else "warns",
            text=(
                f"the model may end with {names}, of which the tokenizer names one: TRL {_dotted(version)} may count "
                "the others as cut off"
                + (", and `mask_truncated_completions` would drop all of them" if masked else "")
            ),
            next_action=f"train with TRL {_dotted(READ_TRL)} or newer, which counts each as an end",
        )
    else:
        text = f"a completion ends with {names}; TRL {_dotted(version)} counts each as an end"
        yield Finding(code="end-second", weight="fine", text=text, next_action=None)
    turn = facts["turn_end"]
    if tokens.chat and turn is not None and not turn["ends"]:
        yield Finding(
            code="turn-end-unknown",
            weight="warns",
            text=f"the template ends an answer with `{turn['token']}`, but a completion ends with {names} alone",
            next_action="add it to `eos_token_id` of the generation config, or completions will run to the cap",
        )
    yield from _pad(facts)


def _pad(facts: Mapping[str, Any]) -> Iterator[Finding]:
    pad, ends = facts["pad_token_id"], facts["end_ids"]
    if facts["no_pad_token"]:
        text = "no pad token: TRL pads with the end token, by length, so no end is lost"
    elif pad in ends:
        text = "the pad token is an end token: TRL pads by length, so no end is lost"
    else:
        text = "the pad token is no end token"
    yield Finding(code="pad-is-end", weight="fine", text=text, next_action=None)


def _version(text: str | None) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(int(part) for part in numbers.groups()) if numbers else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
