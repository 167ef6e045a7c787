"""Constants: numbers as Spark types them, strings, dates and timestamps in UTC."""

from datetime import date, datetime

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.translator import Rule, Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr


def translate_literal(_: Translator, node: Ast) -> TypedExpr:
    """Read a constant."""
    written = str(node.this)
    if node.is_string:
        return TypedExpr(types.quote_string(written), types.STRING, literal=written)
    if written.lstrip("-").isdigit():
        value = int(written)
        if abs(value) >= 1 << 63:
            raise InputError(f"the number {written} is beyond BIGINT; write it as a DECIMAL cast")
        kind = types.INT if -(1 << 31) <= value < 1 << 31 else types.LONG
        return TypedExpr(f"CAST({value} AS {types.duckdb_name(kind)})", kind, literal=value)
    if "e" in written.lower():
        return TypedExpr(f"CAST({float(written)!r} AS DOUBLE)", types.DOUBLE)
    whole, _dot, fraction = written.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
    if digits > types.MAX_DECIMAL_DIGITS or not (whole + fraction).isdigit():
        raise InputError(f"the number {written[:50]} cannot be read; at most 38 digits")
    exact = pa.decimal128(digits, len(fraction))
    return TypedExpr(f"CAST({types.quote_string(written)} AS {types.duckdb_name(exact)})", exact)


def coerce_time_literal(value: TypedExpr, other: TypedExpr) -> TypedExpr:
    """Read a string literal that stands beside a date or timestamp, as Spark does."""
    if not isinstance(value.literal, str):
        return value
    try:
        if other.type == types.DATE:
            day = date.fromisoformat(value.literal)
            return TypedExpr(f"DATE {types.quote_string(day.isoformat())}", types.DATE)
        if types.is_timestamp(other.type):
            return TypedExpr(timestamp_sql(value.literal), other.type)
    except ValueError:
        raise InputError(f"{value.literal!r} is no date or time; write '2026-01-31'") from None
    return value


def timestamp_sql(written: str) -> str:
    """Write a timestamp literal, read in UTC where it names no zone."""
    moment = datetime.fromisoformat(written)
    if (offset := moment.utcoffset()) is not None:
        moment = (moment - offset).replace(tzinfo=None)
    return f"TIMESTAMP {types.quote_string(moment.isoformat(' '))}"


LITERAL_RULES: dict[type, Rule] = {
    exp.Literal: translate_literal,
    exp.Null: lambda t, n: TypedExpr("CAST(NULL AS INTEGER)", types.NULL),
    exp.Boolean: lambda t, n: TypedExpr("TRUE" if n.this else "FALSE", types.BOOLEAN),
}
