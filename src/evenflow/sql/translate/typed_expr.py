"""Typed expressions: DuckDB SQL with the Spark type of its value."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.sql.relation import ColumnRef, EventTime
from evenflow.sql.types import duckdb_name, is_decimal, is_floating

MAX_COPIED_CHARACTERS = 160  # of an operand; copying a longer one makes nested texts explode

# A node of sqlglot's tree. Its classes mix in ways a type checker cannot follow.
Ast: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class TypedExpr:
    """A DuckDB expression with the Spark type of its value.

    `columns` are the input columns it reads; `column` is set if it is a plain column. `literal` is
    the value of a constant.
    """

    sql: str
    type: pa.DataType
    columns: frozenset[ColumnRef] = frozenset()
    column: ColumnRef | None = None
    time: EventTime | None = None
    literal: str | int | None = None
    can_fail: bool = False  # on some values, such as 1 / 0

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
            return compose_expr(sql, kind, self)
        return compose_expr(f"CAST({self.sql} AS {duckdb_name(kind)})", kind, self)


def write_once(body: Callable[..., str], *operands: str) -> str:
    """Write an expression that uses its operands several times, each long operand only once.

    A long operand becomes the parameter of a lambda; it is evaluated only where the expression is.

    >>> write_once(lambda x: f"(CASE WHEN {x} > 0 THEN {x} END)", '"a"')
    '(CASE WHEN "a" > 0 THEN "a" END)'
    """
    long = {o: f"o{i}" for i, o in enumerate(operands) if len(o) > MAX_COPIED_CHARACTERS}
    if not long:
        return body(*operands)
    bound = next(iter(long))
    if len(long) > 1:
        bound = "{" + ", ".join(f"'{name}': {operand}" for operand, name in long.items()) + "}"
    parameter = _parameter_name(bound)
    names = dict.fromkeys(long, parameter)
    if len(long) > 1:
        names = {o: f"struct_extract({parameter}, '{name}')" for o, name in long.items()}
    text = body(*(names.get(operand, operand) for operand in operands))
    return f"list_transform([{bound}], lambda {parameter}: {text})[1]"


def _parameter_name(bound: str) -> str:
    """Name a parameter by what it is bound to, so that it never hides another in a lambda.

    The control character keeps it apart from columns.
    """
    return f'"\x01{hashlib.blake2b(bound.encode(), digest_size=8).hexdigest()}"'


def unless_null(first: TypedExpr, second: TypedExpr, body: Callable[[str], str]) -> str:
    """Write an operation on two operands: where the first is NULL, the second is not evaluated.

    That matters only if the second can fail. In a condition of a join it would hide equalities.
    """
    is_join = len(first.inputs | second.inputs) > 1
    if not second.can_fail or first.literal is not None or is_join:
        return body(first.sql)
    return write_once(
        lambda text: f"(CASE WHEN {text} IS NOT NULL THEN {body(text)} END)", first.sql
    )


def divide_unless_zero(left: TypedExpr, right: TypedExpr, body: Callable[[str, str], str]) -> str:
    """Write a division that is NULL for zero; like Spark, do not evaluate the left side then."""

    def divided(b: str) -> str:
        return f"(CASE WHEN {b} <> 0 THEN {write_once(lambda a: body(a, b), left.sql)} END)"

    return write_once(divided, right.sql)


def compose_expr(
    sql: str, kind: pa.DataType, *operands: TypedExpr, can_fail: bool = False
) -> TypedExpr:
    """Build an expression that reads the columns of its operands, and fails where they fail."""
    columns = frozenset[ColumnRef]().union(*(o.columns for o in operands))
    can_fail = can_fail or any(operand.can_fail for operand in operands)
    return TypedExpr(sql, kind, columns, can_fail=can_fail)
