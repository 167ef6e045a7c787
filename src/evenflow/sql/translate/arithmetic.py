"""Arithmetic of numbers with Spark's precision, of timestamps and intervals, and rounding."""

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import DIVISION_BY_ZERO, OVERFLOW
from evenflow.sql.translate.dates import shift_months
from evenflow.sql.translate.literals import (
    MAX_SPAN_DAYS,
    interval_months,
    interval_us,
    translate_literal,
)
from evenflow.sql.translate.mathematics import round_with
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import function
from evenflow.sql.translate.translator import Rule, Translator, register, widen
from evenflow.sql.translate.typed_expr import (
    Ast,
    TypedExpr,
    compose_expr,
    divide_unless_zero,
    unless_null,
    write_once,
)

_OPERATORS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def _numbers(translate: Translator, node: Ast, *arguments: Ast) -> list[TypedExpr]:
    values = [translate(argument) for argument in arguments]
    for value in values:
        if not types.is_number(value.type) and value.type != types.NULL:
            advice = "use an INTERVAL" if types.is_timestamp(value.type) else "write a cast"
            raise refusal(node, f"needs numbers, got {types.spark_name(value.type)}; {advice}")
    # A NULL gets the type of the other operand.
    kind = next((v.type for v in values if v.type != types.NULL), types.DOUBLE)
    return [v.cast(kind) if v.type == types.NULL else v for v in values]


def _arithmetic(translate: Translator, node: Ast) -> TypedExpr:
    if isinstance(node, exp.Add | exp.Sub):
        if _is_interval(node.right):
            return _shift_timestamp(translate, node)
        if isinstance(node, exp.Add) and _is_interval(node.left):
            return _shift_timestamp(translate, exp.Add(this=node.right, expression=node.left))
    if (shifted := _shift_date(translate, node)) is not None:
        return shifted
    left, right = _numbers(translate, node, node.left, node.right)
    operator = _OPERATORS[type(node)]
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal_arithmetic(node, operator, left, right)
    left, right = widen(node, left, right)
    sql = unless_null(left, right, lambda a: f"({a} {operator} {right.sql})")
    can_fail = not types.is_floating(left.type)
    return compose_expr(sql, left.type, left, right, can_fail=can_fail)


def _decimal_arithmetic(node: Ast, operator: str, left: TypedExpr, right: TypedExpr) -> TypedExpr:
    """Compute exactly, with the precision that Spark gives the result."""
    if types.is_floating(left.type) or types.is_floating(right.type):
        left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
        sql = unless_null(left, right, lambda a: f"({a} {operator} {right.sql})")
        return compose_expr(sql, types.DOUBLE, left, right)
    a, b = _operand_decimal_type(left), _operand_decimal_type(right)
    if operator == "*":
        digits, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits > types.MAX_DECIMAL_DIGITS:
        problem = f"needs {digits} digits of DECIMAL, but 38 is the maximum"
        raise refusal(node, f"{problem}; cast a side to fewer digits or to DOUBLE")
    kind = pa.decimal128(digits, scale)
    left, right = left.cast(a), right.cast(b)
    name = types.duckdb_name(kind)
    if operator == "*":
        # A factor of 19 digits makes DuckDB multiply in 128 bits instead of failing beyond 64.
        wide = types.duckdb_name(pa.decimal128(max(a.precision, 19), a.scale))
        factor = "{}" if max(a.precision, b.precision) > 18 else f"CAST({{}} AS {wide})"
        template = f"CAST({factor} * {{}} AS {name})"
    else:
        template = f"CAST(CAST({{}} AS {name}) {operator} CAST({{}} AS {name}) AS {name})"
    sql = unless_null(left, right, lambda text: template.format(text, right.sql))
    return compose_expr(sql, kind, left, right, can_fail=True)


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


def _shift_date(translate: Translator, node: Ast) -> TypedExpr | None:
    """Translate DATE + days and DATE - days; a difference of dates has no type here."""
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    left, right = translate(node.left), translate(node.right)
    if isinstance(node, exp.Add) and types.is_integer(left.type) and right.type == types.DATE:
        left, right = right, left
    if left.type == types.DATE and types.is_integer(right.type) and right.type != types.LONG:
        sign = "+" if isinstance(node, exp.Add) else "-"
        sql = f"CAST({left.sql} {sign} CAST({right.sql} AS INTEGER) AS DATE)"
        return compose_expr(sql, types.DATE, left, right, can_fail=True)
    if {left.type, right.type} <= {types.DATE, types.TIMESTAMP, types.TIMESTAMP_NTZ}:
        raise refusal(node, "is an INTERVAL; write datediff(a, b) or timestampdiff(SECOND, a, b)")
    return None


def _shift_timestamp(translate: Translator, node: Ast) -> TypedExpr:
    value, sign = translate(node.left), -1 if isinstance(node, exp.Sub) else 1
    if (months := interval_months(node.right)) is not None:
        count = TypedExpr(f"CAST({sign * months} AS INTEGER)", types.INT, literal=sign * months)
        return shift_months(node, value, count)
    by_us = interval_us(node.right)
    if value.type == types.DATE and by_us % 86_400_000_000 == 0:
        days = sign * by_us // 86_400_000_000
        return compose_expr(f"CAST({value.sql} + {days} AS DATE)", types.DATE, value, can_fail=True)
    if value.type == types.DATE:
        value = value.cast(types.TIMESTAMP)
    if not types.is_timestamp(value.type):
        kind = types.spark_name(value.type)
        raise refusal(node, f"adds an interval to {kind}; cast it to TIMESTAMP first")
    if isinstance(node, exp.Sub):
        by_us = -by_us
    sql = f"({value.sql} + to_microseconds({by_us}))"
    time = value.time.shifted(by_us) if value.time else None
    if time is not None and abs(time.offset_us) > MAX_SPAN_DAYS * 86_400_000_000:
        raise refusal(node, f"moves an event time by more than {MAX_SPAN_DAYS:,} days")
    return replace(compose_expr(sql, value.type, value), time=time)


def _negate(translate: Translator, node: Ast) -> TypedExpr:
    value = translate(node.this)
    if isinstance(node.this, exp.Literal) and isinstance(value.literal, int):
        negative = exp.Literal(this=f"-{node.this.this}", is_string=False)
        return translate_literal(translate, negative)
    if not types.is_number(value.type):
        raise refusal(node, f"negates {types.spark_name(value.type)}, which is not a number")
    if types.is_decimal(value.type) and value.type.precision == types.MAX_DECIMAL_DIGITS:
        raise refusal(
            node, "negates a DECIMAL of 38 digits, on which Spark fails; cast it to fewer"
        )
    sql = f"CAST((-{value.sql}) AS {types.duckdb_name(value.type)})"
    return compose_expr(sql, value.type, value, can_fail=types.is_integer(value.type))


def _fail_on_zero(left: str, right: str, quotient: str) -> str:
    """Write the failure of dividing by zero; NULL divided by zero is NULL."""
    failure = f"error({types.quote_string(DIVISION_BY_ZERO)})"
    result = f"CASE WHEN {left} IS NOT NULL THEN {failure} END"
    return f"CASE WHEN {right} = 0 THEN {result} ELSE {quotient} END"


def _division(*, safe: bool) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        operands = _numbers(translate, node, node.this, node.expression)
        kinds = [operand.type for operand in operands]
        if any(map(types.is_decimal, kinds)) and not any(map(types.is_floating, kinds)):
            return _divide_decimals(*operands, safe=safe)
        left, right = (operand.cast(types.DOUBLE) for operand in operands)

        def quotient(a: str, b: str) -> str:
            return _fail_on_zero(a, b, f"{a} / {b}")

        if safe:
            sql = divide_unless_zero(left, right, "{} / {}".format)
        else:
            sql = unless_null(right, left, lambda b: write_once(quotient, left.sql, b))
        sql = f"CAST({sql} AS DOUBLE)"
        return compose_expr(sql, types.DOUBLE, left, right, can_fail=not safe)

    return rule


def _divide_decimals(left: TypedExpr, right: TypedExpr, *, safe: bool) -> TypedExpr:
    """Divide exactly in a kernel, since DuckDB divides DECIMALs as DOUBLEs."""
    left, right = (value.cast(_operand_decimal_type(value)) for value in (left, right))
    kind = types.quotient_type(left.type, right.type)

    def quotient(a: str, b: str) -> str:
        texts = ", ".join(f"CAST({side} AS VARCHAR)" for side in (a, b))
        divided = f"spark_divide_decimal({texts}, {kind.scale}, {kind.precision})"
        result = f"CAST({divided} AS {types.duckdb_name(kind)})"
        if safe:
            return result
        too_large = f"error({types.quote_string(OVERFLOW)})"
        known = f"{a} IS NOT NULL AND {b} IS NOT NULL"
        checked = f"CASE WHEN {known} AND {divided} IS NULL THEN {too_large} ELSE {result} END"
        return _fail_on_zero(a, b, checked)

    if safe:
        sql = divide_unless_zero(left, right, quotient)
    else:
        sql = unless_null(right, left, lambda b: write_once(quotient, left.sql, b))
    sql = f"CAST({sql} AS {types.duckdb_name(kind)})"
    return compose_expr(sql, kind, left, right, can_fail=not safe)


def _integer_division(translate: Translator, node: Ast) -> TypedExpr:
    left, right = _numbers(translate, node, node.left, node.right)
    if not (types.is_integer(left.type) and types.is_integer(right.type)):
        raise refusal(node, "needs integers; cast both sides to BIGINT")
    left, right = left.cast(types.LONG), right.cast(types.LONG)

    def quotient(a: str, b: str) -> str:
        return _fail_on_zero(a, b, f"{a} // {b}")

    sql = unless_null(right, left, lambda b: write_once(quotient, left.sql, b))
    return compose_expr(f"CAST({sql} AS BIGINT)", types.LONG, left, right, can_fail=True)


def _remainder(translate: Translator, node: Ast) -> TypedExpr:
    left, right = widen(node, *_numbers(translate, node, node.left, node.right))
    if types.is_decimal(left.type):
        raise refusal(node, "takes the remainder of DECIMALs; cast both to BIGINT")
    of_integers = types.is_integer(left.type)

    def remainder(a: str, b: str) -> str:
        return _fail_on_zero(a, b, _remainder_sql(a, b) if of_integers else f"({a} % {b})")

    sql = unless_null(right, left, lambda b: write_once(remainder, left.sql, b))
    sql = f"CAST({sql} AS {types.duckdb_name(left.type)})"
    return compose_expr(sql, left.type, left, right, can_fail=True)


def _remainder_sql(left: str, right: str) -> str:
    """Write left % right of integers; DuckDB fails on the least integer % -1, which is 0."""
    return f"(CASE WHEN {right} = -1 THEN {left} - {left} ELSE ({left} % {right}) END)"


def _pmod(translate: Translator, node: Ast) -> TypedExpr:
    if len(node.expressions) != 2:
        raise refusal(node, "needs two arguments; write pmod(a, b)")
    left, right = widen(node, *_numbers(translate, node, *node.expressions))
    if not types.is_integer(left.type):
        raise refusal(node, "needs integers; cast both sides to BIGINT")
    bits = max(left.type.bit_width, 32)

    def modulo(a: str, b: str) -> str:
        rest = _remainder_sql(a, b)
        # The sum of a negative remainder and the divisor wraps around in Spark: an int or a long.
        total = f"(CAST({rest} AS HUGEINT) + {b})"
        wrapped = f"CASE WHEN {total} < {-(1 << bits - 1)} THEN {1 << bits} ELSE 0 END"
        cycle = f"CASE WHEN {rest} < 0 THEN ({total} + {wrapped}) % {b} ELSE {rest} END"
        return _fail_on_zero(a, b, cycle)

    sql = unless_null(right, left, lambda b: write_once(modulo, left.sql, b))
    sql = f"CAST({sql} AS {types.duckdb_name(left.type)})"
    return compose_expr(sql, left.type, left, right, can_fail=True)


def _of_double(template: str, result: pa.DataType = types.DOUBLE) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = _numbers(translate, node, node.this)[0].cast(types.DOUBLE)
        return compose_expr(write_once(template.format, value.sql), result, value)

    return rule


def _power(translate: Translator, node: Ast) -> TypedExpr:
    operands = _numbers(translate, node, node.left, node.right)
    left, right = (operand.cast(types.DOUBLE) for operand in operands)
    # In Java 1 to the power of NaN or infinity is NaN, elsewhere 1.
    template = (
        "(CASE WHEN abs({0}) = 1 AND NOT isfinite({1}) THEN CAST('NaN' AS DOUBLE) "
        "ELSE pow({0}, {1}) END)"
    )
    sql = unless_null(left, right, lambda a: write_once(template.format, a, right.sql))
    return compose_expr(sql, types.DOUBLE, left, right)


def _abs(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numbers(translate, node, node.this)
    can_fail = types.is_integer(value.type)
    return compose_expr(f"abs({value.sql})", value.type, value, can_fail=can_fail)


def _round(translate: Translator, node: Ast) -> TypedExpr:
    (value,) = _numbers(translate, node, node.this)
    decimals = node.args.get("decimals")
    digits = 0 if decimals is None else translate(decimals).literal
    if not isinstance(digits, int):
        raise refusal(node, "needs a constant number of digits")
    if not 0 <= digits <= 9:
        return round_with(node, value, digits, even=False)
    if types.is_integer(value.type):
        return value
    if types.is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(value.type.precision - value.type.scale + 1 + scale, 38), scale)
        return compose_expr(f"CAST({value.sql} AS {types.duckdb_name(kind)})", kind, value)

    # Through the shortest decimal text of the DOUBLE, as Spark does: 2.675 rounds to 2.68 although
    # the double is slightly below it. Beyond 1e16 a double has no such digits.
    def rounded(operand: str) -> str:
        text = f"CAST({TypedExpr(operand, value.type).cast(types.DOUBLE).sql} AS VARCHAR)"
        exact = TypedExpr(f"CAST({text} AS DECIMAL(38,{digits}))", pa.decimal128(38, digits))
        short = exact.cast(value.type).sql
        return f"(CASE WHEN abs({operand}) < 1e16 THEN {short} ELSE {operand} END)"

    return compose_expr(write_once(rounded, value.sql), value.type, value)


register(
    "this expression",
    {
        **dict.fromkeys(_OPERATORS, _arithmetic),
        exp.SafeDivide: _division(safe=True),
        exp.IntDiv: _integer_division,
        exp.Mod: _remainder,
        exp.Pow: _power,
    },
)
register("this expression safe", {exp.Div: _division(safe=False)})  # the parser's own flag
register("this decimals", {exp.Round: _round})
register(
    "this",
    {
        exp.Neg: _negate,
        exp.Abs: _abs,
        exp.Sqrt: _of_double("sqrt({0})"),
        exp.Exp: _of_double("exp({0})"),
        exp.Ln: _of_double("(CASE WHEN {0} <= 0 THEN NULL ELSE ln({0}) END)"),
        exp.IsNan: _of_double("coalesce(isnan({0}), FALSE)", types.BOOLEAN),
    },
)
function("pmod", lambda translate, node, _: _pmod(translate, node), 2, topic="mathematics")
