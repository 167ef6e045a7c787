"""Plus, minus, times: numbers with Spark's precision, timestamps with intervals."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.literals import interval_us, translate_literal
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Translator, register, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr

_OPERATORS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def _arithmetic(translate: Translator, node: Ast) -> TypedExpr:
    if isinstance(node, exp.Add | exp.Sub):
        if _is_interval(node.right):
            return _shift_timestamp(translate, node)
        if isinstance(node, exp.Add) and _is_interval(node.left):
            return _shift_timestamp(translate, exp.Add(this=node.right, expression=node.left))
    left, right = translate(node.left), translate(node.right)
    for side in (left, right):
        if not (types.is_number(side.type) or side.type == types.NULL):
            raise refusal(
                node,
                f"computes with {types.spark_name(side.type)}, which is not a number; "
                "add an INTERVAL to a time, else write a cast",
            )
    if left.type == types.NULL:
        left = left.cast(types.DOUBLE if right.type == types.NULL else right.type)
    if right.type == types.NULL:
        right = right.cast(left.type)
    operator = _OPERATORS[type(node)]
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal_arithmetic(node, operator, left, right)
    left, right = widen(node, left, right)
    return compose_expr(f"({left.sql} {operator} {right.sql})", left.type, left, right)


def _decimal_arithmetic(node: Ast, operator: str, left: TypedExpr, right: TypedExpr) -> TypedExpr:
    """Compute exactly, with the precision that Spark gives the result."""
    if types.is_floating(left.type) or types.is_floating(right.type):
        left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
        return compose_expr(f"({left.sql} {operator} {right.sql})", types.DOUBLE, left, right)
    a, b = _operand_decimal_type(left), _operand_decimal_type(right)
    if operator == "*":
        digits, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits > types.MAX_DECIMAL_DIGITS:
        raise refusal(
            node,
            f"needs {digits} digits of DECIMAL, but 38 is the maximum; "
            "cast a side to fewer digits or to DOUBLE",
        )
    kind = pa.decimal128(digits, scale)
    left, right = left.cast(a), right.cast(b)
    name = types.duckdb_name(kind)
    if operator == "*":
        sql = f"CAST({left.sql} * {right.sql} AS {name})"
    else:
        sql = f"CAST(CAST({left.sql} AS {name}) {operator} CAST({right.sql} AS {name}) AS {name})"
    return compose_expr(sql, kind, left, right)


def _operand_decimal_type(value: TypedExpr) -> pa.Decimal128Type:
    """Return the decimal type of an operand; an integer literal has as many digits as written."""
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
    value, by_us = translate(node.left), interval_us(node.right)
    if not types.is_timestamp(value.type):
        raise refusal(
            node,
            f"adds an interval to {types.spark_name(value.type)}; cast it to TIMESTAMP first",
        )
    if isinstance(node, exp.Sub):
        by_us = -by_us
    sql = f"({value.sql} + to_microseconds({by_us}))"
    time = value.time.shifted(by_us) if value.time else None
    return replace(compose_expr(sql, value.type, value), time=time)


def _negate(translate: Translator, node: Ast) -> TypedExpr:
    value = translate(node.this)
    if isinstance(node.this, exp.Literal) and isinstance(value.literal, int):
        negative = exp.Literal(this=f"-{node.this.this}", is_string=False)
        return translate_literal(translate, negative)
    if not types.is_number(value.type):
        raise refusal(node, f"negates {types.spark_name(value.type)}, which is not a number")
    return compose_expr(f"(-{value.sql})", value.type, value)


register({exp.Neg: _negate, **dict.fromkeys(_OPERATORS, _arithmetic)})
