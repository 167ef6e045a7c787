"""Dates and times as texts in a given format, and back."""

import re
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.failures import NOT_A_TIME
from evenflow.sql.translate.casts import cast_expr
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import Overload, coerce, constant, function
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import DATE, LONG, STRING, TIMESTAMP, quote_string

DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_function = partial(function, topic="dates")
_YEAR = (
    "CASE WHEN year({0}) BETWEEN 0 AND 9999 THEN lpad(CAST(year({0}) AS VARCHAR), 4, '0') "
    "WHEN year({0}) > 9999 THEN '+' || CAST(year({0}) AS VARCHAR) "
    "ELSE lpad(CAST(1 - year({0}) AS VARCHAR), 4, '0') END"
)
_HOUR_12 = "(hour({0}) + 11) % 12 + 1"


def _padded(sql: str, size: int) -> str:
    text = f"CAST({sql} AS VARCHAR)"
    return f"lpad({text}, CAST(greatest({size}, length({text})) AS INTEGER), '0')"


_WRITTEN = {
    "yyyy": _YEAR, "uuuu": _YEAR, "y": "CAST(year({0}) AS VARCHAR)",
    "yy": _padded("year({0}) % 100", 2),
    "M": "CAST(month({0}) AS VARCHAR)", "MM": _padded("month({0})", 2),
    "MMM": "left(monthname({0}), 3)", "MMMM": "monthname({0})",
    "LLL": "left(monthname({0}), 3)", "LLLL": "monthname({0})",
    "d": "CAST(day({0}) AS VARCHAR)", "dd": _padded("day({0})", 2),
    "D": "CAST(dayofyear({0}) AS VARCHAR)", "DDD": _padded("dayofyear({0})", 3),
    "H": "CAST(hour({0}) AS VARCHAR)", "HH": _padded("hour({0})", 2),
    "h": f"CAST({_HOUR_12} AS VARCHAR)", "hh": _padded(_HOUR_12, 2),
    "m": "CAST(minute({0}) AS VARCHAR)", "mm": _padded("minute({0})", 2),
    "s": "CAST(second({0}) AS VARCHAR)", "ss": _padded("second({0})", 2),
    "a": "CASE WHEN hour({0}) < 12 THEN 'AM' ELSE 'PM' END",
    "E": "left(dayname({0}), 3)", "EE": "left(dayname({0}), 3)", "EEE": "left(dayname({0}), 3)",
    "EEEE": "dayname({0})", "Q": "CAST(quarter({0}) AS VARCHAR)",
    "QQ": _padded("quarter({0})", 2), "QQQ": "'Q' || CAST(quarter({0}) AS VARCHAR)",
    **{"S" * n: f"left(strftime({{0}}, '%f'), {n})" for n in range(1, 7)},
}  # fmt: skip


class _Read(NamedTuple):
    """A part that can be read: its pattern, and what it is."""

    pattern: str
    part: str


_READ = {
    "yyyy": _Read(r"\d{4}", "year"), "uuuu": _Read(r"\d{4}", "year"),
    "MM": _Read(r"\d{2}", "month"), "M": _Read(r"\d{1,2}", "month"),
    "dd": _Read(r"\d{2}", "day"), "d": _Read(r"\d{1,2}", "day"),
    "HH": _Read(r"\d{2}", "hour"), "H": _Read(r"\d{1,2}", "hour"),
    "mm": _Read(r"\d{2}", "minute"), "m": _Read(r"\d{1,2}", "minute"),
    "ss": _Read(r"\d{2}", "second"), "s": _Read(r"\d{1,2}", "second"),
    **{"S" * n: _Read(rf"\d{{{n}}}", "fraction") for n in range(1, 7)},
}  # fmt: skip
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")


def _tokens(node: Ast, form: str, known: dict[str, object]) -> list[tuple[str, bool]]:
    """Split a format into letters (True) and plain text (False)."""
    found, at = [], 0
    while at < len(form):
        token = _TOKEN.match(form, at)
        if token is None or token[0] in ("[", "]", "#", "{", "}"):
            raise refusal(node, f"has the format {form[:40]!r}, which cannot be read")
        if token[2]:
            if token[0] not in known:
                letters = ", ".join(sorted(known))
                raise refusal(node, f"has {token[0]} in its format; known are {letters}")
            found.append((token[0], True))
        else:
            text = token[1] if token[0].startswith("'") else token[0]
            found.append(((text or "'").replace("''", "'"), False))
        at = token.end()
    return found


def format_time(node: Ast, value: TypedExpr, form: str) -> TypedExpr:
    """Write a time as a text."""
    tokens = _tokens(node, form, dict(_WRITTEN))
    parts = [
        f"({_WRITTEN[text]})"
        if is_letter
        else quote_string(text.replace("{", "{{").replace("}", "}}"))
        for text, is_letter in tokens
    ]
    template = f"({' || '.join(parts or [quote_string('')])})"
    if not any(is_letter for _, is_letter in tokens):
        template = f"(CASE WHEN {{0}} IS NOT NULL THEN {template} END)"
    return compose_expr(write_once(template.format, value.sql), STRING, value)


def read_time(
    node: Ast, value: TypedExpr, form: str, kind: pa.DataType, *, safe: bool
) -> TypedExpr:
    """Read a text as a time by a format; anything else fails, or is NULL if safe."""
    pattern = ""
    parts: dict[str, int] = {}
    for text, is_letter in _tokens(node, form, dict(_READ)):
        if not is_letter:
            pattern += re.escape(text)
            continue
        pattern += f"({_READ[text].pattern})"
        if _READ[text].part in parts:
            raise refusal(node, f"has the {_READ[text].part} twice in its format")
        parts[_READ[text].part] = len(parts) + 1
    if "year" not in parts:
        raise refusal(node, "has a format without the year, as yyyy")
    quoted = quote_string(f"^{pattern}$")
    names = ", ".join(f"'g{at}'" for at in parts.values())
    text = '"\x01found"'

    def part(name: str, default: str) -> str:
        if name not in parts:
            return default
        return f"CAST({text}.g{parts[name]} AS INTEGER)"

    clock = ", ".join(part(name, "0") for name in ("hour", "minute"))
    seconds = f"CAST({part('second', '0')} AS DOUBLE)"
    moment = (
        f"make_timestamp({part('year', '1970')}, {part('month', '1')}, {part('day', '1')}, "
        f"{clock}, {seconds})"
    )
    if "fraction" in parts:
        micros = f"CAST(rpad({text}.g{parts['fraction']}, 6, '0') AS BIGINT)"
        moment = f"({moment} + to_microseconds({micros}))"
    if kind == DATE:
        moment = f"CAST({moment} AS DATE)"
    failure = "NULL" if safe else f"error({quote_string(NOT_A_TIME)})"

    def body(operand: str) -> str:
        found = f"regexp_extract({operand}, {quoted}, [{names}])"
        result = f"list_transform([{found}], lambda {text}: TRY({moment}))[1]"
        return (
            f"(CASE WHEN {operand} IS NULL THEN NULL WHEN NOT regexp_matches({operand}, {quoted}) "
            f"THEN {failure} ELSE coalesce({result}, {failure}) END)"
        )

    sql = write_once(body, value.sql)
    return compose_expr(sql, kind, value, can_fail=not safe)


def _date_format(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if not types.is_timestamp(value.type):
        value = coerce(node, value, TIMESTAMP)
    return format_time(node, value, str(constant(translate, node, arguments[1], str)))


def _to_time(kind: pa.DataType, *, safe: bool = False) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = translate(arguments[0])
        if len(arguments) < 2:
            return cast_expr(node, value, kind, safe=safe)
        if value.type != STRING:
            raise refusal(node, "has a format, which is for a STRING; leave it out")
        form = str(constant(translate, node, arguments[1], str))
        return read_time(node, value, form, kind, safe=safe)

    return overload


def _from_unixtime(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    seconds = coerce(node, translate(arguments[0]), LONG)
    form = DEFAULT_FORMAT
    if len(arguments) > 1:
        form = str(constant(translate, node, arguments[1], str))
    # Java's product of BIGINTs wraps around.
    product = f"(CAST({seconds.sql} AS HUGEINT) * 1000000)"
    size, half = f"{1 << 64}", f"{1 << 63}"
    wrapped = f"(({product} % {size} + {size} + {half}) % {size} - {half})"
    value = compose_expr(f"make_timestamp(CAST({wrapped} AS BIGINT))", TIMESTAMP, seconds,
                         can_fail=True)  # fmt: skip
    return format_time(node, value, form)


def _unix_timestamp(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if value.type == STRING:
        form = DEFAULT_FORMAT
        if len(arguments) > 1:
            form = str(constant(translate, node, arguments[1], str))
        value = read_time(node, value, form, TIMESTAMP, safe=False)
    elif len(arguments) > 1:
        raise refusal(node, "has a format, which is for a STRING; leave it out")
    elif not types.is_timestamp(value.type):
        value = coerce(node, value, TIMESTAMP)
    return compose_expr(f"(epoch_us({value.sql}) // 1000000)", LONG, value)  # towards zero


_function("date_format", _date_format, 2)
_function("to_date", _to_time(DATE), 1, 2)
_function("to_timestamp", _to_time(TIMESTAMP), 1, 2)
_function("try_to_timestamp", _to_time(TIMESTAMP, safe=True), 1, 2)
_function("try_to_date", _to_time(DATE, safe=True), 1, 2)
_function("to_timestamp_ltz", _to_time(TIMESTAMP), 1, 2)
_function("to_timestamp_ntz", _to_time(types.TIMESTAMP_NTZ), 1, 2)
_function("from_unixtime", _from_unixtime, 1, 2)
_function("unix_timestamp to_unix_timestamp", _unix_timestamp, 1, 2)
