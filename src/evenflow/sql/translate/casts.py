"""Casts as in ANSI mode, and parts of dates and times in UTC."""

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.literals import timestamp_sql
from evenflow.sql.translate.translator import Rule, Translator, compose_expr, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr


def _cast(translate: Translator, node: Ast) -> TypedExpr:
    kind = types.parse_type(node.args["to"])
    safe = bool(node.args.get("safe"))
    translate.infer_parameter_type(node.this, kind)
    if node.this.is_string and kind in (types.TIMESTAMP, types.TIMESTAMP_NTZ):
        try:
            return TypedExpr(timestamp_sql(str(node.this.this)), kind)
        except ValueError:
            raise InputError(
                f"{quote_sql(node)} is no timestamp; write '2026-01-31 12:00:00'"
            ) from None
    return cast_expr(node, translate(node.this), kind, safe=safe)


def cast_expr(node: Ast, value: TypedExpr, kind: pa.DataType, *, safe: bool = False) -> TypedExpr:
    """Cast as Spark does in ANSI mode; refuse where the two engines format or read differently."""
    source = value.type
    if source == kind:
        return value
    integers = types.is_integer(kind)
    if types.is_timestamp(source) and types.is_timestamp(kind):
        return value.cast(kind)
    if source == types.STRING and integers:
        # Spark reads only whole numbers here; DuckDB alone would round '1.5'.
        checked = f"CASE WHEN regexp_full_match(trim({value.sql}), '[+-]?[0-9]+') THEN "
        other = "NULL" if safe else f"error('not a whole number: ' || {value.sql})"
        sql = f"{checked}trim({value.sql}) WHEN {value.sql} IS NULL THEN NULL ELSE {other} END"
        return _cast_sql(f"CAST({sql} AS VARCHAR)", kind, safe, value)
    allowed = (
        source == types.NULL
        or (types.is_number(source) and types.is_number(kind))
        or (kind == types.STRING and (types.is_integer(source) or source == types.DATE))
        or (kind == types.STRING and types.is_decimal(source))
        or (source == types.STRING and (types.is_decimal(kind) or kind == types.DATE))
        or (source == types.BOOLEAN and integers)
        or (integers and source == types.BOOLEAN)
        or (types.is_timestamp(source) and kind == types.DATE)
        or (source == types.DATE and types.is_timestamp(kind))
        or (types.is_timestamp(source) and kind == types.LONG)
    )
    if not allowed:
        raise InputError(
            f"{quote_sql(node)}: a cast from {types.spark_name(source)} to {types.spark_name(kind)} is "
            "not supported, the engines differ on it; cast before the stream"
        )
    sql = value.sql
    if types.is_timestamp(source) and kind == types.LONG:
        sql = f"CAST(floor(epoch_us({sql}) / 1000000) AS BIGINT)"
    elif (
        types.is_decimal(source)
        and kind == types.STRING
        and source.precision < types.MAX_DECIMAL_DIGITS
    ):
        # With room for a digit before the point DuckDB writes 0.5, without it .5.
        sql = f"CAST({sql} AS DECIMAL({source.precision + 1},{source.scale}))"
    elif integers and (types.is_floating(source) or types.is_decimal(source)):
        sql = f"trunc({sql})"
    return _cast_sql(sql, kind, safe, value)


def _cast_sql(sql: str, kind: pa.DataType, safe: bool, value: TypedExpr) -> TypedExpr:
    word = "TRY_CAST" if safe else "CAST"
    return compose_expr(f"{word}({sql} AS {types.duckdb_name(kind)})", kind, value)


def _date_part(name: str) -> Rule:
    """Describe a part of a date or time, in UTC."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = translate(_unwrap_date_argument(node.this))
        if not (types.is_timestamp(value.type) or value.type == types.DATE):
            raise InputError(f"{quote_sql(node)} needs a timestamp or date; write a cast")
        return compose_expr(f"CAST({name}({value.sql}) AS INTEGER)", types.INT, value)

    return rule


def _unwrap_date_argument(node: Ast) -> Ast:
    """Undo the wrapping sqlglot adds around arguments of date functions."""
    while isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):
        node = node.this
    return node


def _to_date(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("format") is not None:
        raise InputError(f"{quote_sql(node)}: to_date with a format is not supported; cast to DATE")
    return cast_expr(node, translate(_unwrap_date_argument(node.this)), types.DATE)


def _date_trunc(translate: Translator, node: Ast) -> TypedExpr:
    value, unit = translate(node.this), str(node.args["unit"].this).lower()
    if not types.is_timestamp(value.type) or unit not in (
        *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    ):
        raise InputError(f"{quote_sql(node)}: write date_trunc('hour', timestamp) or another unit")
    sql = f"CAST(date_trunc({types.quote_string(unit)}, {value.sql}) AS TIMESTAMP)"
    return compose_expr(sql, value.type, value)


def _unix_time(per_us: int) -> Rule:
    """Describe unix_micros, unix_millis and unix_seconds."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        argument = node.this if isinstance(node.this, exp.Expression) else node.expressions[0]
        value = translate(_unwrap_date_argument(argument))
        if value.type != types.TIMESTAMP:
            raise InputError(f"{quote_sql(node)} needs a TIMESTAMP; write a cast")
        sql = f"epoch_us({value.sql})"
        if per_us > 1:
            sql = f"CAST(floor({sql} / {per_us}) AS BIGINT)"
        return compose_expr(sql, types.LONG, value)

    return rule


def translate_window_time(translate: Translator, node: Ast) -> TypedExpr:
    """Translate the last moment of a window."""
    value = translate(node.expressions[0])
    end = translate.struct_field(value, "end") if value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise InputError(f"{quote_sql(node)} needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return TypedExpr(sql, types.TIMESTAMP, end.columns, time=end.time.shifted(-1))


CAST_RULES: dict[type, Rule] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Year: _date_part("year"),
    exp.Month: _date_part("month"),
    exp.Day: _date_part("day"),
    exp.DayOfMonth: _date_part("day"),
    exp.Hour: _date_part("hour"),
    exp.Minute: _date_part("minute"),
    exp.Second: _date_part("second"),
    exp.TsOrDsToDate: _to_date,
    exp.TimestampTrunc: _date_trunc,
    exp.UnixMicros: _unix_time(1),
    exp.UnixMillis: _unix_time(1_000),
    exp.UnixSeconds: _unix_time(1_000_000),
}
