"""Tokenize every prompt as TRL 1.16.0's GRPOTrainer does, without weights, and tell what the template does.

Job: `{"model", "prompts": [{"row", "prompt"}], "chat_template_kwargs"}`. Records: `tokens` with `rows` and `counts` of
a part of the prompts, `refused` with `rows` and `words` where the chat template takes a prompt for no conversation,
and at last `facts`. Source: `GRPOTrainer._tokenize_prompts` and `__init__` (trl/trainer/grpo_trainer.py, 1.16.0).
"""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_finetuning.engines import checkpoint, hub, prompts, protocol

CHUNK = 500  # prompts of one call
TAIL_TOKENS = 24  # of a prompt, in which an opened thought is looked for
TAIL_CHARACTERS = 120
_MARK = "finished"  # what the assistant says in the conversation whose end is looked at


def read(job: protocol.Job, send: protocol.Send) -> None:
    """Send the token counts of every prompt, then the facts; fails for a model whose tokenizer cannot be loaded."""
    model = job["model"]
    if model.startswith("/") and not Path(model).is_dir():
        raise protocol.bad_input(f"{model}: no such model folder; name an existing one or a hub id")
    hub.go_offline_when_silent(model)
    config = checkpoint.load_config(model)
    tokenizer = checkpoint.load_tokenizer(model)
    reader = Reader(tokenizer, job.get("chat_template_kwargs") or {})
    wanted = job["prompts"]
    for begin in range(0, len(wanted), CHUNK):
        part = wanted[begin : begin + CHUNK]
        ids = reader.ids([request["prompt"] for request in part])
        read_rows = [(request["row"], own) for request, own in zip(part, ids, strict=True) if isinstance(own, list)]
        for row, own in read_rows:
            reader.look(row, own)
        send({"kind": "tokens", "rows": [row for row, _ in read_rows], "counts": [len(own) for _, own in read_rows]})
        refused = [(request["row"], own) for request, own in zip(part, ids, strict=True) if isinstance(own, str)]
        if refused:
            send({"kind": "refused", "rows": [row for row, _ in refused], "words": [words for _, words in refused]})
    own_facts = checkpoint.facts(model, config, tokenizer, checkpoint.load_generation_config(model))
    facts = {**own_facts, **reader.facts(own_facts["end_ids"]), "trl_version": _version("trl")}
    send({"kind": "facts", "facts": facts})


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Reader:
    """Renders and tokenizes prompts, and remembers in which rows something stands out."""

    def __init__(self, tokenizer: Any, template_kwargs: dict[str, Any]) -> None:
        """Take a tokenizer as TRL loads it."""
        self._tokenizer = tokenizer
        self._kwargs = template_kwargs
        self._template = prompts.chat_template(tokenizer)
        self._opened: dict[str, list[int]] = {}
        self._starts: dict[int, list[int]] = {}  # number of leading start tokens -> rows
        self._empty: list[int] = []
        self._tail: str | None = None

    def ids(self, part: Sequence[Any]) -> list[list[int] | str]:
        """Return each prompt's tokens, or in words why the template does not take it; all are of one form."""
        if isinstance(part[0], str):
            return list(self._tokenizer(text=list(part))["input_ids"])
        if self._template is None:
            return ["the tokenizer has no chat template"] * len(part)
        try:
            return self._rendered(part)
        except Exception:  # noqa: BLE001  a template is a program and may raise anything; which prompt it was is asked next
            return [self._alone(prompt) for prompt in part]

    def _rendered(self, part: Sequence[Any]) -> list[list[int] | str]:
        found = self._tokenizer.apply_chat_template(
            conversation=list(part), add_generation_prompt=True, tokenize=True, return_dict=True, **self._kwargs
        )
        return list(found["input_ids"])

    def _alone(self, prompt: Any) -> list[int] | str:
        try:
            return self._rendered([prompt])[0]
        except Exception as fault:  # noqa: BLE001  likewise; its words are the finding
            return protocol.words_of(fault)

    def look(self, row: int, ids: list[int]) -> None:
        """Remember what stands out in one prompt's tokens."""
        if not ids:
            self._empty.append(row)
            return
        tail = str(self._tokenizer.decode(ids[-TAIL_TOKENS:]))
        self._tail = self._tail or tail[-TAIL_CHARACTERS:]
        opened = prompts.OPEN_THOUGHT.search(tail)
        if opened:
            self._opened.setdefault(opened[1], []).append(row)
        start = self._tokenizer.bos_token_id
        leading = next((place for place, token in enumerate(ids) if token != start), len(ids))
        self._starts.setdefault(leading, []).append(row)

    def facts(self, end_ids: list[int]) -> dict[str, Any]:
        """Return what stood out, with its rows, and what the template does at the end of an answer."""
        tokenizer = self._tokenizer
        starts = {count: rows for count, rows in self._starts.items() if tokenizer.bos_token_id is not None}
        return {
            "has_chat_template": self._template is not None,
            "opened_thoughts": self._opened,
            "doubled_start_rows": sorted(row for count, rows in starts.items() if count > 1 for row in rows),
            "rows_without_start": starts.get(0, []),
            "tokenizer_adds_start": _first(tokenizer(text="a")["input_ids"]) == tokenizer.bos_token_id is not None,
            "start_token": tokenizer.bos_token,
            "no_pad_token": tokenizer.init_kwargs.get("pad_token") is None,
            "end_tokens": tokenizer.convert_ids_to_tokens(end_ids),
            "empty_rows": self._empty,
            "tail": self._tail,
            "turn_end": self._turn_end(end_ids),
        }

    def _turn_end(self, end_ids: list[int]) -> dict[str, Any] | None:
        """Return the token that the template writes behind an answer and whether it ends a completion."""
        if self._template is None:
            return None
        talk = [{"role": "user", "content": "question"}, {"role": "assistant", "content": _MARK}]
        try:
            rendered = self._tokenizer.apply_chat_template(talk, tokenize=False, **self._kwargs)
        except Exception:  # noqa: BLE001  some templates take no finished conversation; then nothing is known
            return None
        rest = rendered.rpartition(_MARK)[2].strip()
        first = _first(self._tokenizer(text=rest, add_special_tokens=False)["input_ids"]) if rest else None
        if first is None:
            return None
        return {"token": self._tokenizer.convert_ids_to_tokens(first), "ends": first in end_ids}


def _first(ids: Sequence[int]) -> int | None:
    return next(iter(ids), None)


if __name__ == "__main__":
    protocol.serve(read)
