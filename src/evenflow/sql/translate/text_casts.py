"""Casts between texts, truth values, times and numbers that are written out or use a kernel."""

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.failures import NOT_A_NUMBER, NOT_A_TIME, NOT_BOOLEAN
from evenflow.sql.translate.typed_expr import TypedExpr, compose_expr, write_once

_PAD = r"[\x00-\x20\x7F]*"
_TRUE, _FALSE = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"


def _dated(rest: str) -> str:
    """Write a date or time as text; Java puts a sign before a year of more than four digits."""
    return (
        "(CASE WHEN year({0}) BETWEEN 1 AND 9999 THEN CAST({0} AS VARCHAR) ELSE "
        "(CASE WHEN year({0}) > 9999 THEN '+' WHEN year({0}) < 0 THEN '-' ELSE '' END) || "
        "lpad(CAST(abs(year({0})) AS VARCHAR), "
        "CAST(greatest(4, length(CAST(abs(year({0})) AS VARCHAR))) AS INTEGER), '0') || "
        f"{rest} END)"
    )


_TEXTS = {
    types.DOUBLE: "spark_double_text({0})",
    types.FLOAT: "spark_float_text({0})",
    types.BOOLEAN: "(CASE WHEN {0} THEN 'true' WHEN NOT {0} THEN 'false' END)",
    types.DATE: _dated("strftime({0}, '-%m-%d')"),
    **dict.fromkeys(
        (types.TIMESTAMP, types.TIMESTAMP_NTZ),
        _dated("strftime({0}, '-%m-%d %H:%M:%S') || rtrim(rtrim(strftime({0}, '.%f'), '0'), '.')"),
    ),
    types.BINARY: "decode({0})",
}


def unix_sql(time_sql: str, unit: str) -> str:
    """Write whole units since 1970; the unit is cut first, since division would round."""
    if unit == "microsecond":
        return f"epoch_us({time_sql})"
    milliseconds = f"epoch_ms(date_trunc('{unit}', {time_sql}))"
    return milliseconds if unit == "millisecond" else f"({milliseconds} // 1000)"


def or_fail(kernel: str, problem: str) -> str:
    """Write a kernel that returns NULL for what it cannot read as a failure; `{0}` is read."""
    failure = f"error({types.quote_string(problem)})"
    return (
        f"(CASE WHEN {{0}} IS NULL THEN NULL WHEN {kernel} IS NULL THEN {failure} "
        f"ELSE {kernel} END)"
    )


def text_cast(value: TypedExpr, kind: pa.DataType, *, safe: bool) -> TypedExpr | None:
    """Return the cast, or None if it is another one."""
    found = _template(value.type, kind)
    if found is None:
        return None
    template, problem = found
    if problem is not None and not safe:
        template = or_fail(template, problem)
    sql = write_once(template.format, value.sql)
    return compose_expr(sql, kind, value, can_fail=problem is not None and not safe)


def _template(  # noqa: PLR0911 - a table of types
    source: pa.DataType, kind: pa.DataType
) -> tuple[str, str | None] | None:
    """Return the SQL of a cast over `{0}`, and the problem where it is NULL but its operand not."""
    if kind == types.STRING:
        return (_TEXTS[source], None) if source in _TEXTS else None
    if source == types.STRING:
        return _from_text(kind)
    if kind == types.BOOLEAN and types.is_number(source):
        return "({0} <> 0)", None
    if source == types.BOOLEAN and (types.is_floating(kind) or types.is_decimal(kind)):
        return f"CAST(CAST({{0}} AS INTEGER) AS {types.duckdb_name(kind)})", None
    if source == types.TIMESTAMP and kind == types.DOUBLE:
        return "(CAST(epoch_us({0}) AS DOUBLE) / 1000000)", None
    if types.is_integer(source) and kind == types.TIMESTAMP:
        return "make_timestamp(CAST({0} AS BIGINT) * 1000000)", None
    return None


def _from_text(kind: pa.DataType) -> tuple[str, str | None] | None:
    if kind == types.DOUBLE:
        nan = "lower(trim({0}, ' \t\r\n')) = 'nan'"  # the engine takes a NaN of Python for NULL
        return f"(CASE WHEN {nan} THEN CAST('NaN' AS DOUBLE) ELSE spark_read_double({{0}}) END)", (
            NOT_A_NUMBER
        )
    if types.is_timestamp(kind):
        has_zone = "TRUE" if kind == types.TIMESTAMP else "FALSE"
        return f"make_timestamp(spark_read_timestamp({{0}}, {has_zone}))", NOT_A_TIME
    if kind == types.BOOLEAN:
        word = types.quote_string(f"^{_PAD}([a-z01]*){_PAD}$")
        word = f"regexp_extract(lower({{0}}), {word}, 1)"
        return f"(CASE WHEN {word} IN {_TRUE} THEN TRUE WHEN {word} IN {_FALSE} THEN FALSE END)", (
            NOT_BOOLEAN
        )
    if kind == types.BINARY:
        return "encode({0})", None
    return None
