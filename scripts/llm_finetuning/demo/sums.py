"""Two-digit sums as data sets, and the program that knows them."""

import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llm_finetuning.demo.sizes import Sizes

if TYPE_CHECKING:
    from llm_finetuning.types import Text

ROWS = 200
SEED = 7
LEAST, MOST = 10, 99

Rows = list[dict[str, Any]]


def with_example(count: int = ROWS, seed: int = SEED) -> Rows:
    """Return two-digit sums as data set rows; one worked example shows the model the form of an answer."""
    drawn = random.Random(seed)  # noqa: S311  not a secret
    pairs = drawn.sample([(a, b) for a in range(LEAST, MOST + 1) for b in range(LEAST, MOST + 1)], count)
    return [
        {
            "id": f"{a}+{b}",
            "prompt": [
                {"role": "user", "content": "What is 23 + 45?"},
                {"role": "assistant", "content": "23 + 45 = 68. The answer is 68."},
                {"role": "user", "content": f"What is {a} + {b}?"},
            ],
            "answer": str(a + b),
        }
        for a, b in pairs
    ]


def plain(sizes: Sizes, seed: int = SEED) -> tuple[Rows, Rows, Rows]:
    """Return rows without an example: demonstrations, those to train on, and held-out ones.

    No sum stands in two of them, in neither order of its parts. What each set holds does not depend on the sizes of the
    other two.
    """
    pairs = [(a, b) for a in range(LEAST, MOST + 1) for b in range(a, MOST + 1)]
    drawn = random.Random(seed)  # noqa: S311  not a secret
    drawn.shuffle(pairs)
    turned = [pair if drawn.random() < 1 / 2 else pair[::-1] for pair in pairs]
    third = len(turned) // 3
    parts = [turned[:third], turned[third : 2 * third], turned[2 * third :]]
    counts = (sizes.sft_rows, sizes.rows, sizes.held_out)
    assert max(counts) <= third, "there are 1365 sums for each set"
    demonstrations, train, held_out = (
        [_row(a, b) for a, b in part[:count]] for part, count in zip(parts, counts, strict=True)
    )
    return list(_shown(demonstrations)), train, held_out


def _row(a: int, b: int) -> dict[str, Any]:
    question = [{"role": "system", "content": "Add."}, {"role": "user", "content": f"What is {a} + {b}?"}]
    return {"id": f"{a}+{b}", "prompt": question, "answer": str(a + b)}


def _shown(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield each row with the answer in the wanted form, as the assistant's message."""
    for row in rows:
        said = {"role": "assistant", "content": f"The answer is {row['answer']}."}
        yield {"id": row["id"], "prompt": row["prompt"], "completion": [said]}


def oracle(prompt: "Text", completion: "Text") -> bool:
    """Tell whether the last number of a completion is the sum its prompt asks for.

    Knows the sum from the prompt, never from the gold, and shares no code with the rewards.
    """
    said = re.findall(r"\d+(?:\.\d+)?", _content(completion).replace(",", ""))
    return bool(said) and float(said[-1]) == _asked(prompt)


def strict_oracle(prompt: "Text", completion: "Text") -> bool:
    """Tell whether a completion is the sum in the wanted form, with its full stop or without, and nothing else."""
    return _content(completion).strip().removesuffix(".") == f"The answer is {_asked(prompt)}"


def _asked(prompt: "Text") -> int:
    first, second = (int(word) for word in re.findall(r"\d+", _content(prompt)))
    return first + second


def _content(text: "Text") -> str:
    return text if isinstance(text, str) else str(text[-1]["content"])
