"""What a family of probes is given, one prompt at a time, and what it makes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llm_finetuning.probes.golds import Gold
from llm_finetuning.types import Text

Write = Callable[[str], str]
"""An answer in, a whole completion out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt with its gold, before it is known how the reward is honestly earned."""

    prompt_id: str
    row: int
    prompt: Text
    columns: Mapping[str, Any]
    gold: Gold
    wrong: Sequence[str]  # answers of the gold's kind that are wrong by much
    chat: bool  # completions are lists of messages
    opened: bool  # the prompt ends with an opened thought
    best: str | None  # the best-paid real completion
    values_count: bool = True  # whether some reward compares with the gold at all
    tests: Any = None  # unit tests, where a column holds them
    tools: Any = None
    schema: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prompt and the form in which this reward pays right answers to it."""

    prompt: Prompt
    form: str  # name of the winning form
    write: Write
    accepts: frozenset[str]  # names of all forms that are paid like the winning one
    reasons: bool  # prompts, samples or the form have thinking tags
    letters: Sequence[str] = ()  # the options that golds of this data set name
    others: Sequence[str] = ()  # golds of other rows
    strict: bool = False  # the prompt asks for the answer and nothing else
    fenced: bool = False  # the prompt allows or asks for a code fence
    asks_letter: bool = False  # the prompt asks for a letter, in no form of its own
    characters: int = 4000  # that fit into `max_completion_length`
    tolerance: float = 0.0  # relative, where the brief grants one
    options: Mapping[str, Any] = field(default_factory=dict)  # of all library rewards together

    @property
    def gold(self) -> Gold:
        """Return the prompt's gold."""
        return self.prompt.gold

    @property
    def right(self) -> str:
        """Return the honest completion."""
        return self.write(self.gold.answer)

    @property
    def other(self) -> str:
        """Return an answer that is certainly wrong."""
        return self.prompt.wrong[0] if self.prompt.wrong else ""

    @property
    def marked(self) -> bool:
        """Tell whether the form sets the answer apart with a marker that has two ends, or a line of its own."""
        return any(mark in self.form for mark in ("box", "tag", "hash"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One completion that a family tries."""

    text: str
    about: str
    weighs: Literal["blocks", "warns"] = "blocks"
    control: str | None = None  # an honest completion of the same shape
    columns: Mapping[str, Any] | None = None  # columns that differ from the prompt's own
    earns_at: float = 0.5
    answer_is_right: bool = True  # of the control
