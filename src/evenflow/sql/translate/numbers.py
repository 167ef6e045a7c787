"""Functions of numbers: division, remainders, rounding, powers."""

import pyarrow as pa
from sqlglot import exp

from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Rule, Translator, register, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import (
    BOOLEAN,
    DOUBLE,
    LONG,
    NULL,
    duckdb_name,
    is_decimal,
    is_floating,
    is_integer,
    is_number,
    spark_name,
)


def _numbers(translate: Translator, node: Ast, *arguments: Ast) -> list[TypedExpr]:
    values = [translate(argument) for argument in arguments]
    for value in values:
        if not is_number(value.type) and value.type != NULL:
            raise refusal(node, f"needs numbers, got {spark_name(value.type)}; write a cast")
    # A NULL gets the type of the other operand.
    kind = next((v.type for v in values if v.type != NULL), DOUBLE)
    return [v.cast(kind) if v.type == NULL else v for v in values]


def _fail_on_zero(divisor: str, sql: str) -> str:
    failure = "error('division by zero; write try_divide(a, b) to get NULL instead')"
    return f"CASE WHEN {divisor} = 0 THEN {failure} ELSE {sql} END"


def _division(*, safe: bool) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        operands = _numbers(translate, node, node.this, node.expression)
        kinds = [operand.type for operand in operands]
        if any(map(is_decimal, kinds)) and not any(map(is_floating, kinds)):
            raise refusal(
                node,
                "divides DECIMALs, whose last digits would differ from Spark's; "
                "cast one side to DOUBLE",
            )
        left, right = (operand.cast(DOUBLE) for operand in operands)
        if safe:
            sql = f"CASE WHEN {right.sql} = 0 THEN NULL ELSE {left.sql} / {right.sql} END"
        else:
            sql = _fail_on_zero(right.sql, f"{left.sql} / {right.sql}")
        return compose_expr(f"CAST({sql} AS DOUBLE)", DOUBLE, left, right)

    return rule


def _integer_division(translate: Translator, node: Ast) -> TypedExpr:
    left, right = _numbers(translate, node, node.left, node.right)
    if not (is_integer(left.type) and is_integer(right.type)):
        raise refusal(node, "needs integers; cast both sides to BIGINT")
    left, right = left.cast(LONG), right.cast(LONG)
    sql = _fail_on_zero(right.sql, f"{left.sql} // {right.sql}")
    return compose_expr(f"CAST({sql} AS BIGINT)", LONG, left, right)


def _remainder(translate: Translator, node: Ast) -> TypedExpr:
    left, right = widen(node, *_numbers(translate, node, node.left, node.right))
    if is_decimal(left.type):
        raise refusal(node, "takes the remainder of DECIMALs; cast both to BIGINT")
    sql = _fail_on_zero(right.sql, f"{left.sql} % {right.sql}")
    return compose_expr(f"CAST({sql} AS {duckdb_name(left.type)})", left.type, left, right)


def _pmod(translate: Translator, node: Ast) -> TypedExpr:
    left, right = widen(node, *_numbers(translate, node, *node.expressions))
    if not is_integer(left.type):
        raise refusal(node, "needs integers; cast both sides to BIGINT")
    rest = f"({left.sql} % {right.sql})"
    cycle = f"CASE WHEN {rest} < 0 THEN ({rest} + {right.sql}) % {right.sql} ELSE {rest} END"
    sql = f"CAST({_fail_on_zero(right.sql, cycle)} AS {duckdb_name(left.type)})"
    return compose_expr(sql, left.type, left, right)


def _of_double(template: str, result: pa.DataType = DOUBLE) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = _numbers(translate, node, node.this)[0].cast(DOUBLE)
        return compose_expr(template.format(value.sql), result, value)

    return rule


def _power(translate: Translator, node: Ast) -> TypedExpr:
    operands = _numbers(translate, node, node.left, node.right)
    left, right = (operand.cast(DOUBLE) for operand in operands)
    return compose_expr(f"pow({left.sql}, {right.sql})", DOUBLE, left, right)


def _abs(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numbers(translate, node, node.this)
    return compose_expr(f"abs({value.sql})", value.type, value)


def _ceil_or_floor(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        (value,) = _numbers(translate, node, node.this)
        if node.args.get("decimals") is not None or is_decimal(value.type):
            raise refusal(node, "needs an integer or a DOUBLE, and no number of digits")
        return compose_expr(f"CAST({name}({value.sql}) AS BIGINT)", LONG, value)

    return rule


def _round(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numbers(translate, node, node.this)
    decimals = node.args.get("decimals")
    digits = 0 if decimals is None else translate(decimals).literal
    if not isinstance(digits, int) or not 0 <= digits <= 9:
        raise refusal(node, "needs a constant number of digits from 0 to 9")
    if is_integer(value.type):
        return value
    if is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(value.type.precision - value.type.scale + 1 + scale, 38), scale)
        return compose_expr(f"CAST({value.sql} AS {duckdb_name(kind)})", kind, value)
    # Through the shortest decimal text, as Spark does: 2.675 rounds to 2.68 although the double
    # is slightly below it. Beyond 1e15 a double has no such digits.
    rounded = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38,{digits}))"
    rounded = f"CAST({rounded} AS {duckdb_name(value.type)})"
    sql = f"(CASE WHEN abs({value.sql}) < 1e15 THEN {rounded} ELSE {value.sql} END)"
    return compose_expr(sql, value.type, value)


register(
    {
        exp.Div: _division(safe=False),
        exp.SafeDivide: _division(safe=True),
        exp.IntDiv: _integer_division,
        exp.Mod: _remainder,
        exp.Abs: _abs,
        exp.Ceil: _ceil_or_floor("ceil"),
        exp.Floor: _ceil_or_floor("floor"),
        exp.Round: _round,
        exp.Sqrt: _of_double("(CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END)"),
        exp.Exp: _of_double("exp({0})"),
        exp.Ln: _of_double("(CASE WHEN {0} <= 0 THEN NULL ELSE ln({0}) END)"),
        exp.Pow: _power,
        exp.IsNan: _of_double("coalesce(isnan({0}), FALSE)", BOOLEAN),
    },
    {"pmod": _pmod},
)
