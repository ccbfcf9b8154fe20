"""`soft_overlong`: DAPO's punishment of completions that come near the length limit.

Source: equation 13 of DAPO (Yu et al., 2025, arXiv:2503.14476). The values are those of TRL 1.16.0's
`get_soft_overlong_punishment`, with settings refused under which that one punishes an empty completion.
"""

from collections.abc import Sequence
from typing import Any

from llm_finetuning.rewards.contract import Judgement, LogExtra, report


class SoftOverlong:
    """Pays 0 up to `max_completion_len - soft_punish_cache` tokens, then falls in a line to -1 at the limit.

    Beyond the limit it stays at -1. It abstains only where the token ids are not known.
    """

    range = (-1.0, 0.0)
    token_caps = ("max_completion_len",)  # the brief's `sampling.max_completion_length` where it is left out

    def __init__(self, *, max_completion_len: int, soft_punish_cache: int) -> None:
        """Take the limit and the width of the punished stretch before it, in tokens; 0 is a hard step.

        Raises ValueError for a limit below 1 and for a stretch that is negative or wider than the limit.
        """
        if isinstance(max_completion_len, bool) or not isinstance(max_completion_len, int) or max_completion_len < 1:
            raise ValueError(f"max_completion_len: {max_completion_len!r} is not a whole number of tokens from 1 on")
        if isinstance(soft_punish_cache, bool) or not isinstance(soft_punish_cache, int):
            raise ValueError(f"soft_punish_cache: {soft_punish_cache!r} is not a whole number of tokens")  # noqa: TRY004
        if not 0 <= soft_punish_cache <= max_completion_len:
            raise ValueError(
                f"soft_punish_cache: {soft_punish_cache} is not from 0 to max_completion_len ({max_completion_len}); "
                "a wider one would punish the empty completion"
            )
        self.__name__ = "soft_overlong"
        self.from_tokens = max_completion_len - soft_punish_cache  # up to this length nothing is lost
        self._limit = max_completion_len
        self._cache = soft_punish_cache

    def __call__(
        self, *, completion_ids: Sequence[Sequence[int] | None], log_extra: LogExtra | None = None, **_: Any
    ) -> list[float | None]:
        """Return one value a completion, from its number of tokens alone."""
        return report(log_extra, self.__name__, [self._judge(ids) for ids in completion_ids])

    def _judge(self, ids: Sequence[int] | None) -> Judgement:
        if ids is None:
            return Judgement(None, "no_token_ids")
        if len(ids) <= self.from_tokens:
            return Judgement(0.0, "short_enough")
        if len(ids) <= self._limit:
            return Judgement((self.from_tokens - len(ids)) / self._cache, "near_limit")
        return Judgement(-1.0, "over_limit")
