"""Casts as in ANSI mode, and parts of dates and times in UTC."""

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import NOT_A_DATE, NOT_DECIMAL, NOT_WHOLE
from evenflow.sql.translate.literals import timestamp_sql
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import NAMED_RULES, Rule, Translator, declare, register
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
_TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _cast(translate: Translator, node: Ast) -> TypedExpr:
    kind = types.parse_type(node.args["to"])
    translate.infer_parameter_type(node.this, kind)
    if node.this.is_string and types.is_timestamp(kind):
        try:
            return TypedExpr(timestamp_sql(str(node.this.this), kind), kind)
        except (ValueError, OverflowError):
            raise refusal(node, "is not a timestamp; write '2026-01-31 12:00:00'") from None
    return _cast_expr(node, translate(node.this), kind, safe=bool(node.args.get("safe")))


def _cast_expr(node: Ast, value: TypedExpr, kind: pa.DataType, *, safe: bool = False) -> TypedExpr:
    """Cast as Spark does in ANSI mode; refuse casts on which the two engines differ."""
    source = value.type
    if source == kind:
        return value
    if types.is_timestamp(source) and types.is_timestamp(kind):
        return value.cast(kind)
    if not _is_supported(source, kind):
        names = f"{types.spark_name(source)} to {types.spark_name(kind)}"
        raise refusal(node, f"casts {names}, but the engines differ on it; cast before the stream")
    if source == types.STRING and kind == types.DATE:
        return compose_expr(_date_from_text(node, value, safe=safe), kind, value, can_fail=not safe)
    if types.is_decimal(source) and types.is_floating(kind):
        return value.cast(kind)
    sql = write_once(lambda operand: _cast_sql(operand, source, kind, safe=safe), value.sql)
    always_fits = types.is_floating(kind) and (
        types.is_integer(source) or types.is_floating(source)
    )
    return compose_expr(sql, kind, value, can_fail=not safe and not always_fits)


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
        sql = _unix_sql(sql, "second")
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
        or (kind == types.STRING and (exact_source or source == types.DATE))
        or (source == types.STRING and (exact or kind == types.DATE))
        or (source == types.BOOLEAN and types.is_integer(kind))
        or (types.is_timestamp(source) and kind == types.DATE)
        or (source == types.TIMESTAMP and kind == types.LONG)
        or (source == types.DATE and types.is_timestamp(kind))
    )


def _date_part(name: str, *, wrapped: bool = False) -> Rule:
    """Return the rule of a part of a time; sqlglot wraps the arguments of some in to_date."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = translate(_unwrap_date_argument(node.this) if wrapped else node.this)
        if not (types.is_timestamp(value.type) or value.type == types.DATE):
            raise refusal(node, "needs a timestamp or date; write a cast")
        return compose_expr(f"CAST({name}({value.sql}) AS INTEGER)", types.INT, value)

    return rule


def _unwrap_date_argument(node: Ast) -> Ast:
    """Remove the nodes that sqlglot wraps around arguments of date functions."""
    while isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):
        node = node.this
    return node


def _to_date(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("format") is not None:
        raise refusal(node, "has a format, which is not supported; cast to DATE")
    return _cast_expr(node, translate(_unwrap_date_argument(node.this)), types.DATE)


def _date_trunc(translate: Translator, node: Ast) -> TypedExpr:
    value, unit = translate(node.this), str(node.args["unit"].this).lower()
    if not types.is_timestamp(value.type) or unit not in _TRUNC_UNITS:
        raise refusal(node, "is not supported; write date_trunc('hour', timestamp) or another unit")
    sql = f"CAST(date_trunc({types.quote_string(unit)}, {value.sql}) AS TIMESTAMP)"
    return compose_expr(sql, types.TIMESTAMP, value)


def _unix_sql(time_sql: str, unit: str) -> str:
    """Write whole units since 1970; the unit is cut first, since division would round."""
    if unit == "microsecond":
        return f"epoch_us({time_sql})"
    milliseconds = f"epoch_ms(date_trunc('{unit}', {time_sql}))"
    return milliseconds if unit == "millisecond" else f"({milliseconds} // 1000)"


def _unix_time(unit: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        argument = node.this if isinstance(node.this, exp.Expression) else node.expressions[0]
        value = translate(argument)
        if not types.is_timestamp(value.type):
            raise refusal(node, "needs a TIMESTAMP; write a cast")
        return compose_expr(_unix_sql(value.sql, unit), types.LONG, value)

    return rule


def _window_time(translate: Translator, node: Ast) -> TypedExpr:
    """Translate window_time(window): the last microsecond of a window."""
    value = translate(node.expressions[0]) if len(node.expressions) == 1 else None
    end = translate.struct_field(value, "end") if value and value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise refusal(node, "needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return TypedExpr(sql, types.TIMESTAMP, end.columns, time=end.time.shifted(-1))


declare("this expressions nested", exp.DataType)
declare("this", exp.DataTypeParam)
register("this to safe", {exp.Cast: _cast, exp.TryCast: _cast})
register("this format safe", {exp.TsOrDsToDate: _to_date})
register("this unit", {exp.TimestampTrunc: _date_trunc})
register(
    "this",
    {
        exp.Year: _date_part("year", wrapped=True),
        exp.Month: _date_part("month", wrapped=True),
        exp.Day: _date_part("day", wrapped=True),
        exp.DayOfMonth: _date_part("day", wrapped=True),
        exp.Hour: _date_part("hour"),
        exp.Minute: _date_part("minute"),
        exp.Second: _date_part("second"),
        exp.UnixMicros: _unix_time("microsecond"),
        exp.UnixMillis: _unix_time("millisecond"),
        exp.UnixSeconds: _unix_time("second"),
    },
)
NAMED_RULES["window_time"] = _window_time
