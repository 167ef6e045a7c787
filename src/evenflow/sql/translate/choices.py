"""Functions that choose or test a value, name its type, cast it, or write it by a format."""

import re
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.casts import cast_expr
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import (
    ANY,
    NUMBER,
    Overload,
    coerce,
    constant,
    function,
    parsed,
    scalar,
)
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import BOOLEAN, STRING, quote_string

_choice = partial(scalar, topic="choices")
_CASTS = {
    "boolean": types.BOOLEAN, "tinyint": types.BYTE, "smallint": types.SHORT, "int": types.INT,
    "bigint": types.LONG, "float": types.FLOAT, "double": types.DOUBLE, "string": types.STRING,
    "binary": types.BINARY, "date": types.DATE, "timestamp": types.TIMESTAMP,
    "decimal": pa.decimal128(10, 0),
}  # fmt: skip
_FORMAT = re.compile(r"%(?:(%)|(n)|([-+0, (]*)(\d{0,3})(?:\.(\d{1,2}))?([a-zA-Z]))")

parsed("coalesce nvl2 nullif greatest least if", topic="choices")
_choice("isnull", "({0} IS NULL)", BOOLEAN, ANY)
_choice("isnotnull", "({0} IS NOT NULL)", BOOLEAN, ANY)


def _equal_null(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    return translate(exp.NullSafeEQ(this=arguments[0], expression=arguments[1]))


def _type_of(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    name = types.spark_name(translate(arguments[0]).type).lower()
    name = name.replace(", ", ",").replace(": ", ":")
    return TypedExpr(quote_string(name), STRING, literal=name)


def _cast_to(kind: pa.DataType) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        return cast_expr(node, translate(arguments[0]), kind)

    return overload


def _decode(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    """Translate decode(binary, 'utf-8') and decode(value, search, result, ..., default)."""
    if len(arguments) == 2:
        charset = str(constant(translate, node, arguments[1], str)).lower()
        if charset != "utf-8":
            raise refusal(node, "needs 'UTF-8' as its character set")
        value = coerce(node, translate(arguments[0]), types.BINARY)
        return compose_expr(f"decode({value.sql})", STRING, value, can_fail=True)
    if len(arguments) < 3:
        raise refusal(node, "needs a value, what to search for, and a result")
    value, *rest = arguments
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    ifs = [
        exp.If(this=exp.NullSafeEQ(this=value.copy(), expression=search), true=result)
        for search, result in pairs
    ]
    default = rest[-1] if len(rest) % 2 else None
    chosen = translate(exp.Case(ifs=ifs, default=default))
    if chosen.type != STRING:
        raise refusal(node, "chooses among other values than STRING; write CASE")
    return chosen


def _encode(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    charset = str(constant(translate, node, arguments[1], str)).lower()
    if charset != "utf-8":
        raise refusal(node, "needs 'UTF-8' as its character set")
    value = coerce(node, translate(arguments[0]), STRING)
    return compose_expr(f"encode({value.sql})", types.BINARY, value)


def _format_one(node: Ast, found: re.Match[str], value: TypedExpr) -> str:
    """Write one value by its part of a format, such as %5.2f."""
    flags, width, digits, letter = found[3], found[4], found[5], found[6]
    size = int(width or 0)
    if letter == "s" and not flags.replace("-", "") and digits is None:
        text = f"coalesce({coerce(node, value, STRING).sql}, 'null')"
    elif letter == "d" and types.is_integer(value.type) and not set(flags) - set("-0,+"):
        shown = "format('{{:,}}', abs(CAST({0} AS HUGEINT)))" if "," in flags else (
            "CAST(abs(CAST({0} AS HUGEINT)) AS VARCHAR)"
        )  # fmt: skip
        plus = "'+'" if "+" in flags else "''"
        sign = f"(CASE WHEN {{0}} < 0 THEN '-' ELSE {plus} END)"
        if "0" in flags and size:
            template = f"coalesce({sign} || lpad({shown}, CAST(greatest({size} - length({sign}), " \
                       f"length({shown})) AS INTEGER), '0'), 'null')"  # fmt: skip
        else:
            template = f"coalesce({sign} || {shown}, 'null')"
        text = write_once(template.format, value.sql)
    elif letter == "f" and types.is_floating(value.type) and "(" not in flags:
        form = f"{flags}{width}" + (f".{digits}" if digits is not None else "")
        return f"spark_format_float({quote_string(form)}, {value.cast(types.DOUBLE).sql})"
    elif letter in "xX" and value.type == types.INT and not flags:
        text = "lower(hex(CASE WHEN {0} < 0 THEN CAST({0} AS BIGINT) + 4294967296 ELSE {0} END))"
        text = write_once(text.format, value.sql)
        text = f"coalesce({'upper' if letter == 'X' else ''}({text}), 'null')"
    else:
        raise refusal(node, f"has {found[0]} for {types.spark_name(value.type)}; use %s, %d (of "
                      "integers), %f (of DOUBLE) or %x (of INT)")  # fmt: skip
    if not size:
        return text
    # Java counts a character beyond U+FFFF twice.
    units = r"(length({0}) + length(regexp_replace({0}, '[\x{{0}}-\x{{FFFF}}]', '', 'g')))"
    blanks = f"repeat(' ', greatest({size} - {units}, 0))"
    padded = f"({{0}} || {blanks})" if "-" in flags else f"({blanks} || {{0}})"
    return write_once(padded.format, text)


def _format_string(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    form = str(constant(translate, node, arguments[0], str))
    values = [translate(argument) for argument in arguments[1:]]
    parts, at, used = [], 0, 0
    for found in _FORMAT.finditer(form):
        parts.append(quote_string(form[at : found.start()]))
        at = found.end()
        if found[1] or found[2]:
            parts.append(quote_string("%" if found[1] else "\n"))
            continue
        if used >= len(values):
            raise refusal(node, "has more places in its format than values")
        parts.append(_format_one(node, found, values[used]))
        used += 1
    parts.append(quote_string(form[at:]))
    if "%" in "".join(p for p in (_FORMAT.sub("", form),)):
        raise refusal(node, "has a format that cannot be read; use %s, %d, %f and %x")
    return compose_expr(f"({' || '.join(parts)})", STRING, *values)


def _first_not_null(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    return translate(exp.Coalesce(this=arguments[0], expressions=arguments[1:]))


def _zero_if_null(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    coerce(node, translate(arguments[0]), NUMBER)
    return _first_not_null(translate, node, [arguments[0], exp.Literal.number(0)])


def _null_if_zero(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    if translate(arguments[0]).type == types.NULL:
        raise refusal(node, "has a NULL without a type; write CAST(NULL AS INT)")
    value = coerce(node, translate(arguments[0]), NUMBER)
    return compose_expr(f"nullif({value.sql}, 0)", value.type, value)


function("nvl ifnull", _first_not_null, 2, topic="choices")
function("zeroifnull", _zero_if_null, 1, topic="choices")
function("nullifzero", _null_if_zero, 1, topic="choices")
function("equal_null", _equal_null, 2, topic="choices")
function("typeof", _type_of, 1, topic="choices")
function("decode", _decode, topic="choices")
function("encode", _encode, 2, topic="strings")
function("format_string printf", _format_string, topic="strings", route="kernel")
for _name, _kind in _CASTS.items():
    function(_name, _cast_to(_kind), 1, topic="casts")
parsed("cast try_cast", topic="casts")
