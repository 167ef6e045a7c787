"""Casts as in ANSI mode, and parts of dates and times in UTC."""

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.literals import timestamp_sql
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Rule, Translator, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr

_TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _cast(translate: Translator, node: Ast) -> TypedExpr:
    kind = types.parse_type(node.args["to"])
    translate.infer_parameter_type(node.this, kind)
    if node.this.is_string and types.is_timestamp(kind):
        try:
            return TypedExpr(timestamp_sql(str(node.this.this)), kind)
        except ValueError:
            raise refusal(node, "is not a timestamp; write '2026-01-31 12:00:00'") from None
    return _cast_expr(node, translate(node.this), kind, safe=bool(node.args.get("safe")))


def _cast_expr(node: Ast, value: TypedExpr, kind: pa.DataType, *, safe: bool = False) -> TypedExpr:
    """Cast as Spark does in ANSI mode; refuse casts on which the two engines differ."""
    source, sql = value.type, value.sql
    if source == kind:
        return value
    if types.is_timestamp(source) and types.is_timestamp(kind):
        return value.cast(kind)
    if not _is_supported(source, kind):
        names = f"{types.spark_name(source)} to {types.spark_name(kind)}"
        raise refusal(node, f"casts {names}, but the engines differ on it; cast before the stream")
    if source == types.STRING and types.is_integer(kind):
        # Spark reads only integers here, while DuckDB would round '1.5'.
        other = "NULL" if safe else f"error('not a whole number: ' || {value.sql})"
        sql = (
            f"CAST(CASE WHEN regexp_full_match(trim({sql}), '[+-]?[0-9]+') THEN trim({sql}) "
            f"WHEN {sql} IS NULL THEN NULL ELSE {other} END AS VARCHAR)"
        )
    elif types.is_timestamp(source) and kind == types.LONG:
        sql = f"CAST(floor(epoch_us({sql}) / 1000000) AS BIGINT)"
    elif (
        types.is_decimal(source)
        and kind == types.STRING
        and source.precision < types.MAX_DECIMAL_DIGITS
    ):
        # With room for a digit before the point DuckDB writes 0.5, without it .5.
        sql = f"CAST({sql} AS DECIMAL({source.precision + 1},{source.scale}))"
    elif types.is_integer(kind) and (types.is_floating(source) or types.is_decimal(source)):
        sql = f"trunc({sql})"
    word = "TRY_CAST" if safe else "CAST"
    return compose_expr(f"{word}({sql} AS {types.duckdb_name(kind)})", kind, value)


def _is_supported(source: pa.DataType, kind: pa.DataType) -> bool:
    exact = types.is_integer(kind) or types.is_decimal(kind)
    exact_source = types.is_integer(source) or types.is_decimal(source)
    return (
        source == types.NULL
        or (types.is_number(source) and types.is_number(kind))
        or (kind == types.STRING and (exact_source or source == types.DATE))
        or (source == types.STRING and (exact or kind == types.DATE))
        or (source == types.BOOLEAN and types.is_integer(kind))
        or (types.is_timestamp(source) and kind in (types.DATE, types.LONG))
        or (source == types.DATE and types.is_timestamp(kind))
    )


def _date_part(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = translate(_unwrap_date_argument(node.this))
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
    return compose_expr(sql, value.type, value)


def _unix_time(unit_us: int) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        argument = node.this if isinstance(node.this, exp.Expression) else node.expressions[0]
        value = translate(_unwrap_date_argument(argument))
        if value.type != types.TIMESTAMP:
            raise refusal(node, "needs a TIMESTAMP; write a cast")
        sql = f"epoch_us({value.sql})"
        if unit_us > 1:
            sql = f"CAST(floor({sql} / {unit_us}) AS BIGINT)"
        return compose_expr(sql, types.LONG, value)

    return rule


def _window_time(translate: Translator, node: Ast) -> TypedExpr:
    """Translate window_time(window): the last microsecond of a window."""
    value = translate(node.expressions[0])
    end = translate.struct_field(value, "end") if value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise refusal(node, "needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return TypedExpr(sql, types.TIMESTAMP, end.columns, time=end.time.shifted(-1))


register(
    {
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
    },
    {"window_time": _window_time},
)
