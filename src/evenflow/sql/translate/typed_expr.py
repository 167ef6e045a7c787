"""Typed expressions: DuckDB SQL with the Spark type of its value."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.sql.relation import ColumnRef, EventTime
from evenflow.sql.types import duckdb_name, is_decimal, is_floating

MAX_COPIED_CHARACTERS = 160  # of an operand; copying a longer one makes nested texts explode
_BOUND = '"\x01operand"'  # no column has this name

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


def write_once(body: Callable[..., str], *operands: str) -> str:
    """Write an expression that uses its operands several times, each long operand only once.

    A long operand becomes the parameter of a lambda; it is evaluated only where the expression is.

    >>> write_once(lambda x: f"(CASE WHEN {x} > 0 THEN {x} END)", '"a"')
    '(CASE WHEN "a" > 0 THEN "a" END)'
    """
    long = {o: f"o{i}" for i, o in enumerate(operands) if len(o) > MAX_COPIED_CHARACTERS}
    if not long:
        return body(*operands)
    if len(long) == 1:
        bound, names = next(iter(long)), dict.fromkeys(long, _BOUND)
    else:
        bound = "{" + ", ".join(f"'{name}': {operand}" for operand, name in long.items()) + "}"
        names = {o: f"struct_extract({_BOUND}, '{name}')" for o, name in long.items()}
    text = body(*(names.get(operand, operand) for operand in operands))
    return f"list_transform([{bound}], lambda {_BOUND}: {text})[1]"


def compose_expr(sql: str, kind: pa.DataType, *operands: TypedExpr) -> TypedExpr:
    """Build an expression that reads the columns of its operands."""
    return TypedExpr(sql, kind, frozenset[ColumnRef]().union(*(o.columns for o in operands)))
