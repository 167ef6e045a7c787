"""Conditions: comparisons, AND, OR, NOT, IS, BETWEEN, IN."""

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.literals import coerce_time_literal
from evenflow.sql.translate.translator import Rule, Translator, compose_expr, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}


def _compare(translate: Translator, node: Ast) -> TypedExpr:
    left, right = translate.translate_operands(node)
    left, right = coerce_time_literal(left, right), coerce_time_literal(right, left)
    left, right = translate.widen_operands(node, left, right)
    return compose_expr(
        f"({left.sql} {_COMPARISONS[type(node)]} {right.sql})", types.BOOLEAN, left, right
    )


def _null_safe(translate: Translator, node: Ast) -> TypedExpr:
    left, right = translate.widen_operands(node, *translate.translate_operands(node))
    sql = f"({left.sql} IS NOT DISTINCT FROM {right.sql})"
    return compose_expr(sql, types.BOOLEAN, left, right)


def _logic(translate: Translator, node: Ast) -> TypedExpr:
    left, right = translate.boolean(node.left), translate.boolean(node.right)
    return compose_expr(
        f"({left.sql} {_LOGIC[type(node)]} {right.sql})", types.BOOLEAN, left, right
    )


def _not(translate: Translator, node: Ast) -> TypedExpr:
    value = translate.boolean(node.this)
    return compose_expr(f"(NOT {value.sql})", types.BOOLEAN, value)


def _is(translate: Translator, node: Ast) -> TypedExpr:
    value, what = translate(node.this), node.args["expression"]
    if isinstance(what, exp.Null):
        return compose_expr(f"({value.sql} IS NULL)", types.BOOLEAN, value)
    if isinstance(what, exp.Boolean) and value.type == types.BOOLEAN:
        word = "TRUE" if what.this else "FALSE"
        return compose_expr(f"({value.sql} IS NOT DISTINCT FROM {word})", types.BOOLEAN, value)
    raise InputError(f"{quote_sql(node)} is not supported; write IS NULL or IS TRUE")


def _between(translate: Translator, node: Ast) -> TypedExpr:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    return _logic(translate, exp.And(this=low, expression=high))


def _in(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        raise InputError(
            f"{quote_sql(node)}: IN (SELECT ...) is not supported; write a JOIN instead"
        )
    value = translate(node.this)
    for item in node.expressions:
        translate.infer_parameter_type(item, value.type)
    items = [coerce_time_literal(translate(item), value) for item in node.expressions]
    if not items:
        raise InputError(f"{quote_sql(node)} has an empty list")
    widest = value
    for item in items:
        _, widest = translate.widen_operands(node, item, widest)
    listed = ", ".join(item.cast(widest.type).sql for item in items)
    sql = f"({value.cast(widest.type).sql} IN ({listed}))"
    return compose_expr(sql, types.BOOLEAN, value, *items)


CONDITION_RULES: dict[type, Rule] = {
    exp.NullSafeEQ: _null_safe,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_LOGIC, _logic),
}
