"""The streams and reference tables that queries can read, and schemas written as Spark DDL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from evenflow.errors import InputError
from evenflow.model.user_function import UserFunction
from evenflow.sql.types import check_column_names, parse_type


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of one schema with an event-time column; `delay_us` is how late a row may arrive."""

    schema: pa.Schema
    time: str
    delay_us: int = 0

    def __post_init__(self) -> None:
        check_column_names(self.schema.names)
        index = self.schema.get_field_index(self.time)
        if index < 0:
            raise InputError(
                f"the event-time column {self.time!r} is not in the stream, "
                f"which has {', '.join(self.schema.names)}"
            )
        kind = self.schema.field(index).type
        if not pa.types.is_timestamp(kind):
            raise InputError(
                f"the event-time column {self.time!r} is {kind}; cast it to TIMESTAMP first"
            )
        if self.delay_us < 0:
            raise InputError(f"a watermark delay cannot be negative, got {self.delay_us} us")


def result_type(function: UserFunction) -> pa.DataType:
    """Return the type of the results of a function."""
    return read_schema(f"result {function.returns}").field(0).type


@dataclass(frozen=True, slots=True)
class Catalog:
    """The names a query can use after FROM, and the functions of the user."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    tables: Mapping[str, pa.Schema] = field(default_factory=dict)
    functions: Mapping[str, UserFunction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in (*self.streams, *self.tables):
            if name.lower() in seen:
                raise InputError(f"{name!r} is named twice among streams and tables; rename one")
            seen.add(name.lower())


def read_schema(text: str) -> pa.Schema:
    """Read columns and types from Spark DDL, without Spark.

    >>> read_schema("ts TIMESTAMP, tags ARRAY<STRING>").types
    [TimestampType(timestamp[us, tz=UTC]), ListType(list<element: string>)]
    """
    columns: list[Any] = []
    try:
        statement: Any = sqlglot.parse_one(f"CREATE TABLE t ({text})", dialect="spark")
        if isinstance(statement, exp.Create):
            columns = statement.this.expressions
    except (ParseError, TokenError):
        pass
    if not columns or not all(isinstance(c, exp.ColumnDef) and c.kind for c in columns):
        raise InputError(f"{text!r} is not a schema; write 'ts TIMESTAMP, price DOUBLE'")
    schema = pa.schema([pa.field(c.name, _column_type(c.args["kind"], c.name)) for c in columns])
    check_column_names(schema.names)
    return schema


def _column_type(kind: Any, column: str) -> pa.DataType:
    if kind.this == exp.DType.ARRAY and kind.expressions:
        return pa.list_(pa.field("element", _column_type(kind.expressions[0], column)))
    if kind.this == exp.DType.STRUCT and kind.expressions:
        return pa.struct([(p.name, _column_type(p.args["kind"], column)) for p in kind.expressions])
    try:
        return parse_type(kind)
    except InputError:
        raise InputError(
            f"column {column!r} has the type {kind.sql('spark')}, which queries cannot read; "
            "use a scalar type, ARRAY or STRUCT"
        ) from None
