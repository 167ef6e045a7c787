"""Conditions: comparisons, AND, OR, NOT, IS, BETWEEN, IN."""

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from evenflow.sql.translate.literals import coerce_time_literal
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Translator, refuse_struct_order, register, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, unless_null, write_once
from evenflow.sql.types import BOOLEAN, LONG, STRING, is_integer

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}


def compare_exprs(node: Ast, operator: str, left: TypedExpr, right: TypedExpr) -> TypedExpr:
    """Compare two values that are a part of `node`."""
    left, right = coerce_time_literal(left, right), coerce_time_literal(right, left)
    left, right = _as_integer(left, right), _as_integer(right, left)
    left, right = widen(node, left, right)
    if operator not in ("=", "<>"):
        refuse_struct_order(node, left)
    sql = unless_null(left, right, lambda text: f"({text} {operator} {right.sql})")
    return compose_expr(sql, BOOLEAN, left, right)


def _as_integer(value: TypedExpr, other: TypedExpr) -> TypedExpr:
    """Read a constant text that is compared with an integer as a BIGINT, as Spark does."""
    text = value.literal
    if not (isinstance(text, str) and value.type == STRING and is_integer(other.type)):
        return value
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        return value
    return TypedExpr(f"CAST({int(text)} AS BIGINT)", LONG, literal=int(text))


def _compare(translate: Translator, node: Ast) -> TypedExpr:
    return compare_exprs(node, _COMPARISONS[type(node)], *translate.translate_operands(node))


def _null_safe(translate: Translator, node: Ast) -> TypedExpr:
    left, right = widen(node, *translate.translate_operands(node))
    return compose_expr(f"({left.sql} IS NOT DISTINCT FROM {right.sql})", BOOLEAN, left, right)


def _distinct(translate: Translator, node: Ast) -> TypedExpr:
    left, right = widen(node, *translate.translate_operands(node))
    return compose_expr(f"({left.sql} IS DISTINCT FROM {right.sql})", BOOLEAN, left, right)


def _logic(translate: Translator, node: Ast) -> TypedExpr:
    return _combine(_LOGIC[type(node)], translate.boolean(node.left), translate.boolean(node.right))


def _combine(word: str, left: TypedExpr, right: TypedExpr) -> TypedExpr:
    """Write AND or OR; like Spark, do not evaluate the right side where the left one decides."""
    if not right.can_fail:
        return compose_expr(f"({left.sql} {word} {right.sql})", BOOLEAN, left, right)
    sign, result = ("NOT ", "FALSE") if word == "AND" else ("", "TRUE")
    other = "" if sign else "NOT "

    def chain(text: str) -> str:
        # Not `text AND right`: where that is a filter, a NULL on the left would decide.
        rest = write_once(
            lambda r: f"CASE WHEN {other}{r} THEN {text} WHEN {sign}{r} THEN {result} END",
            right.sql,
        )
        return f"(CASE WHEN {sign}{text} THEN {result} ELSE {rest} END)"

    return compose_expr(write_once(chain, left.sql), BOOLEAN, left, right)


def guard_conditions(conditions: Sequence[TypedExpr]) -> list[TypedExpr]:
    """Make conditions that can fail depend on those before them, as in `b <> 0 AND a / b > 1`.

    DuckDB may evaluate the conditions of WHERE in any order. Conditions on other inputs of a join
    do not protect: Spark too evaluates those on one input first.
    """
    guarded = [c for c in conditions if not c.can_fail]
    for inputs in dict.fromkeys(c.inputs for c in conditions if c.can_fail):
        chain = [c for c in conditions if c.inputs <= inputs]
        while not (chain[-1].can_fail and chain[-1].inputs == inputs):
            chain.pop()
        sql = chain[-1].sql
        for condition in reversed(chain[:-1]):
            sql = f"(CASE WHEN {condition.sql} THEN {sql} ELSE FALSE END)"
        guarded.append(compose_expr(sql, BOOLEAN, *chain))
    return guarded


def _not(translate: Translator, node: Ast) -> TypedExpr:
    value = translate.boolean(node.this)
    return compose_expr(f"(NOT {value.sql})", BOOLEAN, value)


def _is(translate: Translator, node: Ast) -> TypedExpr:
    value, expected = translate(node.this), node.args["expression"]
    if isinstance(expected, exp.Null):
        return compose_expr(f"({value.sql} IS NULL)", BOOLEAN, value)
    if isinstance(expected, exp.Boolean) and value.type == BOOLEAN:
        word = "TRUE" if expected.this else "FALSE"
        return compose_expr(f"({value.sql} IS NOT DISTINCT FROM {word})", BOOLEAN, value)
    raise refusal(node, "is not supported; write IS NULL or IS TRUE")


def _between(translate: Translator, node: Ast) -> TypedExpr:
    first = exp.GTE(this=node.this, expression=node.args["low"])
    value, low = translate.translate_operands(first)
    translate.infer_parameter_type(node.args["high"], value.type)
    high = translate(node.args["high"])

    def both(text: str) -> str:
        given = replace(value, sql=text)
        above, below = (
            compare_exprs(node, operator, given, bound)
            for operator, bound in ((">=", low), ("<=", high))
        )
        return _combine("AND", above, below).sql

    return compose_expr(write_once(both, value.sql), BOOLEAN, value, low, high)


def _in(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("unnest") is not None:
        raise refusal(node, "is not supported: IN needs a list or a subquery")
    value = translate(node.this)
    for item in node.expressions:
        translate.infer_parameter_type(item, value.type)
    items = [coerce_time_literal(translate(item), value) for item in node.expressions]
    if not items:
        raise refusal(node, "has an empty list")
    value, *items = widen(node, value, *items)
    if any(item.can_fail for item in items):
        raise refusal(node, "lists a value that can fail, such as a quotient; write = and OR")
    listed = ", ".join(item.sql for item in items)
    sql = write_once(lambda text: f"({text} IN ({listed}))", value.sql)  # DuckDB copies the operand
    return compose_expr(sql, BOOLEAN, value, *items)


register(
    "this expression",
    {
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _distinct,
        exp.Is: _is,
        **dict.fromkeys(_COMPARISONS, _compare),
        **dict.fromkeys(_LOGIC, _logic),
    },
)
register("this", {exp.Not: _not})
register("this low high", {exp.Between: _between})
register("this expressions query unnest", {exp.In: _in})
