"""An evaluation as rows of a table, one a completion."""

import json
from collections.abc import Sequence
from typing import Any

from llm_finetuning.types import Evaluation, Sample


def rows_of(found: Evaluation, samples: Sequence[Sample], *, success: Sequence[bool | None]) -> list[dict[str, Any]]:
    """Return one row a completion; `samples` are in the order of items and completions, `success` goes with them.

    A column has one kind of value in every row, as a table needs: other columns of the data set stand together as JSON.
    """
    items = {item.prompt_id: item for item in found.items}
    rows = []
    for sample, passed in zip(samples, success, strict=True):
        item = items[sample.prompt_id]
        rows.append(
            {
                "id": item.prompt_id,
                "index": sample.index,
                "bucket": item.bucket,
                "source": item.source,
                "model": found.model,
                "prompt": sample.prompt,
                "completion": sample.completion,
                "columns": json.dumps(sample.columns, ensure_ascii=False),
                "success": passed,
                "grade": item.grades[sample.index],
                "reward": item.rewards[sample.index],
                **{f"value/{name}": paid[sample.index] for name, paid in item.values.items()},
                "tokens": sample.tokens,
                "finish_reason": sample.finish_reason,
            }
        )
    return rows
