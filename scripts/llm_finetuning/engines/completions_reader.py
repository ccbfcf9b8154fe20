"""Read TRL's tables of completions, Parquet files, with pyarrow.

Job: `{"paths"}`. Records: `table` with `path` and `rows`, a dictionary each, in the order of the paths. A table that is
torn, as the last one of a run that is being killed, is left out unless no other can be read.
"""

import math
from typing import Any

from llm_finetuning.engines import protocol


def read(job: protocol.Job, send: protocol.Send) -> None:
    """Send the tables; fails in one line where none can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    refused: list[str] = []
    sent = 0
    for path in job["paths"]:
        try:
            rows = pq.read_table(path).to_pylist()
        except (OSError, pa.ArrowException) as fault:
            said = protocol.words_of(fault)
            refused.append(f"{path}: cannot be read as Parquet ({said}); remove it, or copy it again")
            continue
        send({"kind": "table", "path": path, "rows": plain(rows)})
        sent += 1
    if refused and not sent:
        raise protocol.bad_input(*refused)


def plain(value: Any) -> Any:
    """Return JSON values: no number where there is none, and text for what JSON has no form for."""
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


if __name__ == "__main__":
    protocol.serve(read)
