"""A trial of a compiled query: one made-up row through every statement, before it is hosted.

It shows that the engine can plan the statements, and that planning them is cheap.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.engine import Engine
from evenflow.sql.failures import QueryFailed
from evenflow.sql.program import Program

_MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
_LATER_US = 1 << 58  # every window has ended


class TooExpensiveError(InputError):
    """A query needs too much time or memory for one row."""


def try_program(program: Program, catalog: Catalog, engine: Engine, seconds: float) -> None:
    """Run a query on one row of each input; refuse it if it cannot be planned, or not cheaply.

    A failure of the made-up values is not the query's fault.
    """
    tables = {name: _one_row(catalog.tables[name]) for name in program.tables}
    rows = {name: _one_row(_read_schema(program, catalog, name)) for name in program.streams}
    try:
        with engine.time_limit(seconds):
            task = program.open(engine, tables)
            try:
                if program.parameters is not None:
                    task.subscribe(_one_row(program.parameters))
                task.step(rows, 0)
                task.step({name: table.slice(1) for name, table in rows.items()}, _LATER_US)
            finally:
                task.close()
    except QueryFailed as failed:
        if failed.reason != "error":
            refused = InputError if failed.reason == "plan" else TooExpensiveError
            raise refused(f"query {program.name!r}: on one row, {failed}") from None


def _read_schema(program: Program, catalog: Catalog, stream: str) -> pa.Schema:
    schema = catalog.streams[stream].schema
    return pa.schema([schema.field(name) for name in program.reads[stream]])


def _one_row(schema: pa.Schema) -> pa.Table:
    values = {column.name: _value(column.type) for column in schema}
    return pa.Table.from_pylist([values], schema=schema)


def _value(kind: pa.DataType) -> Any:  # noqa: PLR0911 - a table of types
    """Return a value that is neither NULL nor zero."""
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type)]
    if pa.types.is_timestamp(kind):
        return _MOMENT if kind.tz else _MOMENT.replace(tzinfo=None)
    if pa.types.is_date(kind):
        return date(2026, 1, 31)
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_decimal(kind):
        return Decimal(1) if kind.precision > kind.scale else Decimal(0)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return 1
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b"x"
    return "x" if not pa.types.is_map(kind) and not pa.types.is_null(kind) else None
