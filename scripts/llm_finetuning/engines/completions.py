"""Token ids to the completions of a group record, and the seeds they are drawn from; standard library only."""

import hashlib
from collections.abc import Iterable
from typing import Any


def completion(ids: list[int], tokenizer: Any, end_ids: list[int]) -> dict[str, Any]:
    """Return one completion: cut behind its first end token, which `ids` and `tokens` keep and `text` does not."""
    end = next((place for place, token in enumerate(ids) if token in end_ids), None)
    own = ids if end is None else ids[: end + 1]
    return {
        "text": tokenizer.decode(own, skip_special_tokens=True),
        "ids": own,
        "tokens": len(own),
        "finish_reason": "length" if end is None else "stop",
    }


def seed_of_batch(seeds: Iterable[int]) -> int:
    """Return the one seed that the requests' seeds make together, for an engine that draws a batch at once."""
    return _digest("batch", *seeds)


def seed_of_completion(seed: int, index: int) -> int:
    """Return the seed of one completion of a request; requests with neighbouring seeds share no draws."""
    return _digest("completion", seed, index)


def _digest(*parts: object) -> int:
    """Return 31 bits of a digest: some servers keep a seed in a signed 32-bit number."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1
