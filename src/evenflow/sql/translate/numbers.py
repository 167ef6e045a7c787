"""Functions of numbers: division, remainders, rounding, powers."""

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.translator import Rule, Translator, compose_expr, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr


def _numeric_operands(translate: Translator, node: Ast, *arguments: Ast) -> list[TypedExpr]:
    values = [translate(argument) for argument in arguments]
    for value in values:
        if not types.is_number(value.type) and value.type != types.NULL:
            raise InputError(
                f"{quote_sql(node)} needs numbers, got {types.spark_name(value.type)}; write a cast"
            )
    # A NULL has the type of what stands beside it.
    kind = next((v.type for v in values if v.type != types.NULL), types.DOUBLE)
    return [v.cast(kind) if v.type == types.NULL else v for v in values]


def fail_on_zero_sql(divisor: str, sql: str) -> str:
    """Fail on a zero divisor, as Spark does in ANSI mode."""
    failing = "error('division by zero; write try_divide(a, b) to get NULL instead')"
    return f"CASE WHEN {divisor} = 0 THEN {failing} ELSE {sql} END"


def _ansi_division(translate: Translator, node: Ast) -> TypedExpr:
    return _division(translate, node, node.left, node.right, safe=False)


def _division(translate: Translator, node: Ast, a: Ast, b: Ast, *, safe: bool) -> TypedExpr:
    left, right = _numeric_operands(translate, node, a, b)
    kinds = (left.type, right.type)
    if any(map(types.is_decimal, kinds)) and not any(map(types.is_floating, kinds)):
        raise InputError(
            f"{quote_sql(node)} divides DECIMALs, whose last digits would differ from Spark's; "
            "cast one side to DOUBLE"
        )
    left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
    if safe:
        sql = f"CASE WHEN {right.sql} = 0 THEN NULL ELSE {left.sql} / {right.sql} END"
    else:
        sql = fail_on_zero_sql(right.sql, f"{left.sql} / {right.sql}")
    return compose_expr(f"CAST({sql} AS DOUBLE)", types.DOUBLE, left, right)


def _integer_division(translate: Translator, node: Ast) -> TypedExpr:
    left, right = _numeric_operands(translate, node, node.left, node.right)
    if not (types.is_integer(left.type) and types.is_integer(right.type)):
        raise InputError(f"{quote_sql(node)} needs integers; cast both sides to BIGINT")
    left, right = left.cast(types.LONG), right.cast(types.LONG)
    sql = fail_on_zero_sql(right.sql, f"{left.sql} // {right.sql}")
    return compose_expr(f"CAST({sql} AS BIGINT)", types.LONG, left, right)


def _remainder(translate: Translator, node: Ast) -> TypedExpr:
    left, right = translate.widen_operands(
        node, *_numeric_operands(translate, node, node.left, node.right)
    )
    if types.is_decimal(left.type):
        raise InputError(f"{quote_sql(node)} takes the remainder of DECIMALs; cast both to BIGINT")
    name = types.duckdb_name(left.type)
    sql = fail_on_zero_sql(right.sql, f"{left.sql} % {right.sql}")
    return compose_expr(f"CAST({sql} AS {name})", left.type, left, right)


def translate_pmod(translate: Translator, node: Ast) -> TypedExpr:
    """Translate the remainder that is never negative."""
    left, right = translate.widen_operands(
        node, *_numeric_operands(translate, node, *node.expressions)
    )
    if not types.is_integer(left.type):
        raise InputError(f"{quote_sql(node)} needs integers; cast both sides to BIGINT")
    rest = f"({left.sql} % {right.sql})"
    cycle = f"CASE WHEN {rest} < 0 THEN ({rest} + {right.sql}) % {right.sql} ELSE {rest} END"
    sql = f"CAST({fail_on_zero_sql(right.sql, cycle)} AS {types.duckdb_name(left.type)})"
    return compose_expr(sql, left.type, left, right)


def _double_function(name: str) -> Rule:
    """Describe a function of one number that answers DOUBLE."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = _numeric_operands(translate, node, node.this)[0].cast(types.DOUBLE)
        return compose_expr(f"{name}({value.sql})", types.DOUBLE, value)

    return rule


def _sqrt(translate: Translator, node: Ast) -> TypedExpr:
    value = _numeric_operands(translate, node, node.this)[0].cast(types.DOUBLE)
    sql = f"(CASE WHEN {value.sql} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value.sql}) END)"
    return compose_expr(sql, types.DOUBLE, value)


def _ln(translate: Translator, node: Ast) -> TypedExpr:
    value = _numeric_operands(translate, node, node.this)[0].cast(types.DOUBLE)
    sql = f"(CASE WHEN {value.sql} <= 0 THEN NULL ELSE ln({value.sql}) END)"
    return compose_expr(sql, types.DOUBLE, value)


def _power(translate: Translator, node: Ast) -> TypedExpr:
    left, right = (
        v.cast(types.DOUBLE) for v in _numeric_operands(translate, node, node.left, node.right)
    )
    return compose_expr(f"pow({left.sql}, {right.sql})", types.DOUBLE, left, right)


def _abs(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numeric_operands(translate, node, node.this)
    return compose_expr(f"abs({value.sql})", value.type, value)


def _ceil_or_floor(name: str) -> Rule:
    """Describe ceil and floor."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        (value,) = _numeric_operands(translate, node, node.this)
        if node.args.get("decimals") is not None or types.is_decimal(value.type):
            raise InputError(
                f"{quote_sql(node)}: write it of an integer or a DOUBLE, without digits"
            )
        sql = f"CAST({name}({value.sql}) AS BIGINT)"
        return compose_expr(sql, types.LONG, value)

    return rule


def _round(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numeric_operands(translate, node, node.this)
    wanted = node.args.get("decimals")
    digits = 0 if wanted is None else translate(wanted).literal
    if not isinstance(digits, int) or not 0 <= digits <= 9:
        raise InputError(f"{quote_sql(node)}: the number of digits must be a constant from 0 to 9")
    if types.is_integer(value.type):
        return value
    if types.is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(value.type.precision - value.type.scale + 1 + scale, 38), scale)
        return compose_expr(f"CAST({value.sql} AS {types.duckdb_name(kind)})", kind, value)
    # Through the shortest decimal text, as Spark does: 2.675 rounds to 2.68 although the
    # double beneath is a little less. Beyond 1e15 a double has no such digits.
    near = f"abs({value.sql}) < 1e15"
    seen = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38,{digits}))"
    name = types.duckdb_name(value.type)
    sql = f"(CASE WHEN {near} THEN CAST({seen} AS {name}) ELSE {value.sql} END)"
    return compose_expr(sql, value.type, value)


def _isnan(translate: Translator, node: Ast) -> TypedExpr:
    value = _numeric_operands(translate, node, node.this)[0].cast(types.DOUBLE)
    return compose_expr(f"coalesce(isnan({value.sql}), FALSE)", types.BOOLEAN, value)


NUMBER_RULES: dict[type, Rule] = {
    exp.Div: _ansi_division,
    exp.IntDiv: _integer_division,
    exp.Mod: _remainder,
    exp.SafeDivide: lambda t, n: _division(t, n, n.this, n.expression, safe=True),
    exp.Abs: _abs,
    exp.Ceil: _ceil_or_floor("ceil"),
    exp.Floor: _ceil_or_floor("floor"),
    exp.Round: _round,
    exp.Sqrt: _sqrt,
    exp.Exp: _double_function("exp"),
    exp.Ln: _ln,
    exp.Pow: _power,
    exp.IsNan: _isnan,
}
