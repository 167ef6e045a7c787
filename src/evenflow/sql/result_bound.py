"""The bound on what one query returns in one batch.

A result is outside DuckDB's memory limit as soon as it is Arrow, so it is fetched in chunks, and
the query fails at the bound instead of filling the memory of the process.
"""

import pyarrow as pa

from evenflow.sql.failures import QueryFailed

MAX_RESULT_ROWS = 20_000_000
MAX_RESULT_BYTES = 512 << 20
RESULT_CHUNK_ROWS = 122_880  # DuckDB's own unit of rows


def read_bounded(reader: pa.RecordBatchReader) -> pa.Table:
    """Read a result, up to the bound."""
    chunks, rows, size = [], 0, 0
    with reader:
        for chunk in reader:
            rows, size = rows + chunk.num_rows, size + chunk.nbytes
            check_result(rows, size)
            chunks.append(chunk)
        return pa.Table.from_batches(chunks, reader.schema)


def check_result(rows: int, size: int) -> None:
    """Fail a query that returns too much in one batch."""
    if rows > MAX_RESULT_ROWS or size > MAX_RESULT_BYTES:
        raise QueryFailed(
            "result",
            f"it returns more than {MAX_RESULT_ROWS:,} rows or {MAX_RESULT_BYTES >> 20} MB in one "
            "batch; narrow its joins or conditions",
        )
