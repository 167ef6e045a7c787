"""Plus, minus, times: of numbers in the precision Spark gives, of timestamps and intervals."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.expressions import Rule, Translator, combined, said
from evenflow.sql.intervals import interval_us
from evenflow.sql.literals import literal
from evenflow.sql.typed import Ast, Typed

_SIGNS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def _arithmetic(translate: Translator, node: Ast) -> Typed:
    if isinstance(node, exp.Add | exp.Sub):
        if isinstance(node.right, exp.Interval) or _is_interval(node.right):
            return _shift(translate, node)
        if isinstance(node, exp.Add) and _is_interval(node.left):
            return _shift(translate, exp.Add(this=node.right, expression=node.left))
    left, right = translate(node.left), translate(node.right)
    for side in (left, right):
        if not (types.is_number(side.type) or side.type == types.NULL):
            raise InputError(
                f"{said(node)}: {types.spark_name(side.type)} is no number; "
                "times take an INTERVAL, for the rest write a cast"
            )
    if left.type == types.NULL:
        left = left.cast(types.DOUBLE if right.type == types.NULL else right.type)
    if right.type == types.NULL:
        right = right.cast(left.type)
    sign = _SIGNS[type(node)]
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal(node, sign, left, right)
    left, right = translate.pair(node, left, right)
    return combined(f"({left.sql} {sign} {right.sql})", left.type, left, right)


def _decimal(node: Ast, sign: str, left: Typed, right: Typed) -> Typed:
    """Add, subtract or multiply exactly, in the precision Spark gives."""
    if types.is_fraction(left.type) or types.is_fraction(right.type):
        left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
        return combined(f"({left.sql} {sign} {right.sql})", types.DOUBLE, left, right)
    a, b = as_decimal(left), as_decimal(right)
    if sign == "*":
        digits, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits > types.MAX_DIGITS:
        raise InputError(
            f"{said(node)} needs {digits} digits of DECIMAL, 38 is the most; "
            "cast a side to fewer digits or to DOUBLE"
        )
    kind = pa.decimal128(digits, scale)
    left, right = left.cast(a), right.cast(b)
    name = types.duckdb_name(kind)
    if sign == "*":
        sql = f"CAST({left.sql} * {right.sql} AS {name})"
    else:
        sql = f"CAST(CAST({left.sql} AS {name}) {sign} CAST({right.sql} AS {name}) AS {name})"
    return combined(sql, kind, left, right)


def as_decimal(value: Typed) -> pa.Decimal128Type:
    """Return the decimal type of an operand; Spark takes a literal at its own length."""
    if isinstance(value.literal, int) and types.is_integer(value.type):
        return pa.decimal128(max(len(str(abs(value.literal))), 1), 0)
    return types.as_decimal(value.type)


def _is_interval(node: Ast) -> bool:
    if isinstance(node, exp.Paren):
        return _is_interval(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _is_interval(node.left) and _is_interval(node.right)
    return isinstance(node, exp.Interval)


def _shift(translate: Translator, node: Ast) -> Typed:
    """Move a timestamp by a constant."""
    value, by_us = translate(node.left), interval_us(node.right)
    if not types.is_time(value.type):
        raise InputError(
            f"{said(node)} adds an interval to {types.spark_name(value.type)}; "
            "cast it to TIMESTAMP first"
        )
    if isinstance(node, exp.Sub):
        by_us = -by_us
    sql = f"({value.sql} + to_microseconds({by_us}))"
    moved = value.time.shifted(by_us) if value.time else None
    return replace(combined(sql, value.type, value), time=moved)


def _negate(translate: Translator, node: Ast) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = translate(node.this)
        if isinstance(value.literal, int):
            return literal(translate, exp.Literal(this=f"-{node.this.this}", is_string=False))
    value = translate(node.this)
    if not types.is_number(value.type):
        raise InputError(f"{said(node)}: {types.spark_name(value.type)} has no sign")
    return combined(f"(-{value.sql})", value.type, value)


ARITHMETIC: dict[type, Rule] = {exp.Neg: _negate, **dict.fromkeys(_SIGNS, _arithmetic)}
