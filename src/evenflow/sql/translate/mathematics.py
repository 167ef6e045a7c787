"""Functions of numbers: logarithms, trigonometry, rounding, bits, bases."""

from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import BAD_ARGUMENT
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import (
    INTEGRAL,
    NUMBER,
    Only,
    Overload,
    bounded,
    coerce,
    constant,
    first_type,
    function,
    parsed,
    scalar,
)
from evenflow.sql.translate.translator import Rule, Translator, register, widen
from evenflow.sql.translate.typed_expr import (
    Ast,
    TypedExpr,
    compose_expr,
    divide_unless_zero,
    write_once,
)
from evenflow.sql.types import BYTE, DOUBLE, INT, LONG, STRING, quote_string

MAX_SHOWN_DIGITS = 340  # after the point: Java shows no more of a DOUBLE
_math = partial(scalar, topic="mathematics")
_bits = partial(scalar, topic="bits")
_FAIL = f"error({quote_string(BAD_ARGUMENT)})"
_NAN = "CAST('NaN' AS DOUBLE)"

parsed("abs ceil ceiling floor round sqrt exp ln pow power isnan try_divide",
       topic="mathematics")  # fmt: skip


def _of_finite(name: str) -> str:
    """Write a function that DuckDB fails on for infinity, where Java returns NaN."""
    return f"(CASE WHEN isfinite({{0}}) THEN {name}({{0}}) WHEN {{0}} IS NOT NULL THEN {_NAN} END)"


for _name in ("sin", "cos", "tan"):
    _math(_name, _of_finite(_name), DOUBLE, DOUBLE)
for _name, _inner in (("cot", "1 / tan({0})"), ("sec", "1 / cos({0})"), ("csc", "1 / sin({0})")):
    _math(
        _name,
        f"(CASE WHEN isfinite({{0}}) THEN CAST({_inner} AS DOUBLE) "
        f"WHEN {{0}} IS NOT NULL THEN {_NAN} END)",
        DOUBLE, DOUBLE,
    )  # fmt: skip
for _name in ("asin", "acos"):
    _math(_name, f"(CASE WHEN abs({{0}}) <= 1 THEN {_name}({{0}}) WHEN {{0}} IS NOT NULL "
          f"THEN {_NAN} END)", DOUBLE, DOUBLE)  # fmt: skip
for _name in ("atan", "sinh", "cosh", "tanh", "asinh", "cbrt", "degrees", "radians"):
    _math(_name, f"{_name}({{0}})", DOUBLE, DOUBLE)
_math("acosh", f"(CASE WHEN {{0}} >= 1 THEN acosh({{0}}) WHEN {{0}} IS NOT NULL THEN {_NAN} END)",
      DOUBLE, DOUBLE)  # fmt: skip
_math("atanh",
      "(CASE WHEN abs({0}) < 1 THEN atanh({0}) WHEN {0} = 1 THEN CAST('Infinity' AS DOUBLE) "
      f"WHEN {{0}} = -1 THEN CAST('-Infinity' AS DOUBLE) WHEN {{0}} IS NOT NULL THEN {_NAN} END)",
      DOUBLE, DOUBLE)  # fmt: skip
_ZERO = "(CASE WHEN {} = 0 THEN 0e0 ELSE {} END)"  # of -0.0 too
_math("atan2", f"atan2({_ZERO.format('{0}', '{0}')}, {_ZERO.format('{1}', '{1}')})",
      DOUBLE, DOUBLE, DOUBLE)  # fmt: skip
_math(
    "hypot",
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN isinf({0}) OR isinf({1}) THEN "
    "CAST('Infinity' AS DOUBLE) WHEN isnan({0}) OR isnan({1}) THEN CAST('NaN' AS DOUBLE) "
    "ELSE spark_hypot({0}, {1}) END)",
    DOUBLE,
    DOUBLE,
    DOUBLE,
    route="kernel",
)
_math(
    "log1p",
    "(CASE WHEN isnan({0}) THEN {0} ELSE spark_log1p({0}) END)",
    DOUBLE,
    DOUBLE,
    route="kernel",
)
_math(
    "expm1",
    "(CASE WHEN isnan({0}) THEN {0} ELSE spark_expm1({0}) END)",
    DOUBLE,
    DOUBLE,
    route="kernel",
)
_math("log", "(CASE WHEN {0} > 0 OR isnan({0}) THEN ln({0}) END)", DOUBLE, DOUBLE)
_math("log10", "(CASE WHEN {0} > 0 OR isnan({0}) THEN log10({0}) END)", DOUBLE, DOUBLE)
_math("log2", "(CASE WHEN {0} > 0 OR isnan({0}) THEN log2({0}) END)", DOUBLE, DOUBLE)
_math("log",
      "(CASE WHEN ({0} > 0 OR isnan({0})) AND ({1} > 0 OR isnan({1})) "
      "THEN ln({1}) / ln({0}) END)", DOUBLE, DOUBLE, DOUBLE)  # fmt: skip
_math("e", "CAST(2.718281828459045 AS DOUBLE)", DOUBLE)
_math("pi", "CAST(3.141592653589793 AS DOUBLE)", DOUBLE)
_math("rint", "CAST(CASE WHEN abs({0}) < 4503599627370496 THEN "
      "CASE WHEN {0} < 0 OR 1 / {0} < 0 THEN -round_even(abs({0}), 0) "
      "ELSE round_even({0}, 0) END ELSE {0} END AS DOUBLE)", DOUBLE, DOUBLE)  # fmt: skip
_math("sign signum", "CAST(CASE WHEN isnan({0}) OR {0} = 0 THEN {0} ELSE sign({0}) END AS DOUBLE)",
      DOUBLE, DOUBLE)  # fmt: skip
_math("nanvl", "(CASE WHEN isnan({0}) THEN {1} ELSE {0} END)", DOUBLE, DOUBLE, DOUBLE)
_math("positive", "{0}", first_type, NUMBER)
_math("factorial",
      "(CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END)",
      LONG, INT)  # fmt: skip
_math("bin", "(CASE WHEN {0} >= 0 THEN bin({0}) WHEN {0} IS NOT NULL THEN "
      "bin(CAST(CAST({0} AS HUGEINT) + 18446744073709551616 AS UBIGINT)) END)",
      STRING, LONG)  # fmt: skip
_math("conv", "spark_conv({0}, {1}, {2})", STRING, STRING, INT, INT, route="kernel")
_math("width_bucket",
      "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {3} IS NULL OR {3} <= 0 "
      "OR isnan({0}) OR {1} = {2} OR NOT isfinite({1}) OR NOT isfinite({2}) "
      "THEN NULL WHEN {1} < {2} THEN CASE WHEN {0} < {1} THEN 0 WHEN {0} >= {2} THEN {3} + 1 "
      "ELSE CAST(trunc(CAST({3} AS DOUBLE) * ({0} - {1}) / ({2} - {1})) AS BIGINT) + 1 END "
      "ELSE CASE WHEN {0} > {1} THEN 0 WHEN {0} <= {2} THEN {3} + 1 "
      "ELSE CAST(trunc(CAST({3} AS DOUBLE) * ({1} - {0}) / ({1} - {2})) AS BIGINT) + 1 END END)",
      LONG, DOUBLE, DOUBLE, DOUBLE, LONG)  # fmt: skip


def _hex(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if types.is_integer(value.type):
        value = value.cast(LONG)
        template = (
            "(CASE WHEN {0} >= 0 THEN hex({0}) WHEN {0} IS NOT NULL THEN "
            "hex(CAST(CAST({0} AS HUGEINT) + 18446744073709551616 AS UBIGINT)) END)"
        )
        return compose_expr(write_once(template.format, value.sql), STRING, value)
    if value.type != types.BINARY:
        value = coerce(node, value, Only(STRING))
    return compose_expr(f"hex({value.sql})", STRING, value)


def _bit_get(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), INTEGRAL)
    at = coerce(node, translate(arguments[1]), INT)

    def body(operand: str, position: str) -> str:
        wide = f"CAST({operand} AS HUGEINT)"
        unsigned = f"(CASE WHEN {operand} < 0 THEN {wide} + {1 << 64} ELSE {wide} END)"
        last = value.type.bit_width - 1
        return (
            f"CAST(CASE WHEN {operand} IS NULL THEN NULL "
            f"WHEN {position} NOT BETWEEN 0 AND {last} THEN {_FAIL} "
            f"ELSE ({unsigned} >> CAST({position} AS HUGEINT)) % 2 END AS TINYINT)"
        )

    sql = write_once(body, value.sql, at.sql)
    return compose_expr(sql, BYTE, value, at, can_fail=True)


def _safe(sign: str, name: str) -> Overload:
    """Return the rule of try_add and its like: NULL where the plain operation overflows."""

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        given = [translate(argument) for argument in arguments]
        kinds = [value.type for value in given if value.type != types.NULL] or [DOUBLE]
        values = (v.cast(kinds[0]) if v.type == types.NULL else v for v in given)
        left, right = widen(node, *(coerce(node, value, NUMBER) for value in values))
        if types.is_decimal(left.type):
            raise refusal(node, "computes with DECIMALs; cast them to DOUBLE")
        body = f"{left.sql} {sign} {right.sql}"
        if name == "try_mod":
            # DuckDB fails on the least integer % -1, which is 0.
            is_whole = types.is_integer(left.type)
            rest = (
                "CASE WHEN {1} = -1 THEN {0} - {0} ELSE {0} % {1} END" if is_whole else "{0} % {1}"
            )
            body = divide_unless_zero(left, right, rest.format)
        sql = f"CAST({body} AS {types.duckdb_name(left.type)})"
        if types.is_integer(left.type) and name != "try_mod":
            wide = f"(CAST({left.sql} AS HUGEINT) {sign} CAST({right.sql} AS HUGEINT))"
            sql = f"TRY_CAST({wide} AS {types.duckdb_name(left.type)})"
        return compose_expr(sql, left.type, left, right)

    return overload


def round_with(node: Ast, value: TypedExpr, digits: int, *, even: bool) -> TypedExpr:
    """Round a DOUBLE by its shortest decimal digits, an integer to tens, hundreds and so on."""
    if not -30 <= digits <= 30:
        raise refusal(node, "needs a number of digits from -30 to 30")
    if types.is_floating(value.type):
        mode = "TRUE" if even else "FALSE"
        sql = write_once(
            lambda x: (
                f"CASE WHEN isnan({x}) THEN {x} ELSE spark_round_double({x}, {digits}, {mode}) END"
            ),
            value.cast(DOUBLE).sql,
        )
        return compose_expr(f"CAST({sql} AS {types.duckdb_name(value.type)})", value.type, value)
    if types.is_decimal(value.type):
        if digits < 0 or even:
            raise refusal(node, "rounds a DECIMAL; use round with at least 0 digits")
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(value.type.precision - value.type.scale + 1 + scale, 38), scale)
        return compose_expr(f"CAST({value.sql} AS {types.duckdb_name(kind)})", kind, value)
    if digits >= 0:
        return value
    unit = 10**-digits
    name = types.duckdb_name(value.type)

    def body(operand: str) -> str:
        wide = f"CAST({operand} AS HUGEINT)"
        rest, base = f"(abs({wide}) % {unit})", f"(abs({wide}) // {unit})"
        up = f"{rest} * 2 >= {unit}"
        if even:
            up = f"({rest} * 2 > {unit} OR ({rest} * 2 = {unit} AND {base} % 2 = 1))"
        size = f"(({base} + CASE WHEN {up} THEN 1 ELSE 0 END) * {unit})"
        return f"CAST(CASE WHEN {operand} < 0 THEN -{size} ELSE {size} END AS {name})"

    return compose_expr(write_once(body, value.sql), value.type, value, can_fail=True)


def _ceil_or_floor(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        value = coerce(node, translate(node.this), NUMBER)
        if node.args.get("decimals") is not None:
            raise refusal(node, "has a number of digits, which is not supported; use round")
        if types.is_decimal(value.type) and value.type.scale == 0:
            return value
        if types.is_decimal(value.type):
            digits = min(value.type.precision - value.type.scale + 1, 38)
            kind = pa.decimal128(digits, 0)
            sql = f"CAST({name}({value.sql}) AS {types.duckdb_name(kind)})"
            return compose_expr(sql, kind, value)
        if types.is_integer(value.type):
            return value.cast(LONG)
        template = f"CASE WHEN isnan({{0}}) THEN 0 ELSE {name}({{0}}) END"
        sql = write_once(template.format, value.sql)
        return compose_expr(f"CAST({sql} AS BIGINT)", LONG, value, can_fail=True)

    return rule


def _bround(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), NUMBER)
    digits = 0 if len(arguments) < 2 else int(constant(translate, node, arguments[1], int))
    return round_with(node, value, digits, even=True)


def _bit_operation(sign: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        operands = (coerce(node, translate(a), INTEGRAL) for a in (node.left, node.right))
        left, right = widen(node, *operands)
        sql = (
            f"xor({left.sql}, {right.sql})" if sign == "xor" else f"({left.sql} {sign} {right.sql})"
        )
        return compose_expr(
            f"CAST({sql} AS {types.duckdb_name(left.type)})", left.type, left, right
        )

    return rule


def _bit_not(translate: Translator, node: Ast) -> TypedExpr:
    value = coerce(node, translate(node.this), INTEGRAL)
    return compose_expr(f"CAST(~{value.sql} AS {types.duckdb_name(value.type)})", value.type, value)


def _shift(direction: str) -> Overload:
    """Return the rule of a shift of INT or BIGINT: bits that leave are dropped, as in Java."""

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = coerce(node, translate(arguments[0]), INTEGRAL)
        value = value if value.type == LONG else value.cast(INT)
        by = coerce(node, translate(arguments[1]), INT)
        bits = 64 if value.type == LONG else 32

        def body(operand: str, steps: str) -> str:
            steps = f"(({steps} % {bits} + {bits}) % {bits})"
            power = f"(CAST(1 AS HUGEINT) << CAST({steps} AS HUGEINT))"
            wide = f"CAST({operand} AS HUGEINT)"
            if direction == "right":  # rounds down
                low = f"(({wide} % {power} + {power}) % {power})"
                return f"(({wide} - {low}) // {power})"
            unsigned = f"(CASE WHEN {operand} < 0 THEN {wide} + {1 << bits} ELSE {wide} END)"
            if direction == "unsigned":
                result = f"({unsigned} // {power})"
            else:
                kept = f"({unsigned} % (CAST({1 << bits} AS HUGEINT) // {power}))"
                result = f"({kept} * {power})"
            half = 1 << (bits - 1)
            return f"(CASE WHEN {result} >= {half} THEN {result} - {1 << bits} ELSE {result} END)"

        sql = write_once(body, value.sql, by.sql)
        return compose_expr(
            f"CAST({sql} AS {types.duckdb_name(value.type)})", value.type, value, by
        )

    return overload


def _shift_node(direction: str) -> Rule:
    rule = _shift(direction)
    return lambda translate, node: rule(translate, node, [node.left, node.right])


_bits("bit_count", "CAST(bit_count(CAST({0} AS BIGINT)) AS INTEGER)", INT, INTEGRAL)
function("bit_get getbit", _bit_get, 2, topic="bits")
function("negative", lambda translate, _, a: translate(exp.Neg(this=a[0])), 1, topic="mathematics")
function("mod", lambda translate, _, a: translate(exp.Mod(this=a[0], expression=a[1])), 2,
         topic="mathematics")  # fmt: skip
function("hex", _hex, 1, topic="mathematics")
function("bround", _bround, 1, 2, topic="mathematics", route="kernel")
for _name, _sign in (("try_add", "+"), ("try_subtract", "-"), ("try_multiply", "*"),
                     ("try_mod", "%")):  # fmt: skip
    function(_name, _safe(_sign, _name), 2, topic="mathematics")
for _name, _direction in (("shiftleft", "left"), ("shiftright", "right"),
                          ("shiftrightunsigned", "unsigned")):  # fmt: skip
    function(_name, _shift(_direction), 2, topic="bits")
register(
    "this expression",
    {
        exp.BitwiseAnd: _bit_operation("&"),
        exp.BitwiseOr: _bit_operation("|"),
        exp.BitwiseXor: _bit_operation("xor"),
        exp.BitwiseLeftShift: _shift_node("left"),
        exp.BitwiseRightShift: _shift_node("right"),
    },
)
register("this", {exp.BitwiseNot: _bit_not})
register("this decimals", {exp.Ceil: _ceil_or_floor("ceil"), exp.Floor: _ceil_or_floor("floor")})


def _format_number(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), NUMBER)
    digits = bounded(translate, node, arguments[1], MAX_SHOWN_DIGITS)
    if types.is_floating(value.type):
        sql = f"spark_format_number({value.cast(DOUBLE).sql}, {digits})"
    else:
        sql = f"spark_format_decimal(CAST({value.sql} AS VARCHAR), {digits})"
    return compose_expr(sql, STRING, value)


function("format_number", _format_number, 2, topic="strings", route="kernel")
