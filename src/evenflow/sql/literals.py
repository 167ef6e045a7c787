"""Constants: numbers as Spark types them, strings, dates and timestamps in UTC."""

from datetime import date, datetime

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.expressions import Rule, Translator
from evenflow.sql.typed import Ast, Typed


def literal(_: Translator, node: Ast) -> Typed:
    """Read a constant."""
    written = str(node.this)
    if node.is_string:
        return Typed(types.text(written), types.STRING, literal=written)
    if written.lstrip("-").isdigit():
        value = int(written)
        if abs(value) >= 1 << 63:
            raise InputError(f"the number {written} is beyond BIGINT; write it as a DECIMAL cast")
        kind = types.INT if -(1 << 31) <= value < 1 << 31 else types.LONG
        return Typed(f"CAST({value} AS {types.duckdb_name(kind)})", kind, literal=value)
    if "e" in written.lower():
        return Typed(f"CAST({float(written)!r} AS DOUBLE)", types.DOUBLE)
    whole, _dot, fraction = written.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
    if digits > types.MAX_DIGITS or not (whole + fraction).isdigit():
        raise InputError(f"the number {written[:50]} cannot be read; at most 38 digits")
    exact = pa.decimal128(digits, len(fraction))
    return Typed(f"CAST({types.text(written)} AS {types.duckdb_name(exact)})", exact)


def dated(value: Typed, other: Typed) -> Typed:
    """Read a string literal that stands beside a date or timestamp, as Spark does."""
    if not isinstance(value.literal, str):
        return value
    try:
        if other.type == types.DATE:
            day = date.fromisoformat(value.literal)
            return Typed(f"DATE {types.text(day.isoformat())}", types.DATE)
        if types.is_time(other.type):
            return Typed(timestamp_sql(value.literal), other.type)
    except ValueError:
        raise InputError(f"{value.literal!r} is no date or time; write '2026-01-31'") from None
    return value


def timestamp_sql(written: str) -> str:
    """Write a timestamp literal, read in UTC where it names no zone."""
    moment = datetime.fromisoformat(written)
    if (offset := moment.utcoffset()) is not None:
        moment = (moment - offset).replace(tzinfo=None)
    return f"TIMESTAMP {types.text(moment.isoformat(' '))}"


LITERALS: dict[type, Rule] = {
    exp.Literal: literal,
    exp.Null: lambda t, n: Typed("CAST(NULL AS INTEGER)", types.NULL),
    exp.Boolean: lambda t, n: Typed("TRUE" if n.this else "FALSE", types.BOOLEAN),
}
