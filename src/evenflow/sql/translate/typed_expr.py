"""Typed expressions: DuckDB SQL with the Spark type of its value."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.sql.relation import ColumnRef, EventTime
from evenflow.sql.types import duckdb_name, is_decimal, is_floating

# A node of sqlglot's tree. Its classes mix in ways a type checker cannot follow.
Ast: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class TypedExpr:
    """A DuckDB expression with the Spark type of its value.

    `columns` are the input columns it reads; `column` is set if it is a plain column.
    """

    sql: str
    type: pa.DataType
    columns: frozenset[ColumnRef] = frozenset()
    column: ColumnRef | None = None
    time: EventTime | None = None
    literal: str | int | None = None

    @property
    def inputs(self) -> frozenset[str]:
        """The aliases it reads."""
        return frozenset(alias for alias, _ in self.columns)

    def cast(self, kind: pa.DataType) -> "TypedExpr":
        """Return the same value in a wider type."""
        if kind == self.type or duckdb_name(kind) == duckdb_name(self.type):
            return replace(self, type=kind)
        if is_decimal(self.type) and is_floating(kind) and self.type.precision > 15:
            # DuckDB divides two rounded numbers; the text is rounded once, as in Spark.
            sql = f"CAST(CAST({self.sql} AS VARCHAR) AS {duckdb_name(kind)})"
            return TypedExpr(sql, kind, self.columns)
        return TypedExpr(f"CAST({self.sql} AS {duckdb_name(kind)})", kind, self.columns)


def compose_expr(sql: str, kind: pa.DataType, *operands: TypedExpr) -> TypedExpr:
    """Build an expression that reads the columns of its operands."""
    return TypedExpr(sql, kind, frozenset[ColumnRef]().union(*(o.columns for o in operands)))
