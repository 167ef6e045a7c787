"""Scalar functions that mean the same in Spark and here; the list is the allow-list.

Where DuckDB answers otherwise than Spark (ANSI mode, time zone UTC) the difference is written out:
division by zero fails, `/` never divides integers, casts to integers cut off and do not round,
`round` rounds the decimal digits a person sees. Functions whose answer depends on when or where
they run (`rand`, `current_timestamp`) are refused: a batch that is run again must repeat itself.
"""

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.arithmetic import ARITHMETIC_RULES
from evenflow.sql.translate.casts import CAST_RULES, translate_window_time
from evenflow.sql.translate.conditions import CONDITION_RULES
from evenflow.sql.translate.literals import LITERAL_RULES
from evenflow.sql.translate.numbers import NUMBER_RULES, translate_pmod
from evenflow.sql.translate.translator import Rule, Translator, compose_expr, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr


def find_rule(translate: Translator, node: Ast) -> TypedExpr:
    """Translate a function call, a cast or a CASE."""
    if isinstance(node, exp.Anonymous):
        named = NAMED_RULES.get(str(node.this).lower())
        if named is not None:
            return named(translate, node)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(translate, node)
    raise InputError(refusal_message(node))


def refusal_message(node: Ast) -> str:
    """Say why an expression is refused and what to write instead."""
    for kinds, advice in _REFUSALS:
        if isinstance(node, kinds):
            return f"{quote_sql(node)} is refused: {advice}"
    return (
        f"{quote_sql(node)} is not among the expressions a continuous query may use; "
        "see docs/writing-queries.md, or write a Python operator"
    )


_REFUSALS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Subquery, exp.Exists, exp.Select), "join the other relation in FROM instead"),
    ((exp.Rand, exp.Randn, exp.Uuid), "its answer changes from run to run; add a column upstream"),
    (
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser),
        "its answer changes from run to run; use the event-time column",
    ),
    ((exp.Explode, exp.Posexplode, exp.Unnest), "explode the rows before they reach the stream"),
    ((exp.AggFunc,), "aggregates belong in SELECT or HAVING of a query with GROUP BY window(...)"),
    ((exp.Interval,), "an INTERVAL can only be added to or taken from a timestamp"),
    ((exp.Star,), "name the columns"),
)


def _require_type(node: Ast, value: TypedExpr, kind: pa.DataType) -> TypedExpr:
    if value.type not in (kind, types.NULL):
        raise InputError(
            f"{quote_sql(node)} needs {types.spark_name(kind)}, got {types.spark_name(value.type)}; "
            "write a cast"
        )
    return value.cast(kind)


def _to_common_type(translate: Translator, node: Ast, values: list[TypedExpr]) -> list[TypedExpr]:
    kind = values[0].type
    for value in values[1:]:
        wider = types.common_type(kind, value.type)
        if wider is None:
            raise InputError(
                f"{quote_sql(node)} mixes {types.spark_name(kind)} and "
                f"{types.spark_name(value.type)}; cast one to the other's type"
            )
        kind = wider
    return [value.cast(kind) for value in values]


def _case(translate: Translator, node: Ast) -> TypedExpr:
    conditions = []
    for branch in node.args["ifs"]:
        asked = branch.this
        if node.this is not None:
            asked = exp.EQ(this=node.this, expression=branch.this)
        conditions.append(translate.boolean(asked))
    default = node.args.get("default")
    last = translate(default) if default is not None else TypedExpr("NULL", types.NULL)
    values = [translate(branch.args["true"]) for branch in node.args["ifs"]]
    *values, last = _to_common_type(translate, node, [*values, last])
    arms = " ".join(f"WHEN {c.sql} THEN {v.sql}" for c, v in zip(conditions, values, strict=True))
    sql = f"CASE {arms} ELSE {last.sql} END"
    return compose_expr(f"({sql})", last.type, *conditions, *values, last)


def _if(translate: Translator, node: Ast) -> TypedExpr:
    branch = exp.If(this=node.this, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args.get("false")))


def _nvl2(translate: Translator, node: Ast) -> TypedExpr:
    asked = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    branch = exp.If(this=asked, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args["false"]))


def _variadic(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        given = [node.this, *node.expressions] if node.this is not None else node.expressions
        values = _to_common_type(translate, node, [translate(argument) for argument in given])
        sql = f"{name}({', '.join(v.sql for v in values)})"
        return compose_expr(sql, values[0].type, *values)

    return rule


def _nullif(translate: Translator, node: Ast) -> TypedExpr:
    left = translate(node.this)
    a, b = translate.widen_operands(node, left, translate(node.expression))
    sql = f"(CASE WHEN {a.sql} = {b.sql} THEN NULL ELSE {left.sql} END)"
    return compose_expr(sql, left.type, left, b)


def _string_function(
    name: str, result: pa.DataType, *, arguments: tuple[str, ...] = ("this",)
) -> Rule:
    """Describe a function of strings."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        values = [_require_type(node, translate(node.args[a]), types.STRING) for a in arguments]
        sql = f"{name}({', '.join(v.sql for v in values)})"
        return compose_expr(f"CAST({sql} AS {types.duckdb_name(result)})", result, *values)

    return rule


def _concat(translate: Translator, node: Ast) -> TypedExpr:
    parts = node.expressions or [node.left, node.right]
    values = [_require_type(node, translate(part), types.STRING) for part in parts]
    return compose_expr(f"({' || '.join(v.sql for v in values)})", types.STRING, *values)


def _like(translate: Translator, node: Ast) -> TypedExpr:
    value = _require_type(node, translate(node.this), types.STRING)
    pattern = node.expression
    if not pattern.is_string:
        raise InputError(f"{quote_sql(node)}: the pattern of LIKE must be a constant")
    sql = f"({value.sql} LIKE {types.quote_string(str(pattern.this))} ESCAPE '\\')"
    return compose_expr(sql, types.BOOLEAN, value)


def _substring(translate: Translator, node: Ast) -> TypedExpr:
    value = _require_type(node, translate(node.this), types.STRING)
    start, length = node.args.get("start"), node.args.get("length")
    numbers = [translate(n) for n in (start, length) if n is not None]
    if any(not isinstance(n.literal, int) for n in numbers) or int(numbers[0].literal or 0) < 1:
        raise InputError(f"{quote_sql(node)}: start must be a constant from 1, length a constant")
    sql = f"substring({', '.join([value.sql, *(str(n.literal) for n in numbers)])})"
    return compose_expr(sql, types.STRING, value)


CHOICE_RULES: dict[type, Rule] = {
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _variadic("coalesce"),
    exp.Greatest: _variadic("greatest"),
    exp.Least: _variadic("least"),
    exp.Nullif: _nullif,
    exp.Nvl2: _nvl2,
}
STRING_RULES: dict[type, Rule] = {
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Like: _like,
    exp.Upper: _string_function("upper", types.STRING),
    exp.Lower: _string_function("lower", types.STRING),
    exp.Length: _string_function("length", types.INT),
    exp.StartsWith: _string_function(
        "starts_with", types.BOOLEAN, arguments=("this", "expression")
    ),
    exp.EndsWith: _string_function("ends_with", types.BOOLEAN, arguments=("this", "expression")),
    exp.Contains: _string_function("contains", types.BOOLEAN, arguments=("this", "expression")),
    exp.MD5: _string_function("md5", types.STRING),
    exp.Substring: _substring,
}
NAMED_RULES: Mapping[str, Rule] = {"pmod": translate_pmod, "window_time": translate_window_time}
_RULES: Mapping[type, Rule] = {
    **LITERAL_RULES,
    **CONDITION_RULES,
    **ARITHMETIC_RULES,
    **NUMBER_RULES,
    **CAST_RULES,
    **CHOICE_RULES,
    **STRING_RULES,
}
