"""`repetition_penalty`: takes for runs of tokens that were there before.

Source: appendix C.2 of Demystifying Long Chain-of-Thought Reasoning (Yeo et al., 2025, arXiv:2502.03373). The values
are those of TRL 1.16.0's `get_repetition_penalty_reward`.
"""

import math
from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, report


class RepetitionPenalty:
    """Pays `max_penalty` times the share of a completion's n-grams of tokens that repeat an earlier one; else 0.

    A completion of fewer than `ngram_size` tokens has none. It abstains only where the token ids are not known.
    """

    def __init__(self, *, ngram_size: int = 3, max_penalty: float = -1.0) -> None:
        """Take the length of an n-gram in tokens and the lowest value; raises ValueError where either is out of range.

        `ngram_size` is at least 1, `max_penalty` below 0 and finite.
        """
        if isinstance(ngram_size, bool) or not isinstance(ngram_size, int) or ngram_size < 1:
            raise ValueError(f"ngram_size: {ngram_size!r} is not a whole number of tokens from 1 on")
        if not -math.inf < max_penalty < 0:
            raise ValueError(f"max_penalty: {max_penalty!r} is not below 0; it is the lowest value that is paid")
        self.__name__ = "repetition_penalty"
        self.range = (float(max_penalty), 0.0)
        self.from_tokens = ngram_size  # up to this length nothing can repeat
        self._size = ngram_size

    def __call__(
        self, *, completion_ids: Sequence[Sequence[int] | None], log_extra: LogExtra | None = None, **_: Any
    ) -> list[float | None]:
        """Return one value a completion, from its token ids alone."""
        return report(log_extra, self.__name__, [self._judge(ids) for ids in completion_ids])

    def _judge(self, ids: Sequence[int] | None) -> Judgement:
        if ids is None:
            return Judgement(None, "no_token_ids")
        n = len(ids) - self._size + 1
        if n < 1:
            return Judgement(0.0, "too_short_to_repeat")
        distinct = len(set(zip(*(ids[place:] for place in range(self._size)), strict=False)))
        if distinct == n:
            return Judgement(0.0, "no_repetition")
        return Judgement((1 - distinct / n) * self.range[0], "repeats")
