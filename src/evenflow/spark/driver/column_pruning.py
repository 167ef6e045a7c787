"""Which columns of a source are brought to Python: those that some query needs.

Every column of every row costs time on its way from the JVM, so a source is projected before the
router, when Spark's query starts. Rows whose event time cannot be used are kept whole for whoever
looks for the mistake: they, and only they, carry their other columns in one more column.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.spark.protocol.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SourceColumns = Mapping[str, tuple[str, ...]]
POISON_REST_COLUMN = "_evenflow_rest"
# A list that is NULL costs nothing on the way, a struct all its fields. Two days inside the
# router's own bounds, since a time without zone is compared in the session's.
_POISON_REST_SQL = """CASE WHEN {time} IS NULL OR {time} < '1900-01-03' OR {time} >= '2199-12-30'
THEN array(struct({others})) END"""


def needed_columns(registries: Sequence[Registry], sources: Sequence[str]) -> SourceColumns:
    """Return the columns of each source that any of the registries needs, in the source's order."""
    found = {}
    for name in sources:
        wanted = {column for registry in registries for column in registry.needed_columns(name)}
        schema = registries[0].streams[name].schema
        found[name] = tuple(column for column in schema.names if column in wanted)
    return found


def covers_columns(given: SourceColumns, wanted: SourceColumns) -> bool:
    """Tell whether a projection has every column of another."""
    return all(set(columns) <= set(given[name]) for name, columns in wanted.items())


def prune_columns(frame: "DataFrame", columns: Sequence[str], time: str) -> "DataFrame":
    """Project a source; what is left out stays only with rows that will be set aside."""
    others = [_quoted(column) for column in frame.columns if column not in columns]
    if not others:
        return frame
    rest = _POISON_REST_SQL.format(time=_quoted(time), others=", ".join(others))
    return frame.select(
        *(F.col(_quoted(c)) for c in columns), F.expr(rest).alias(POISON_REST_COLUMN)
    )


def select_needed(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Return the columns that the queries of a batch need, in the types of the stream."""
    missing = [column for column in columns if column not in rows.column_names]
    if missing:
        raise RuntimeError(f"the source was not asked for {missing[0]!r}; start the run anew")
    return rows.select(columns).cast(pa.schema([schema.field(column) for column in columns]))


def restore_poison_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Put rows that were set aside together with the columns that came beside."""
    if POISON_REST_COLUMN in rows.column_names:
        rest = rows[POISON_REST_COLUMN].combine_chunks().flatten()
        fields = zip(rest.type, rest.flatten(), strict=True)
        rows = rows.drop_columns([POISON_REST_COLUMN])
        for entry, values in fields:
            rows = rows.append_column(entry.name, values)
    return rows.select(schema.names).cast(schema)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
