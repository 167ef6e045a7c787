"""Column pruning: sources deliver only the columns that some query needs.

Every column costs time between the JVM and Python, so a source is projected before the router, when
Spark's query starts. Poison rows are stored whole, so that users can find the mistake: they, and
only they, carry their other columns in one extra column.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.spark.protocol.envelope import POISON_REST_COLUMN
from evenflow.spark.protocol.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SourceColumns = Mapping[str, tuple[str, ...]]
# A NULL list costs nothing, a NULL struct all its fields. The bounds are two days inside those of
# `model.time`, since a time without zone is compared in the session's zone.
_POISON_REST_SQL = """CASE WHEN {time} IS NULL OR {time} < '1900-01-03' OR {time} >= '2199-12-30'
{or_ahead} THEN array(struct({others})) END"""
# In a streaming query `current_timestamp` is the clock of the batch, also if it runs again.
_OR_AHEAD_SQL = "OR {time} > timestampadd(MICROSECOND, {max_ahead_us}, current_timestamp())"


def needed_columns(registries: Sequence[Registry], sources: Sequence[str]) -> SourceColumns:
    """Return the columns of each source that any of the registries needs, in source order."""
    needed = {}
    for name in sources:
        columns = {column for registry in registries for column in registry.needed_columns(name)}
        schema = max((r.streams[name].schema for r in registries), key=len)  # it may be widened
        needed[name] = tuple(column for column in schema.names if column in columns)
    return needed


def covers_columns(delivered: SourceColumns, needed: SourceColumns) -> bool:
    """Tell whether all needed columns are delivered."""
    return all(set(columns) <= set(delivered[name]) for name, columns in needed.items())


def prune_columns(
    frame: "DataFrame", columns: Sequence[str], time: str, max_ahead_us: int | None
) -> "DataFrame":
    """Select columns of a source; only poison rows keep the others, in the extra column."""
    others = [_quoted(column) for column in frame.columns if column not in columns]
    if not others:
        return frame
    or_ahead = ""
    if max_ahead_us is not None:
        or_ahead = _OR_AHEAD_SQL.format(time=_quoted(time), max_ahead_us=max_ahead_us)
    rest = _POISON_REST_SQL.format(time=_quoted(time), or_ahead=or_ahead, others=", ".join(others))
    return frame.select(
        *(F.col(_quoted(c)) for c in columns), F.expr(rest).alias(POISON_REST_COLUMN)
    )


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
