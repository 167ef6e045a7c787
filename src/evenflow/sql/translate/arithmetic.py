"""Plus, minus, times: of numbers in the precision Spark gives, of timestamps and intervals."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.intervals import interval_us
from evenflow.sql.translate.literals import translate_literal
from evenflow.sql.translate.translator import Rule, Translator, compose_expr, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

_OPERATORS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def _arithmetic(translate: Translator, node: Ast) -> TypedExpr:
    if isinstance(node, exp.Add | exp.Sub):
        if isinstance(node.right, exp.Interval) or _is_interval(node.right):
            return _shift_timestamp(translate, node)
        if isinstance(node, exp.Add) and _is_interval(node.left):
            return _shift_timestamp(translate, exp.Add(this=node.right, expression=node.left))
    left, right = translate(node.left), translate(node.right)
    for side in (left, right):
        if not (types.is_number(side.type) or side.type == types.NULL):
            raise InputError(
                f"{quote_sql(node)}: {types.spark_name(side.type)} is no number; "
                "times take an INTERVAL, for the rest write a cast"
            )
    if left.type == types.NULL:
        left = left.cast(types.DOUBLE if right.type == types.NULL else right.type)
    if right.type == types.NULL:
        right = right.cast(left.type)
    sign = _OPERATORS[type(node)]
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal_arithmetic(node, sign, left, right)
    left, right = translate.widen_operands(node, left, right)
    return compose_expr(f"({left.sql} {sign} {right.sql})", left.type, left, right)


def _decimal_arithmetic(node: Ast, sign: str, left: TypedExpr, right: TypedExpr) -> TypedExpr:
    """Add, subtract or multiply exactly, in the precision Spark gives."""
    if types.is_floating(left.type) or types.is_floating(right.type):
        left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
        return compose_expr(f"({left.sql} {sign} {right.sql})", types.DOUBLE, left, right)
    a, b = operand_decimal_type(left), operand_decimal_type(right)
    if sign == "*":
        digits, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits > types.MAX_DECIMAL_DIGITS:
        raise InputError(
            f"{quote_sql(node)} needs {digits} digits of DECIMAL, 38 is the most; "
            "cast a side to fewer digits or to DOUBLE"
        )
    kind = pa.decimal128(digits, scale)
    left, right = left.cast(a), right.cast(b)
    name = types.duckdb_name(kind)
    if sign == "*":
        sql = f"CAST({left.sql} * {right.sql} AS {name})"
    else:
        sql = f"CAST(CAST({left.sql} AS {name}) {sign} CAST({right.sql} AS {name}) AS {name})"
    return compose_expr(sql, kind, left, right)


def operand_decimal_type(value: TypedExpr) -> pa.Decimal128Type:
    """Return the decimal type of an operand; Spark takes a literal at its own length."""
    if isinstance(value.literal, int) and types.is_integer(value.type):
        return pa.decimal128(max(len(str(abs(value.literal))), 1), 0)
    return types.decimal_type_of(value.type)


def _is_interval(node: Ast) -> bool:
    if isinstance(node, exp.Paren):
        return _is_interval(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _is_interval(node.left) and _is_interval(node.right)
    return isinstance(node, exp.Interval)


def _shift_timestamp(translate: Translator, node: Ast) -> TypedExpr:
    """Move a timestamp by a constant."""
    value, by_us = translate(node.left), interval_us(node.right)
    if not types.is_timestamp(value.type):
        raise InputError(
            f"{quote_sql(node)} adds an interval to {types.spark_name(value.type)}; "
            "cast it to TIMESTAMP first"
        )
    if isinstance(node, exp.Sub):
        by_us = -by_us
    sql = f"({value.sql} + to_microseconds({by_us}))"
    moved = value.time.shifted(by_us) if value.time else None
    return replace(compose_expr(sql, value.type, value), time=moved)


def _negate(translate: Translator, node: Ast) -> TypedExpr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = translate(node.this)
        if isinstance(value.literal, int):
            return translate_literal(
                translate, exp.Literal(this=f"-{node.this.this}", is_string=False)
            )
    value = translate(node.this)
    if not types.is_number(value.type):
        raise InputError(f"{quote_sql(node)}: {types.spark_name(value.type)} has no sign")
    return compose_expr(f"(-{value.sql})", value.type, value)


ARITHMETIC_RULES: dict[type, Rule] = {exp.Neg: _negate, **dict.fromkeys(_OPERATORS, _arithmetic)}
