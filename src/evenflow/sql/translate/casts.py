"""Casts as in ANSI mode."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import NOT_A_DATE, NOT_DECIMAL, NOT_WHOLE
from evenflow.sql.translate.literals import timestamp_sql
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.text_casts import text_cast, unix_sql
from evenflow.sql.translate.translator import Translator, declare, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once

# Spark's own: what it trims around numbers and dates, and which texts it reads.
_PAD = r"[\x00-\x20\x7F]*"
_TEXT_PATTERNS = dict.fromkeys(
    (types.BYTE, types.SHORT, types.INT, types.LONG), rf"{_PAD}([+-]?[0-9]+){_PAD}"
)
_DECIMAL_TEXT = r"[\x00-\x20]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[\x00-\x20]*"
_DATE_TEXT = (
    rf"{_PAD}([+-]?[0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T](?s:.*))?)?)?{_PAD}"
)
_DATE_WORDS = ("epoch", "now", "today", "tomorrow", "yesterday")


def _cast(translate: Translator, node: Ast) -> TypedExpr:
    kind = types.parse_type(node.args["to"])
    translate.infer_parameter_type(node.this, kind)
    if node.this.is_string and types.is_timestamp(kind):
        try:
            return TypedExpr(timestamp_sql(str(node.this.this), kind), kind)
        except (ValueError, OverflowError):
            raise refusal(node, "is not a timestamp; write '2026-01-31 12:00:00'") from None
    return cast_expr(node, translate(node.this), kind, safe=bool(node.args.get("safe")))


_DAY_US = 86_400_000_000


def cast_expr(node: Ast, value: TypedExpr, kind: pa.DataType, *, safe: bool = False) -> TypedExpr:
    """Cast as Spark does in ANSI mode; refuse casts on which the two engines differ."""
    source = value.type
    if source == kind:
        return value
    if types.is_timestamp(source) and types.is_timestamp(kind):
        return value.cast(kind)
    if source == types.LONG and kind == types.TIMESTAMP:
        raise refusal(node, "casts BIGINT to TIMESTAMP, which takes seconds beyond the year 294247 "
                      "as the last timestamp; write timestamp_seconds(x)")  # fmt: skip
    if (extra := text_cast(value, kind, safe=safe)) is not None:
        return extra
    if not _is_supported(source, kind):
        names = f"{types.spark_name(source)} to {types.spark_name(kind)}"
        raise refusal(
            node, f"casts {names}, which is not supported; cast it in `select:` of the source"
        )
    if source == types.STRING and kind == types.DATE:
        return compose_expr(_date_from_text(node, value, safe=safe), kind, value, can_fail=not safe)
    if types.is_decimal(source) and types.is_floating(kind):
        return value.cast(kind)
    sql = write_once(lambda operand: _cast_sql(operand, source, kind, safe=safe), value.sql)
    always_fits = types.is_floating(kind) and (
        types.is_integer(source) or types.is_floating(source)
    )
    found = compose_expr(sql, kind, value, can_fail=not safe and not always_fits)
    time = value.time if kind == types.DATE and types.is_timestamp(source) else None
    return replace(found, time=time.floored("day", _DAY_US)) if time is not None else found


def _cast_sql(value: str, source: pa.DataType, kind: pa.DataType, *, safe: bool) -> str:
    """Write a cast; the operand can appear several times."""
    sql, word = value, "TRY_CAST" if safe else "CAST"
    if source == types.STRING and kind in _TEXT_PATTERNS:
        sql = _read_text(
            value,
            _TEXT_PATTERNS[kind],
            NOT_WHOLE,
            safe=safe,
        )
    elif source == types.STRING and types.is_decimal(kind):
        sql = _read_text(
            value,
            _DECIMAL_TEXT,
            NOT_DECIMAL,
            safe=safe,
        )
        # DuckDB checks the range of 12345, but not of 1.2345e4.
        sql = f"CAST({word}({sql} AS DECIMAL(38,{kind.scale})) AS VARCHAR)"
    elif types.is_timestamp(source) and kind == types.LONG:
        sql = unix_sql(sql, "second")
    elif types.is_floating(source) and types.is_decimal(kind):
        # Spark rounds the shortest decimal text, and has no DECIMAL for NaN and infinity.
        text = f"CAST({TypedExpr(value, source).cast(types.DOUBLE).sql} AS VARCHAR)"
        limit = f"1e{kind.precision - kind.scale}"
        sql = f"CASE WHEN abs({sql}) < {limit} THEN {text} WHEN isfinite({sql}) THEN '1e99' END"
    elif source == types.DOUBLE and kind == types.FLOAT:
        infinity, limit = "CAST('Infinity' AS DOUBLE)", "3.4028235677973366e38"
        sql = (
            f"CASE WHEN {sql} BETWEEN {limit} AND {infinity} THEN {infinity} "
            f"WHEN {sql} <= -{limit} THEN -{infinity} ELSE {sql} END"
        )
    elif (
        types.is_decimal(source)
        and kind == types.STRING
        and source.precision < types.MAX_DECIMAL_DIGITS
    ):
        # With room for a digit before the point DuckDB writes 0.5, without it .5.
        sql = f"CAST({sql} AS DECIMAL({source.precision + 1},{source.scale}))"
    elif types.is_integer(kind) and (types.is_floating(source) or types.is_decimal(source)):
        sql = f"trunc({sql})"
    if types.is_floating(source) and types.is_decimal(kind) and kind.precision == kind.scale:
        # Without a digit before the point DuckDB cannot read 5e-7.
        sql = f"{word}({sql} AS DECIMAL({kind.precision + 1},{kind.scale}))"
    sql = f"{word}({sql} AS {types.duckdb_name(kind)})"
    if types.is_floating(source) and kind == types.LONG:  # 2^63 is the largest BIGINT in Spark
        largest = (1 << 63) - 1
        sql = f"(CASE WHEN {value} = {largest + 1}e0 THEN {largest} ELSE {sql} END)"
    return sql


def _read_text(value: str, pattern: str, problem: str, *, safe: bool) -> str:
    """Extract the first group of a pattern; a text without it fails, or is NULL if safe."""
    quoted = types.quote_string(f"^{pattern}$")
    sql = f"regexp_extract({value}, {quoted}, 1)"
    if safe:
        return sql
    failure = f"error({types.quote_string(problem)})"
    return (
        f"CASE WHEN regexp_matches({value}, {quoted}) THEN {sql} "
        f"WHEN {value} IS NOT NULL THEN {failure} END"
    )


def _date_from_text(node: Ast, value: TypedExpr, *, safe: bool) -> str:
    """Read '2026', '2026-1' and '2026-1-31', which anything can follow after a space or T."""
    if str(value.literal).strip().lower() in _DATE_WORDS:
        raise refusal(node, "names a day by a word; write DATE '2026-01-31'")
    quoted = types.quote_string(f"^{_DATE_TEXT}$")
    text = '"\x01text"'  # no column has this name
    month, day = (f"coalesce(nullif({text}.{part}, ''), '1')" for part in "md")
    parts = ", ".join(f"CAST({part} AS INTEGER)" for part in (f"{text}.y", month, day))
    date = f"make_date({parts})"
    failure = f"error({types.quote_string(NOT_A_DATE)})"
    date = f"TRY({date})" if safe else f"CASE WHEN {text}.y = '' THEN {failure} ELSE {date} END"
    found = f"regexp_extract({value.sql}, {quoted}, ['y', 'm', 'd'])"
    return f"list_transform([{found}], lambda {text}: {date})[1]"


def _is_supported(source: pa.DataType, kind: pa.DataType) -> bool:
    exact = types.is_integer(kind) or types.is_decimal(kind)
    exact_source = types.is_integer(source) or types.is_decimal(source)
    if types.is_decimal(kind) and kind.scale == types.MAX_DECIMAL_DIGITS:
        return bool(types.is_decimal(source))
    return (
        source == types.NULL
        or (types.is_number(source) and types.is_number(kind))
        or (kind == types.STRING and exact_source)
        or (source == types.STRING and (exact or kind == types.DATE))
        or (source == types.BOOLEAN and types.is_integer(kind))
        or (types.is_timestamp(source) and kind == types.DATE)
        or (source == types.TIMESTAMP and kind == types.LONG)
        or (source == types.DATE and types.is_timestamp(kind))
    )


declare("this expressions nested", exp.DataType)
declare("this", exp.DataTypeParam)
register("this to safe", {exp.Cast: _cast, exp.TryCast: _cast})
