"""Dates and times in UTC: their parts, and moving and cutting them."""

from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import BAD_ARGUMENT
from evenflow.sql.translate.casts import cast_expr
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import (
    Only,
    Overload,
    coerce,
    constant,
    function,
    parsed,
    scalar,
)
from evenflow.sql.translate.text_casts import or_fail, unix_sql
from evenflow.sql.translate.translator import Translator, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, quote_string

_date = partial(scalar, topic="dates")
_FAIL = f"error({quote_string(BAD_ARGUMENT)})"
_PARTS = {  # Spark's name of a part -> DuckDB's function
    "year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day",
    "dayofyear": "dayofyear", "weekofyear": "weekofyear", "hour": "hour", "minute": "minute",
    "second": "second",
}  # fmt: skip
_EXTRACT = {
    "y": "year", "years": "year", "yr": "year", "yrs": "year", "year": "year",
    "quarter": "quarter", "qtr": "quarter", "month": "month", "mon": "month", "mons": "month",
    "months": "month", "week": "weekofyear", "w": "weekofyear", "weeks": "weekofyear",
    "day": "day", "d": "day", "days": "day", "doy": "dayofyear", "hour": "hour", "h": "hour",
    "hours": "hour", "hr": "hour", "hrs": "hour", "minute": "minute", "m": "minute",
    "min": "minute", "mins": "minute", "minutes": "minute", "yearofweek": "isoyear",
}  # fmt: skip
_UNITS = {  # of date_trunc and trunc
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mm": "month", "mon": "month", "week": "week", "day": "day", "dd": "day", "hour": "hour",
    "minute": "minute", "second": "second", "millisecond": "millisecond",
    "microsecond": "microsecond",
}  # fmt: skip
_SPANS_US = {
    "microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6,
    "hour": 3600 * 10**6, "day": 86400 * 10**6, "dayofyear": 86400 * 10**6,
    "week": 7 * 86400 * 10**6,
}  # fmt: skip
_DAYS = {"month": 31, "quarter": 92, "year": 366}  # at most
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _moment(translate: Translator, node: Ast, argument: Ast) -> TypedExpr:
    """Translate a date or timestamp; a text is read as a timestamp."""
    value = translate(argument)
    if types.is_timestamp(value.type) or value.type == DATE:
        return value
    if value.type in (STRING, types.NULL):
        return cast_expr(node, value, TIMESTAMP)
    raise refusal(node, "needs a timestamp or date; write a cast")


def _part(name: str) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = _moment(translate, node, arguments[0])
        return compose_expr(f"CAST({name}({value.sql}) AS INTEGER)", INT, value)

    return overload


for _name, _engine_name in _PARTS.items():
    function(_name, _part(_engine_name), 1, topic="dates")
_date("dayofweek", "CAST(dayofweek({0}) + 1 AS INTEGER)", INT, DATE)
_date("weekday", "CAST(isodow({0}) - 1 AS INTEGER)", INT, DATE)
_date("dayname", "left(dayname({0}), 3)", STRING, DATE)
_date("monthname", "left(monthname({0}), 3)", STRING, DATE)
_date("last_day", "last_day({0})", DATE, DATE)
_date("date_add dateadd", "CAST({0} + {1} AS DATE)", DATE, DATE, INT, can_fail=True)
_date("date_sub", "CAST({0} - {1} AS DATE)", DATE, DATE, INT, can_fail=True)
_date("datediff date_diff", "CAST({0} - {1} AS INTEGER)", INT, DATE, DATE)
_date("unix_date", "CAST({0} - DATE '1970-01-01' AS INTEGER)", INT,
      Only(DATE))  # fmt: skip
_date("date_from_unix_date", "CAST(DATE '1970-01-01' + {0} AS DATE)", DATE, INT, can_fail=True)
_date("timestamp_seconds", "make_timestamp({0} * 1000000)", TIMESTAMP, LONG, can_fail=True)
_date("timestamp_millis", "make_timestamp({0} * 1000)", TIMESTAMP, LONG, can_fail=True)
_date("timestamp_micros", "make_timestamp({0})", TIMESTAMP, LONG)
for _direction in ("from_utc", "to_utc"):
    _moved = or_fail(f"make_timestamp(spark_{_direction}(epoch_us({{0}}), {{1}}))", BAD_ARGUMENT)
    _date(f"{_direction}_timestamp", f"(CASE WHEN {{1}} IS NOT NULL THEN {_moved} END)", TIMESTAMP,
          TIMESTAMP, Only(STRING), route="kernel", can_fail=True)  # fmt: skip
_date("months_between", "spark_months_between(epoch_us({0}), epoch_us({1}), TRUE)", DOUBLE,
      TIMESTAMP, TIMESTAMP, route="kernel")  # fmt: skip
_date("months_between", "spark_months_between(epoch_us({0}), epoch_us({1}), {2})", DOUBLE,
      TIMESTAMP, TIMESTAMP, types.BOOLEAN, route="kernel")  # fmt: skip
_date("make_date",
      f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL OR {{2}} IS NULL THEN NULL "
      f"WHEN TRY(make_date({{0}}, {{1}}, {{2}})) IS NULL THEN {_FAIL} "
      "ELSE make_date({0}, {1}, {2}) END)", DATE, INT, INT, INT, can_fail=True)  # fmt: skip
_ADDED_MONTHS = (
    "CAST(least(date_trunc('month', {0}) + to_months({1}) + to_days(CAST(day({0}) - 1 AS INTEGER)),"
    " last_day(CAST(date_trunc('month', {0}) + to_months({1}) AS DATE))) AS DATE)"
)
_date("add_months", _ADDED_MONTHS, DATE, DATE, INT, can_fail=True)


def _next_day(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), DATE)
    name = str(constant(translate, node, arguments[1], str)).strip().lower()
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    day = next((at for at, d in enumerate(full, 1) if name in (d, d[:3], d[:2])), None)
    if day is None:
        raise refusal(node, "needs the name of a day, such as 'Monday'")
    template = (
        f"CAST({{0}} + CAST(1 + (({day} - 1 - isodow({{0}})) % 7 + 7) % 7 AS INTEGER) AS DATE)"
    )
    return compose_expr(write_once(template.format, value.sql), DATE, value)


def _extract(translate: Translator, node: Ast, word: str, argument: Ast) -> TypedExpr:
    value = _moment(translate, node, argument)
    unit = word.lower().strip("'\"")
    if unit in _EXTRACT:
        return compose_expr(f"CAST({_EXTRACT[unit]}({value.sql}) AS INTEGER)", INT, value)
    if unit in ("dow", "dayofweek", "dow_iso", "dayofweek_iso"):
        sql = f"isodow({value.sql})" if unit.endswith("iso") else f"(dayofweek({value.sql}) + 1)"
        return compose_expr(f"CAST({sql} AS INTEGER)", INT, value)
    if unit in ("second", "s", "sec", "secs", "seconds"):
        sql = f"CAST((epoch_us({value.sql}) % 60000000 + 60000000) % 60000000 AS DECIMAL(14,0))"
        kind = pa.decimal128(8, 6)
        return compose_expr(f"CAST({sql} * CAST(0.000001 AS DECIMAL(7,6)) AS DECIMAL(8,6))", kind,
                            value)  # fmt: skip
    raise refusal(node, f"asks for {word}; use YEAR, QUARTER, MONTH, WEEK, DAY, DOW, DOY, HOUR, "
                  "MINUTE or SECOND")  # fmt: skip


def _date_part(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    word = str(constant(translate, node, arguments[0], str))
    return _extract(translate, node, word, arguments[1])


def _date_trunc(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    unit = str(constant(translate, node, arguments[0], str)).lower()
    value = _moment(translate, node, arguments[1])
    if unit not in _UNITS:
        raise refusal(node, "is not supported; write date_trunc('hour', timestamp) or another unit")
    if value.type == DATE:
        value = value.cast(TIMESTAMP)
    sql = f"CAST(date_trunc({quote_string(_UNITS[unit])}, {value.sql}) AS TIMESTAMP)"
    time = value.time
    if time is not None:
        days = _DAYS.get(_UNITS[unit])
        span_us = days * _SPANS_US["day"] if days else _SPANS_US[_UNITS[unit]]
        time = time.floored(_UNITS[unit], span_us)
    return replace(compose_expr(sql, TIMESTAMP, value), time=time)


def _trunc(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), DATE)
    unit = str(constant(translate, node, arguments[1], str)).lower()
    if _UNITS.get(unit) not in ("year", "quarter", "month", "week"):
        raise refusal(node, "needs 'year', 'quarter', 'month' or 'week'")
    sql = f"CAST(date_trunc({quote_string(_UNITS[unit])}, {value.sql}) AS DATE)"
    return compose_expr(sql, DATE, value)


def _unix_time(unit: str) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = translate(arguments[0])
        if not types.is_timestamp(value.type):
            value = coerce(node, value, Only(TIMESTAMP))
        return compose_expr(unix_sql(value.sql, unit), LONG, value)

    return overload


def _unit_of(node: Ast, argument: Ast) -> str:
    word = argument.name if isinstance(argument, exp.Column) else str(argument.this)
    unit = "" if isinstance(argument, exp.Literal) else word.lower()
    if unit not in _SPANS_US and unit not in _MONTHS:
        raise refusal(node, f"has the unit {word[:20]}; use YEAR, MONTH, DAY, HOUR, MINUTE, SECOND")
    return unit


def shift_months(node: Ast, value: TypedExpr, months: TypedExpr) -> TypedExpr:
    """Add months: the day of the month is kept, or the last one of a shorter month."""
    if value.type == DATE:
        sql = write_once(_ADDED_MONTHS.format, value.sql, months.sql)
        return compose_expr(sql, DATE, value, months, can_fail=True)
    if not types.is_timestamp(value.type):
        raise refusal(node, "needs a date or timestamp; write a cast")
    day = _ADDED_MONTHS.format("CAST({0} AS DATE)", "{1}")
    template = f"(CAST({day} AS TIMESTAMP) + ({{0}} - date_trunc('day', {{0}})))"
    sql = write_once(template.format, value.sql, months.sql)
    return compose_expr(sql, value.type, value, months, can_fail=True)


def _timestamp_add(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    unit = _unit_of(node, arguments[0])
    count = coerce(node, translate(arguments[1]), INT)
    value = _moment(translate, node, arguments[2])
    if value.type == DATE:
        value = value.cast(TIMESTAMP)
    if unit in _MONTHS:
        months = replace(count, sql=f"({count.sql} * {_MONTHS[unit]})")
        return shift_months(node, value, months)
    sql = f"({value.sql} + to_microseconds(CAST({count.sql} AS BIGINT) * {_SPANS_US[unit]}))"
    return compose_expr(sql, value.type, value, count, can_fail=True)


def _timestamp_diff(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    unit = _unit_of(node, arguments[0])
    values = [_moment(translate, node, argument) for argument in arguments[1:]]
    first, second = (v.cast(TIMESTAMP) if v.type == DATE else v for v in values)
    if unit in _MONTHS:
        sql = f"CAST(datesub('month', {first.sql}, {second.sql}) // {_MONTHS[unit]} AS BIGINT)"
    else:
        sql = f"((epoch_us({second.sql}) - epoch_us({first.sql})) // {_SPANS_US[unit]})"
    return compose_expr(sql, LONG, first, second)


def _window_time(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    """Translate window_time(window): the last microsecond of a window."""
    value = translate(arguments[0])
    end = translate.struct_field(value, "end") if value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise refusal(node, "needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return TypedExpr(sql, TIMESTAMP, end.columns, time=end.time.shifted(-1))


def _extract_node(translate: Translator, node: Ast) -> TypedExpr:
    return _extract(translate, node, str(node.this.name), node.expression)


function("next_day", _next_day, 2, topic="dates")
function("date_part datepart", _date_part, 2, topic="dates")
function("date_trunc", _date_trunc, 2, topic="dates")
function("trunc", _trunc, 2, topic="dates")
function("unix_micros", _unix_time("microsecond"), 1, topic="dates")
function("unix_millis", _unix_time("millisecond"), 1, topic="dates")
function("unix_seconds", _unix_time("second"), 1, topic="dates")
function("timestampadd date_add dateadd", _timestamp_add, 3, topic="dates")
function("timestampdiff date_diff datediff", _timestamp_diff, 3, topic="dates")
function("window_time", _window_time, 1, topic="dates")
parsed("extract", topic="dates")
register("this expression", {exp.Extract: _extract_node})
