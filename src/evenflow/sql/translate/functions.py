"""Choices (CASE, if, coalesce) and functions of strings."""

from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql.translate.arrays import concat_arrays
from evenflow.sql.translate.conditions import compare_exprs
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import coerce
from evenflow.sql.translate.translator import (
    Rule,
    Translator,
    refuse_struct_order,
    register,
    widen,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import (
    BINARY,
    BOOLEAN,
    NULL,
    STRING,
    duckdb_name,
    is_floating,
)


def _case(translate: Translator, node: Ast) -> TypedExpr:
    ifs, operands = node.args["ifs"], []
    if node.this is not None:
        first = exp.EQ(this=node.this, expression=ifs[0].this)
        operands = [translate.translate_operands(first)[0]]
        for branch in ifs:
            translate.infer_parameter_type(branch.this, operands[0].type)
    tests = [translate(b.this) if operands else translate.boolean(b.this) for b in ifs]
    default = node.args.get("default")
    otherwise = translate(default) if default is not None else TypedExpr("NULL", NULL)
    values = [translate(branch.args["true"]) for branch in ifs]
    *values, otherwise = widen(node, *values, otherwise)

    def choice(*texts: str) -> str:
        conditions = tests
        for operand, text in zip(operands, texts, strict=True):  # one, or none
            value = replace(operand, sql=text)
            conditions = [compare_exprs(node, "=", value, test) for test in tests]
        arms = (f"WHEN {c.sql} THEN {v.sql}" for c, v in zip(conditions, values, strict=True))
        return f"(CASE {' '.join(arms)} ELSE {otherwise.sql} END)"

    sql = write_once(choice, *(operand.sql for operand in operands))
    return compose_expr(sql, otherwise.type, *operands, *tests, *values, otherwise)


def _if(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("false") is None:
        raise refusal(node, "has 2 arguments; if takes 3")
    branch = exp.If(this=node.this, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args["false"]))


def _nvl2(translate: Translator, node: Ast) -> TypedExpr:
    if node.args.get("false") is None:
        raise refusal(node, "has 2 arguments; nvl2 takes 3")
    condition = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    branch = exp.If(this=condition, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args["false"]))


def _variadic(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        first = [node.this] if node.this is not None else []
        values = widen(node, *(translate(argument) for argument in [*first, *node.expressions]))
        if name != "coalesce":
            refuse_struct_order(node, values[0])
            if len(values) < 2:
                raise refusal(node, f"has 1 argument; {name} takes at least 2")
        sql = f"{name}({', '.join(v.sql for v in values)})"
        if name != "coalesce" and is_floating(values[0].type):
            sql = _first_extreme(name, [v.sql for v in values])
        if name == "coalesce" and any(v.can_fail for v in values[1:]):
            sql = _first_not_null([v.sql for v in values])
        return compose_expr(sql, values[0].type, *values)

    return rule


def _first_not_null(values: list[str]) -> str:
    """Write coalesce so that no value is evaluated beside an earlier one; DuckDB's own may be."""
    *values, result = values
    for value in reversed(values):
        result = write_once(partial(_unless_null, result), value)
    return result


def _unless_null(other: str, text: str) -> str:
    return f"(CASE WHEN {text} IS NOT NULL THEN {text} ELSE {other} END)"


def _first_extreme(name: str, values: list[str]) -> str:
    """Write greatest or least of DOUBLEs: of 0.0 and -0.0, which are equal, it is the first."""
    sign = ">" if name == "greatest" else "<"
    template = f"(CASE WHEN {{0}} IS NULL OR {{1}} {sign} {{0}} THEN {{1}} ELSE {{0}} END)"
    result = values[0]
    for value in values[1:]:
        result = write_once(template.format, result, value)
    return result


def _nullif(translate: Translator, node: Ast) -> TypedExpr:
    left = translate(node.this)
    right = translate(node.expression)

    def choice(text: str) -> str:
        equal = compare_exprs(node, "=", replace(left, sql=text), right)
        return f"(CASE WHEN {equal.sql} THEN NULL ELSE {text} END)"

    return compose_expr(write_once(choice, left.sql), left.type, left, right)


def _strings(translate: Translator, node: Ast, *arguments: Ast) -> list[TypedExpr]:
    return [coerce(node, translate(argument), STRING) for argument in arguments]


def _string_function(name: str, result: pa.DataType, *arguments: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> TypedExpr:
        values = _strings(translate, node, node.this, *(node.args[a] for a in arguments))
        sql = f"{name}({', '.join(v.sql for v in values)})"
        return compose_expr(f"CAST({sql} AS {duckdb_name(result)})", result, *values)

    return rule


def _md5(translate: Translator, node: Ast) -> TypedExpr:
    value = coerce(node, translate(node.this), BINARY)
    return compose_expr(f"md5({value.sql})", STRING, value)


def _letter_case(name: str) -> Rule:
    """Return the rule of `upper` or `lower`; DuckDB's own differ from Spark's beyond ASCII."""

    def rule(translate: Translator, node: Ast) -> TypedExpr:
        (value,) = _strings(translate, node, node.this)
        template = (
            f"(CASE WHEN strlen({{0}}) = length({{0}}) THEN {name}({{0}}) "
            f"ELSE unicode_{name}({{0}}) END)"
        )
        return compose_expr(write_once(template.format, value.sql), STRING, value)

    return rule


def _concat(translate: Translator, node: Ast) -> TypedExpr:
    arguments = node.expressions or [node.left, node.right]
    given = [translate(argument) for argument in arguments]
    if any(pa.types.is_list(value.type) for value in given):
        return concat_arrays(node, given)
    values = _strings(translate, node, *arguments)
    return compose_expr(f"({' || '.join(v.sql for v in values)})", STRING, *values)


register("this ifs default", {exp.Case: _case})
register("this true false", {exp.If: _if, exp.Nvl2: _nvl2})
register("this expressions", {exp.Coalesce: _variadic("coalesce")})
register(
    "this expressions ignore_nulls",  # both engines ignore them
    {exp.Greatest: _variadic("greatest"), exp.Least: _variadic("least")},
)
register("expressions safe", {exp.Concat: _concat})
register("this expression safe", {exp.DPipe: _concat})
register(
    "this",
    {
        exp.Upper: _letter_case("upper"),
        exp.Lower: _letter_case("lower"),
        exp.MD5: _md5,
    },
)
register(
    "this expression",
    {
        exp.Nullif: _nullif,
        exp.StartsWith: _string_function("starts_with", BOOLEAN, "expression"),
        exp.EndsWith: _string_function("ends_with", BOOLEAN, "expression"),
        exp.Contains: _string_function("contains", BOOLEAN, "expression"),
    },
)
