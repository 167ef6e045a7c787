"""Casts as in ANSI mode, and parts of dates and times in UTC."""

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.expressions import Rule, Translator, combined, said
from evenflow.sql.literals import timestamp_sql
from evenflow.sql.typed import Ast, Typed


def _cast(translate: Translator, node: Ast) -> Typed:
    kind = types.parse(node.args["to"])
    safe = bool(node.args.get("safe"))
    translate.learn(node.this, kind)
    if node.this.is_string and kind in (types.TIMESTAMP, types.TIMESTAMP_NTZ):
        try:
            return Typed(timestamp_sql(str(node.this.this)), kind)
        except ValueError:
            raise InputError(f"{said(node)} is no timestamp; write '2026-01-31 12:00:00'") from None
    return convert(node, translate(node.this), kind, safe=safe)


def convert(node: Ast, value: Typed, kind: pa.DataType, *, safe: bool = False) -> Typed:
    """Cast as Spark does in ANSI mode; refuse where the two engines format or read differently."""
    source = value.type
    if source == kind:
        return value
    integers = types.is_integer(kind)
    if types.is_time(source) and types.is_time(kind):
        return value.cast(kind)
    if source == types.STRING and integers:
        # Spark reads only whole numbers here; DuckDB alone would round '1.5'.
        checked = f"CASE WHEN regexp_full_match(trim({value.sql}), '[+-]?[0-9]+') THEN "
        other = "NULL" if safe else f"error('not a whole number: ' || {value.sql})"
        sql = f"{checked}trim({value.sql}) WHEN {value.sql} IS NULL THEN NULL ELSE {other} END"
        return _as(f"CAST({sql} AS VARCHAR)", kind, safe, value)
    allowed = (
        source == types.NULL
        or (types.is_number(source) and types.is_number(kind))
        or (kind == types.STRING and (types.is_integer(source) or source == types.DATE))
        or (kind == types.STRING and types.is_decimal(source))
        or (source == types.STRING and (types.is_decimal(kind) or kind == types.DATE))
        or (source == types.BOOLEAN and integers)
        or (integers and source == types.BOOLEAN)
        or (types.is_time(source) and kind == types.DATE)
        or (source == types.DATE and types.is_time(kind))
        or (types.is_time(source) and kind == types.LONG)
    )
    if not allowed:
        raise InputError(
            f"{said(node)}: a cast from {types.spark_name(source)} to {types.spark_name(kind)} is "
            "not supported, the engines differ on it; cast before the stream"
        )
    sql = value.sql
    if types.is_time(source) and kind == types.LONG:
        sql = f"CAST(floor(epoch_us({sql}) / 1000000) AS BIGINT)"
    elif types.is_decimal(source) and kind == types.STRING and source.precision < types.MAX_DIGITS:
        # With room for a digit before the point DuckDB writes 0.5, without it .5.
        sql = f"CAST({sql} AS DECIMAL({source.precision + 1},{source.scale}))"
    elif integers and (types.is_fraction(source) or types.is_decimal(source)):
        sql = f"trunc({sql})"
    return _as(sql, kind, safe, value)


def _as(sql: str, kind: pa.DataType, safe: bool, value: Typed) -> Typed:
    word = "TRY_CAST" if safe else "CAST"
    return combined(f"{word}({sql} AS {types.duckdb_name(kind)})", kind, value)


def _part(name: str) -> Rule:
    """Describe a part of a date or time, in UTC."""

    def rule(translate: Translator, node: Ast) -> Typed:
        value = translate(_undated(node.this))
        if not (types.is_time(value.type) or value.type == types.DATE):
            raise InputError(f"{said(node)} needs a timestamp or date; write a cast")
        return combined(f"CAST({name}({value.sql}) AS INTEGER)", types.INT, value)

    return rule


def _undated(node: Ast) -> Ast:
    """Undo the wrapping sqlglot adds around arguments of date functions."""
    while isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):
        node = node.this
    return node


def _to_date(translate: Translator, node: Ast) -> Typed:
    if node.args.get("format") is not None:
        raise InputError(f"{said(node)}: to_date with a format is not supported; cast to DATE")
    return convert(node, translate(_undated(node.this)), types.DATE)


def _trunc(translate: Translator, node: Ast) -> Typed:
    value, unit = translate(node.this), str(node.args["unit"].this).lower()
    if not types.is_time(value.type) or unit not in (
        *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    ):
        raise InputError(f"{said(node)}: write date_trunc('hour', timestamp) or another unit")
    sql = f"CAST(date_trunc({types.text(unit)}, {value.sql}) AS TIMESTAMP)"
    return combined(sql, value.type, value)


def _epoch(per_us: int) -> Rule:
    """Describe unix_micros, unix_millis and unix_seconds."""

    def rule(translate: Translator, node: Ast) -> Typed:
        argument = node.this if isinstance(node.this, exp.Expression) else node.expressions[0]
        value = translate(_undated(argument))
        if value.type != types.TIMESTAMP:
            raise InputError(f"{said(node)} needs a TIMESTAMP; write a cast")
        sql = f"epoch_us({value.sql})"
        if per_us > 1:
            sql = f"CAST(floor({sql} / {per_us}) AS BIGINT)"
        return combined(sql, types.LONG, value)

    return rule


def window_time(translate: Translator, node: Ast) -> Typed:
    """Translate the last moment of a window."""
    value = translate(node.expressions[0])
    end = translate.field(value, "end") if value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise InputError(f"{said(node)} needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return Typed(sql, types.TIMESTAMP, end.columns, time=end.time.shifted(-1))


CASTS: dict[type, Rule] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Year: _part("year"),
    exp.Month: _part("month"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
    exp.TsOrDsToDate: _to_date,
    exp.TimestampTrunc: _trunc,
    exp.UnixMicros: _epoch(1),
    exp.UnixMillis: _epoch(1_000),
    exp.UnixSeconds: _epoch(1_000_000),
}
