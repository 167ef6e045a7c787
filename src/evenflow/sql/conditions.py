"""Conditions: comparisons, AND, OR, NOT, IS, BETWEEN, IN."""

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.expressions import Rule, Translator, combined, said
from evenflow.sql.literals import dated
from evenflow.sql.typed import Ast, Typed

_COMPARE: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}


def _compare(translate: Translator, node: Ast) -> Typed:
    left, right = translate.sides(node)
    left, right = dated(left, right), dated(right, left)
    left, right = translate.pair(node, left, right)
    return combined(f"({left.sql} {_COMPARE[type(node)]} {right.sql})", types.BOOLEAN, left, right)


def _null_safe(translate: Translator, node: Ast) -> Typed:
    left, right = translate.pair(node, *translate.sides(node))
    sql = f"({left.sql} IS NOT DISTINCT FROM {right.sql})"
    return combined(sql, types.BOOLEAN, left, right)


def _logic(translate: Translator, node: Ast) -> Typed:
    left, right = translate.boolean(node.left), translate.boolean(node.right)
    return combined(f"({left.sql} {_LOGIC[type(node)]} {right.sql})", types.BOOLEAN, left, right)


def _not(translate: Translator, node: Ast) -> Typed:
    value = translate.boolean(node.this)
    return combined(f"(NOT {value.sql})", types.BOOLEAN, value)


def _is(translate: Translator, node: Ast) -> Typed:
    value, what = translate(node.this), node.args["expression"]
    if isinstance(what, exp.Null):
        return combined(f"({value.sql} IS NULL)", types.BOOLEAN, value)
    if isinstance(what, exp.Boolean) and value.type == types.BOOLEAN:
        word = "TRUE" if what.this else "FALSE"
        return combined(f"({value.sql} IS NOT DISTINCT FROM {word})", types.BOOLEAN, value)
    raise InputError(f"{said(node)} is not supported; write IS NULL or IS TRUE")


def _between(translate: Translator, node: Ast) -> Typed:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    return _logic(translate, exp.And(this=low, expression=high))


def _in(translate: Translator, node: Ast) -> Typed:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        raise InputError(f"{said(node)}: IN (SELECT ...) is not supported; write a JOIN instead")
    value = translate(node.this)
    for item in node.expressions:
        translate.learn(item, value.type)
    items = [dated(translate(item), value) for item in node.expressions]
    if not items:
        raise InputError(f"{said(node)} has an empty list")
    widest = value
    for item in items:
        _, widest = translate.pair(node, item, widest)
    listed = ", ".join(item.cast(widest.type).sql for item in items)
    sql = f"({value.cast(widest.type).sql} IN ({listed}))"
    return combined(sql, types.BOOLEAN, value, *items)


CONDITIONS: dict[type, Rule] = {
    exp.NullSafeEQ: _null_safe,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    **dict.fromkeys(_COMPARE, _compare),
    **dict.fromkeys(_LOGIC, _logic),
}
