"""`choice_answer`: the one option that a completion names is the gold's; hedges and ordinary words are no choice."""

from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.choices import Choice, letter_of, read_choice
from llm_finetuning.rewards.contract import Judgement, LogExtra, report, text_of
from llm_finetuning.rewards.extraction import POLICIES, extract
from llm_finetuning.rewards.maths import words
from llm_finetuning.types import Text

_LETTERS = "ABCDEFGHIJ"


class ChoiceAnswer:
    """Pays 1.0 for the gold's option, 0.0 for another, several or none; abstains where the gold names no option.

    Options: `extract`, one of `extraction.POLICIES`; `answer_column`, the column of the gold: a letter, `(B) 24`, or,
    with `choices_column`, also the option's number from 0 or its text; `choices_column`, the column with the list of
    the options' texts, which makes an option's text an answer too; `letters`, those that exist, A to J by default.
    """

    range = (0.0, 1.0)

    def __init__(
        self,
        *,
        extract: str = "final",
        answer_column: str = "answer",
        choices_column: str | None = None,
        letters: str = _LETTERS,
    ) -> None:
        """Take the options of the brief; raises ValueError for a policy or letters that do not exist."""
        if extract not in POLICIES:
            raise ValueError(f"extract: {extract!r} is not one of {', '.join(POLICIES)}")
        if not letters or not _LETTERS.startswith(letters.upper()):
            raise ValueError(f"letters: {letters!r} is not the beginning of {_LETTERS}")
        self.__name__ = "choice_answer"
        self._policy = extract
        self._answer_column = answer_column
        self._choices_column = choices_column
        self._letters = letters.upper()

    def __call__(
        self, *, completions: Sequence[Text], log_extra: LogExtra | None = None, **columns: Any
    ) -> list[float | None]:
        """Return one value a completion; raises KeyError if a column that was named is not there at all."""
        golds = columns[self._answer_column]
        options = [None] * len(golds) if self._choices_column is None else columns[self._choices_column]
        judgements = [
            self._judge(text_of(text), gold, [str(option) for option in listed or []])
            for text, gold, listed in zip(completions, golds, options, strict=True)
        ]
        return report(log_extra, self.__name__, judgements)

    def _judge(self, text: str, gold: Any, options: Sequence[str]) -> Judgement:
        wanted = self._gold(gold, options)
        if wanted is None:
            return Judgement(None, "gold_unreadable")
        found = extract(self._policy, text)
        if found.answer is None:
            return Judgement(0.0, found.reason)
        said = self._named(found.answer, options)
        if not said:
            return Judgement(0.0, "no_choice")
        return Judgement(float(said == wanted), "correct" if said == wanted else "wrong")

    def _gold(self, gold: Any, options: Sequence[str]) -> str | None:
        """Return the gold's letter, None if it names no option."""
        if isinstance(gold, int) and not isinstance(gold, bool):
            return self._letters[gold] if 0 <= gold < min(len(options), len(self._letters)) else None
        choice = read_choice(str(gold or ""))
        if choice is not None and choice.letter in self._letters:
            return choice.letter
        return self._letter_of_text(str(gold or ""), options) or None

    def _named(self, answer: str, options: Sequence[str]) -> str:
        """Return the letter that the answer names, '' for none or several."""
        choice: Choice | None = letter_of(answer)
        if choice is None:
            return self._letter_of_text(answer, options)
        if choice.letter not in self._letters:
            return ""
        if choice.text and options:
            # `B) Paris` where Paris is C says two things.
            spoken = self._letter_of_text(choice.text, options)
            return choice.letter if spoken in {"", choice.letter} else ""
        return choice.letter

    def _letter_of_text(self, text: str, options: Sequence[str]) -> str:
        said = words.folded(text)
        matching = [
            letter
            for letter, option in zip(self._letters, options, strict=False)
            if said and words.folded(option) == said
        ]
        return matching[0] if len(matching) == 1 else ""
