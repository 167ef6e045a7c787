"""Column pruning: sources deliver only the columns that some query needs.

Every column costs time between the JVM and Python, so a source is projected before the router, when
Spark's query starts. Poison rows are stored whole, so that users can find the mistake: they, and
only they, carry their other columns in one extra column.
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
# A NULL list costs nothing, a NULL struct all its fields. The bounds are two days inside those of
# `model.time`, since a time without zone is compared in the session's zone.
_POISON_REST_SQL = """CASE WHEN {time} IS NULL OR {time} < '1900-01-03' OR {time} >= '2199-12-30'
THEN array(struct({others})) END"""


def needed_columns(registries: Sequence[Registry], sources: Sequence[str]) -> SourceColumns:
    """Return the columns of each source that any of the registries needs, in source order."""
    needed = {}
    for name in sources:
        columns = {column for registry in registries for column in registry.needed_columns(name)}
        schema = registries[0].streams[name].schema
        needed[name] = tuple(column for column in schema.names if column in columns)
    return needed


def covers_columns(delivered: SourceColumns, needed: SourceColumns) -> bool:
    """Tell whether all needed columns are delivered."""
    return all(set(columns) <= set(delivered[name]) for name, columns in needed.items())


def prune_columns(frame: "DataFrame", columns: Sequence[str], time: str) -> "DataFrame":
    """Select columns of a source; only poison rows keep the others, in the extra column."""
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
