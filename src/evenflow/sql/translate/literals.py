"""Constants: numbers with Spark's types, strings, dates and timestamps in UTC, intervals."""

import re
from datetime import date, datetime, timedelta
from math import isfinite

import pyarrow as pa
from sqlglot import exp

from evenflow.durations import UNITS_US
from evenflow.errors import InputError, shorten
from evenflow.sql import types
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Translator, declare, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(
    _DAY.pattern + r"([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?)?)?", re.ASCII
)
MAX_SPAN_DAYS = 110_000  # of an interval, a window or a watermark: all valid event times
_AMOUNT_AND_UNIT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def translate_literal(_: Translator, node: Ast) -> TypedExpr:
    """Translate a number or a string."""
    text = str(node.this)
    if node.is_string:
        return TypedExpr(types.quote_string(text), types.STRING, literal=text)
    if text.lstrip("-").isdigit():
        value = int(text[:40])
        if abs(value) >= 1 << 63:
            raise InputError(
                f"the number {shorten(text, 40)} is too large for BIGINT; cast it to DECIMAL"
            )
        kind = types.INT if -(1 << 31) <= value < 1 << 31 else types.LONG
        return TypedExpr(f"CAST({value} AS {types.duckdb_name(kind)})", kind, literal=value)
    if "e" in text.lower():
        number = float(text)
        if not isfinite(number):
            raise InputError(f"the number {shorten(text, 40)} is too large for DOUBLE")
        return TypedExpr(f"CAST({number!r} AS DOUBLE)", types.DOUBLE)
    whole, _dot, fraction = text.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
    if digits > types.MAX_DECIMAL_DIGITS or not (whole + fraction).isdigit():
        raise InputError(f"the number {shorten(text, 40)} cannot be read; at most 38 digits")
    exact = pa.decimal128(digits, len(fraction))
    return TypedExpr(f"CAST({types.quote_string(text)} AS {types.duckdb_name(exact)})", exact)


def _raw_string(text: str) -> TypedExpr:
    return TypedExpr(types.quote_string(text), types.STRING, literal=text)


def coerce_time_literal(value: TypedExpr, other: TypedExpr) -> TypedExpr:
    """Read a string that is compared with a date or timestamp as one, like Spark."""
    if not isinstance(value.literal, str):
        return value
    try:
        if other.type == types.DATE:
            if not _DAY.fullmatch(value.literal):
                raise ValueError
            day = date.fromisoformat(value.literal)
            return TypedExpr(f"DATE {types.quote_string(day.isoformat())}", types.DATE)
        if types.is_timestamp(other.type):
            return TypedExpr(timestamp_sql(value.literal, other.type), other.type)
    except (ValueError, OverflowError):
        given = shorten(value.literal, 40)
        raise InputError(f"{given!r} is not a date; write '2026-01-31'") from None
    return value


def timestamp_sql(text: str, kind: pa.DataType) -> str:
    """Write a timestamp literal; without a time zone it is in UTC. TIMESTAMP_NTZ ignores zones."""
    if not _MOMENT.fullmatch(text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    if (offset := moment.utcoffset()) is not None:
        moment = moment.replace(tzinfo=None) - (offset if kind == types.TIMESTAMP else timedelta())
    return f"TIMESTAMP {types.quote_string(moment.isoformat(' '))}"


def parse_span_us(text: str) -> int:
    """Read a span of time.

    >>> parse_span_us("1 minute 30 seconds")
    90000000
    """
    words, total_us, at = text.strip().lower().removeprefix("interval "), 0.0, 0
    while at < len(words) and (part := _AMOUNT_AND_UNIT.match(words, at)) is not None:
        total_us += float(part[1]) * _unit_us(part[2], text)
        at = part.end()
    if at == 0 or at < len(words):
        given = shorten(text, 40)
        raise InputError(f"{given!r} is not a span of time; write for example '10 seconds'")
    return _check_span(total_us, text)


def _check_span(span_us: float, text: str) -> int:
    """Round a span to microseconds; refuse one that no stream can wait for."""
    if not abs(span_us) <= MAX_SPAN_DAYS * UNITS_US["day"]:
        raise InputError(f"{shorten(text, 40)!r} is longer than {MAX_SPAN_DAYS:,} days")
    return round(span_us)


def interval_months(node: Ast) -> int | None:
    """Read INTERVAL 2 MONTHS or INTERVAL 1 YEAR; None if it is another interval."""
    if isinstance(node, exp.Paren):
        return interval_months(node.this)
    if not isinstance(node, exp.Interval):
        return None
    amount, unit, sign = node.this, node.args.get("unit"), 1
    months = {"month": 1, "year": 12}.get(str(getattr(unit, "this", "")).lower().removesuffix("s"))
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this, -1
    if months is None or not re.fullmatch(r"[+-]?\d{1,6}", str(getattr(amount, "this", ""))):
        return None
    return sign * int(str(amount.this)) * months


def interval_us(node: Ast) -> int:
    """Read INTERVAL 20 SECONDS, or a sum or difference of intervals."""
    if isinstance(node, exp.Paren):
        return interval_us(node.this)
    if isinstance(node, exp.Add):
        span_us = interval_us(node.left) + interval_us(node.right)
        return _check_span(span_us, node.sql("spark"))
    if isinstance(node, exp.Sub):
        span_us = interval_us(node.left) - interval_us(node.right)
        return _check_span(span_us, node.sql("spark"))
    amount, sign = node.this, 1
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this, -1
    if not isinstance(node, exp.Interval) or not isinstance(amount, exp.Literal):
        raise refusal(node, "is not a constant interval; write for example INTERVAL 20 SECONDS")
    unit, text = node.args.get("unit"), str(amount.this)
    if unit is None:
        return sign * parse_span_us(text)
    if not isinstance(unit, exp.Var) or not re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        raise refusal(node, "cannot be read; write for example INTERVAL 20 SECONDS")
    amount_us = float(text) * _unit_us(str(unit.this), node.sql("spark"))
    return sign * _check_span(amount_us, node.sql("spark"))


def _unit_us(word: str, text: str) -> int:
    unit = UNITS_US.get(word.lower().removesuffix("s"))
    if unit is None:
        raise InputError(
            f"{shorten(text, 40)!r} has the unit {shorten(word.lower(), 40)!r}; "
            "use days, hours, minutes, seconds or less (months vary in length)"
        )
    return unit


declare("this", exp.Var)
declare("this unit", exp.Interval)
register("this is_string", {exp.Literal: translate_literal})
register("this", {exp.RawString: lambda t, n: _raw_string(str(n.this))})
register(
    "this",
    {
        exp.Null: lambda t, n: TypedExpr("CAST(NULL AS INTEGER)", types.NULL),
        exp.Boolean: lambda t, n: TypedExpr("TRUE" if n.this else "FALSE", types.BOOLEAN),
    },
)
