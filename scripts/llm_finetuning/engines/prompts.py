"""Prompts to token ids, as TRL 1.16.0's GRPOTrainer does it, with every prompt checked before the first is sampled.

A chat prompt goes through the chat template with the generation prompt added, whatever its last message is; a text
prompt gets the tokenizer's special tokens.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from llm_finetuning.engines import protocol

# A tag that opens a thought, as the last thing of a rendered prompt: the completion then never holds the tag itself.
OPEN_THOUGHT = re.compile(r"(<\|?[\w:]*(?:think|thinking|thought|reasoning)\|?>|\[THINK\]|◁think▷)\s*\Z", re.IGNORECASE)

DOUBLED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt of a batch, ready for an engine."""

    prompt_id: str
    pass_name: str
    ids: list[int]  # the prompt's tokens
    n: int  # completions wanted
    temperature: float
    seed: int


def prepare(
    job: protocol.Job, tokenizer: Any, context_length: int | None
) -> tuple[list[list[Request]], dict[str, Any]]:
    """Return the job's batches as token ids, and what the prompts look like; lists all bad prompts at once."""
    renderer = _Renderer(tokenizer, job.get("chat_template_kwargs") or {})
    wanted = job["sampling"]["max_completion_length"]
    ids_of: dict[str, list[int]] = {}
    faults: list[str] = []
    for request in (request for batch in job["batches"] for request in batch):
        if request["prompt_id"] in ids_of:  # the same prompt in another pass
            continue
        try:
            ids = renderer.ids(request["prompt"], request["row"])
        except protocol.Failure as failure:
            faults += failure.lines
            ids = [0]
        if context_length is not None and len(ids) + wanted > context_length:
            faults.append(
                f"row {request['row']}: {len(ids)} prompt tokens and max_completion_length {wanted} exceed the model's "
                f"{context_length}; shorten the prompt or lower sampling.max_completion_length"
            )
        ids_of[request["prompt_id"]] = ids
    if faults:
        raise protocol.bad_input(*dict.fromkeys(faults))
    batches = [
        [_request(request, ids_of[request["prompt_id"]]) for request in batch] for batch in job["batches"] if batch
    ]
    return batches, renderer.facts()


def _request(request: dict[str, Any], ids: list[int]) -> Request:
    return Request(
        prompt_id=request["prompt_id"],
        pass_name=request["pass_name"],
        ids=ids,
        n=request["n"],
        temperature=request["temperature"],
        seed=request["seed"],
    )


class _Renderer:
    """Renders and tokenizes prompts, and remembers what a later stage wants to know about them."""

    def __init__(self, tokenizer: Any, template_kwargs: dict[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._template_kwargs = template_kwargs
        self._template = chat_template(tokenizer)
        self._open_thoughts: dict[str, int] = {}
        self._doubled_start: list[int] = []
        self._ends_with_assistant: list[int] = []
        self._first: list[int] | None = None

    def ids(self, prompt: str | list[dict[str, Any]], row: int) -> list[int]:
        if isinstance(prompt, str):
            rendered = prompt
            ids = self._tokenizer(text=prompt)["input_ids"]
        else:
            rendered, ids = self._chat(prompt, row)
        if not ids:
            raise protocol.bad_input(f"row {row}: the prompt is empty, the model would have nothing to continue")
        self._note(rendered, list(ids), row)
        return list(ids)

    def _chat(self, messages: list[dict[str, Any]], row: int) -> tuple[str, list[int]]:
        if self._template is None:
            raise protocol.bad_input(
                "the prompts are chat messages but the model's tokenizer has no chat template; "
                "use an instruct model, or give the prompts as plain text"
            )
        try:
            rendered = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, **self._template_kwargs
            )
            ids = self._tokenizer.apply_chat_template(
                [messages], add_generation_prompt=True, tokenize=True, return_dict=True, **self._template_kwargs
            )["input_ids"][0]
        except Exception as fault:  # a template is a program and may raise anything
            said = next((line for line in str(fault).splitlines() if line.strip()), type(fault).__name__)
            raise protocol.bad_input(
                f"row {row}: the chat template refuses the messages ({said}); mend the row's roles and contents"
            ) from fault
        if messages and messages[-1].get("role") == "assistant":
            self._ends_with_assistant.append(row)
        return rendered, ids

    def _note(self, rendered: str, ids: list[int], row: int) -> None:
        self._first = self._first or ids
        opened = OPEN_THOUGHT.search(rendered)
        if opened:
            self._open_thoughts[opened[1]] = self._open_thoughts.get(opened[1], 0) + 1
        if ids[:DOUBLED] == [self._tokenizer.bos_token_id] * DOUBLED:
            self._doubled_start.append(row)

    def facts(self) -> dict[str, Any]:
        template = self._template
        return {
            "chat_template_sha256": None if template is None else hashlib.sha256(template.encode()).hexdigest(),
            "open_thought": max(self._open_thoughts, key=self._open_thoughts.__getitem__, default=None),
            "doubled_start_rows": self._doubled_start,
            "ends_with_assistant_rows": self._ends_with_assistant,
            "first_prompt_ids": self._first,
        }


def chat_template(tokenizer: Any) -> str | None:
    """Return the template that plain chat prompts go through; None where the tokenizer has none."""
    if not tokenizer.chat_template:
        return None
    try:
        return str(tokenizer.get_chat_template())
    except ValueError:  # several named templates, none of them the default
        return None
