"""Write rows as a Parquet file that the `datasets` library loads.

Job: `{"rows", "path"}`. Record: `written` with the number of rows. The caller names a file that is not there yet.
"""

from llm_finetuning.engines import protocol


def write(job: protocol.Job, send: protocol.Send) -> None:
    """Write the rows; fails in one line for a column whose values have no common type, and for a full disk."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.write_table(pa.Table.from_pylist(job["rows"]), job["path"])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
        said = protocol.words_of(fault)
        raise protocol.bad_input(f"{job['path']}: a column has values of several kinds ({said})") from fault
    except OSError as fault:
        raise protocol.machinery(f"{job['path']}: cannot be written ({fault})") from fault
    send({"kind": "written", "rows": len(job["rows"])})


if __name__ == "__main__":
    protocol.serve(write)
