"""Rows at the border: types on the way in and out, sane times, bytes for the way between tasks."""

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql.types import NULL, canonical_type, physical_type

MIN_EVENT_TIME_US = -2_208_988_800_000_000  # 1900
MAX_EVENT_TIME_US = 7_258_118_400_000_000  # 2200


def to_physical_types(rows: pa.Table) -> pa.Table:
    """Bring rows from outside to the types used between nodes."""
    wanted = pa.schema(
        [pa.field(f.name, physical_type(canonical_type(f.type))) for f in rows.schema]
    )
    if rows.schema.equals(wanted):
        return rows
    return rows.cast(wanted)


def to_result_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give results Spark's types."""
    rows = rows.rename_columns(schema.names)
    for at, entry in enumerate(schema):
        if entry.type == NULL:
            rows = rows.set_column(at, entry, pa.nulls(len(rows)))
    return rows.cast(schema)


def valid_time_mask(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tell which event times are there and between 1900 and 2200."""
    moments = times.cast(pa.timestamp("us")).cast(pa.int64())
    inside = pc.and_(
        pc.greater_equal(moments, MIN_EVENT_TIME_US), pc.less_equal(moments, MAX_EVENT_TIME_US)
    )
    return pc.fill_null(inside, False)


def table_to_ipc(table: pa.Table) -> bytes:
    """Write a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
