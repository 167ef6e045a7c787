"""A schema as Spark writes it, `ts TIMESTAMP, price DOUBLE`, read without Spark."""

from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from evenflow.errors import InputError
from evenflow.sql import types


def read_schema(text: str) -> pa.Schema:
    """Read the columns and their types.

    >>> read_schema("ts TIMESTAMP, tags ARRAY<STRING>").types
    [TimestampType(timestamp[us, tz=UTC]), ListType(list<element: string>)]
    """
    made: Any = None
    try:
        made = sqlglot.parse_one(f"CREATE TABLE t ({text})", dialect="spark")
        columns = made.this.expressions if isinstance(made, exp.Create) else []
    except (ParseError, TokenError):
        columns = []
    if not columns or not all(isinstance(c, exp.ColumnDef) and c.kind for c in columns):
        raise InputError(f"got {text!r}, which is no schema; write 'ts TIMESTAMP, price DOUBLE'")
    schema = pa.schema([pa.field(c.name, _column_type(c.args["kind"], c.name)) for c in columns])
    types.check_column_names(schema.names)
    return schema


def _column_type(kind: Any, column: str) -> pa.DataType:
    if kind.this == exp.DType.ARRAY and kind.expressions:
        return pa.list_(pa.field("element", _column_type(kind.expressions[0], column)))
    if kind.this == exp.DType.STRUCT and kind.expressions:
        return pa.struct([(p.name, _column_type(p.args["kind"], column)) for p in kind.expressions])
    try:
        return types.parse_type(kind)
    except InputError:
        raise InputError(
            f"column {column!r} has the type {kind.sql('spark')}, which queries cannot read; "
            "use a scalar type, ARRAY or STRUCT"
        ) from None
