"""A trial of a compiled query: made-up rows through every statement, before it is hosted.

One row shows that the engine can plan the statements, and that planning them is cheap. A hundred
rows with long texts show that a row costs little: a worker's batch would wait for a `sequence` in a
`transform` in a `transform` until a time limit ends its process.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.engine import Engine
from evenflow.sql.failures import QueryFailed
from evenflow.sql.process_limits import limit_memory
from evenflow.sql.program import Program

_MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
_LATER_US = 1 << 58  # every window has ended
_LONG_TEXT = "a,b 12x" * 70
MANY_ROWS = 100
MANY_ROWS_SECONDS = 1.0
MANY_ROWS_MEMORY_BYTES = 384 << 20
RESULT_BYTES_PER_ROW = 400_000


class TooExpensiveError(InputError):
    """A query needs too much time or memory for a few rows."""


def try_program(
    program: Program,
    catalog: Catalog,
    engine: Engine,
    seconds: float,
    subscriptions: pa.Table | None = None,
) -> None:
    """Run a query on made-up rows; refuse it if it cannot be planned, or is not cheap.

    A failure of the made-up values is not the query's fault. Rows of a stream differ in their
    values, or each would join with each. `subscriptions` of a template are refused if the rows fail
    with them and not without: all other subscriptions would fail too.
    """
    _try_rows(program, catalog, engine, 1, "", seconds)
    for text in (_LONG_TEXT, ""):  # short ones are numbers, which casts can read
        with _memory_limit(MANY_ROWS_MEMORY_BYTES):
            failure = _try_rows(program, catalog, engine, MANY_ROWS, text, MANY_ROWS_SECONDS)
            if failure is not None:
                continue
            if subscriptions is None:
                return
            failure = _try_rows(
                program, catalog, engine, MANY_ROWS, text, MANY_ROWS_SECONDS, subscriptions
            )
        if failure is not None:
            raise InputError(
                f"a subscription of {program.name!r} makes it fail for all others: {failure}"
            )


def _try_rows(
    program: Program,
    catalog: Catalog,
    engine: Engine,
    count: int,
    text: str,
    seconds: float,
    subscriptions: pa.Table | None = None,
) -> str | None:
    """Run a query on some rows of each input; return how their values made it fail, if they did."""
    tables = {name: _rows(catalog.tables[name], 1, text) for name in program.tables}
    schemas = {name: _read_schema(program, catalog, name) for name in program.streams}
    rows = {name: _rows(schema, count, text) for name, schema in schemas.items()}
    nothing = {name: schema.empty_table() for name, schema in schemas.items()}
    if subscriptions is None and program.parameters is not None:
        subscriptions = _rows(program.parameters, count, text)
    # Of many rows only some windows end, or those with many slides would be refused.
    end_us = _LATER_US if count == 1 else int(_moment(count).timestamp()) * 1_000_000
    try:
        with engine.time_limit(seconds):
            task = program.open(engine, tables)
            try:
                if subscriptions is not None:
                    task.subscribe(subscriptions)
                for given, watermark_us in ((rows, 0), (nothing, end_us)):
                    size = task.step(given, watermark_us).rows.nbytes
                    if count > 1 and size > count * RESULT_BYTES_PER_ROW:
                        raise QueryFailed("result", f"it returns {size >> 20} MB")
            finally:
                task.close()
    except QueryFailed as failed:
        if failed.reason == "error":
            return str(failed)
        refused = InputError if failed.reason == "plan" else TooExpensiveError
        on = "one row" if count == 1 else f"{count} rows"
        raise refused(f"query {program.name!r}: on {on}, {failed}") from None
    except MemoryError:
        message = f"query {program.name!r}: {count} rows take too much memory"
        raise TooExpensiveError(message) from None
    return None


@contextmanager
def _memory_limit(more_bytes: int) -> Iterator[None]:
    """Limit the memory of this process for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(more_bytes, keep_hard=True)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _read_schema(program: Program, catalog: Catalog, stream: str) -> pa.Schema:
    schema = catalog.streams[stream].schema
    return pa.schema([schema.field(name) for name in program.reads[stream]])


def _rows(schema: pa.Schema, count: int, text: str) -> pa.Table:
    rows = [
        {column.name: _value(column.type, at, text) for column in schema} for at in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _moment(at: int) -> datetime:
    return _MOMENT + timedelta(seconds=at)


def _value(kind: pa.DataType, at: int, text: str) -> Any:  # noqa: PLR0911 - a table of types
    """Return a value that is neither NULL nor zero; another one for each `at`."""
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, at, text) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type, at, text)]
    if pa.types.is_timestamp(kind):
        return _moment(at) if kind.tz else _moment(at).replace(tzinfo=None)
    if pa.types.is_date(kind):
        return date(2026, 1, 31) + timedelta(days=at)
    if pa.types.is_boolean(kind):
        return at % 2 == 0
    if pa.types.is_decimal(kind):
        return Decimal(at % 9 + 1) if kind.precision > kind.scale else Decimal(0)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return at + 1
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"{at}{text}".encode()
    return f"{at}{text}" if not pa.types.is_map(kind) and not pa.types.is_null(kind) else None
