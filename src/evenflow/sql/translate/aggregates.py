"""Aggregates as three steps: partial rows of a batch, merged partials, the answer.

`update` makes a partial column from rows, `merge` combines partial columns (and is applied to its
own results when runs of partials are combined), `final` computes the answer from merged columns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.functions import refusal_message
from evenflow.sql.translate.translator import Translator, quote_sql
from evenflow.sql.translate.typed_expr import Ast


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """One stored column: how rows make it and how two become one (`{}` is the column)."""

    update: str
    merge: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: its stored columns and its answer (`{0}`, `{1}` are the merged columns)."""

    partials: tuple[PartialColumn, ...]
    final: str
    type: pa.DataType


AggregateRule = Callable[[Translator, Ast, str], Aggregate]


def read_aggregate(translate: Translator, node: Ast) -> Aggregate | None:
    """Read an aggregate call, or return None if the node is something else."""
    given = node
    kept = ""
    if isinstance(node, exp.Filter):
        condition = translate.boolean(node.expression.this)
        node, kept = node.this, f" FILTER (WHERE {condition.sql})"
    if isinstance(node, exp.Anonymous):
        node = _to_aggregate_node(node)
    if not isinstance(node, exp.AggFunc):
        if given is not node and kept:
            raise InputError(f"{quote_sql(given)} is refused: FILTER needs an aggregate before it")
        return None
    if isinstance(node, exp.Count):
        return _count(translate, node, kept)
    rule = _RULES.get(type(node))
    if rule is None:
        raise InputError(_refusal(node))
    if isinstance(node.this, exp.Distinct):
        raise InputError(f"{quote_sql(node)}: DISTINCT is supported in count(DISTINCT x) only")
    return rule(translate, node, kept)


def _refusal(node: Ast) -> str:
    reasons: dict[type, str] = {
        exp.First: "the first row depends on arrival; use min or max",
        exp.Last: "the last row depends on arrival; use min or max",
        exp.AnyValue: "the value taken depends on arrival; use min or max",
        exp.ArrayAgg: "the order depends on arrival; aggregate numbers, or write a Python operator",
        exp.ArrayUniqueAgg: "the order depends on arrival; use count(DISTINCT x)",
        exp.ApproxDistinct: "its answer differs between engines; use count(DISTINCT x)",
    }
    advice = reasons.get(type(node))
    return f"{quote_sql(node)} is refused: {advice}" if advice else refusal_message(node)


def _to_aggregate_node(node: Ast) -> Ast:
    name = str(node.this).lower()
    if name in ("every", "bool_and") and len(node.expressions) == 1:
        return exp.LogicalAnd(this=node.expressions[0])
    if name in ("some", "any", "bool_or") and len(node.expressions) == 1:
        return exp.LogicalOr(this=node.expressions[0])
    return node


def _count(translate: Translator, node: Ast, kept: str) -> Aggregate:
    asked = node.this
    if isinstance(asked, exp.Distinct):
        if len(asked.expressions) != 1:
            raise InputError(f"{quote_sql(node)}: count(DISTINCT) takes one expression")
        value = translate(asked.expressions[0])
        there = f"{value.sql} IS NOT NULL"
        kept = kept.removesuffix(")") + f" AND {there})" if kept else f" FILTER (WHERE {there})"
        seen = f"list(DISTINCT {value.sql}){kept}"
        merged = "list_distinct(flatten(list({0}) FILTER (WHERE {0} IS NOT NULL)))"
        final = "CAST(coalesce(len({0}), 0) AS BIGINT)"
        kind = pa.list_(types.physical_type(value.type))
        return Aggregate((PartialColumn(seen, merged, kind),), final, types.LONG)
    if node.expressions:
        raise InputError(f"{quote_sql(node)}: count takes one expression or *")
    inner = "*" if isinstance(asked, exp.Star) else translate(asked).sql
    update = f"CAST(count({inner}){kept} AS BIGINT)"
    return Aggregate(
        (PartialColumn(update, "CAST(sum({}) AS BIGINT)", types.LONG),), "{0}", types.LONG
    )


def _count_if(translate: Translator, node: Ast, kept: str) -> Aggregate:
    condition = translate.boolean(node.this)
    update = f"CAST(count(CASE WHEN {condition.sql} THEN 1 END){kept} AS BIGINT)"
    return Aggregate(
        (PartialColumn(update, "CAST(sum({}) AS BIGINT)", types.LONG),), "{0}", types.LONG
    )


def _sum(translate: Translator, node: Ast, kept: str) -> Aggregate:
    value = translate(node.this)
    if not types.is_number(value.type):
        raise InputError(
            f"{quote_sql(node)} needs a number, got {types.spark_name(value.type)}; write a cast"
        )
    kind = types.LONG if types.is_integer(value.type) else types.DOUBLE
    if types.is_decimal(value.type):
        kind = pa.decimal128(min(value.type.precision + 10, 38), value.type.scale)
    name = types.duckdb_name(kind)
    operand = f"CAST({value.sql} AS DOUBLE)" if kind == types.DOUBLE else value.sql
    update, merge = f"CAST(sum({operand}){kept} AS {name})", f"CAST(sum({{}}) AS {name})"
    return Aggregate((PartialColumn(update, merge, kind),), "{0}", kind)


def _avg(translate: Translator, node: Ast, kept: str) -> Aggregate:
    value = translate(node.this)
    if not types.is_number(value.type) or types.is_decimal(value.type):
        raise InputError(
            f"{quote_sql(node)} averages {types.spark_name(value.type)}; cast it to DOUBLE"
        )
    total = PartialColumn(
        f"CAST(sum(CAST({value.sql} AS DOUBLE)){kept} AS DOUBLE)", "sum({})", types.DOUBLE
    )
    number = PartialColumn(
        f"CAST(count({value.sql}){kept} AS BIGINT)", "CAST(sum({}) AS BIGINT)", types.LONG
    )
    final = "CAST(CASE WHEN {1} = 0 THEN NULL ELSE {0} / {1} END AS DOUBLE)"
    return Aggregate((total, number), final, types.DOUBLE)


def _min_max(name: str) -> AggregateRule:
    def rule(translate: Translator, node: Ast, kept: str) -> Aggregate:
        value = translate(node.this)
        kind = types.physical_type(value.type)
        partial = PartialColumn(f"{name}({value.sql}){kept}", f"{name}({{}})", kind)
        return Aggregate((partial,), "{0}", value.type)

    return rule


def _logical(name: str) -> AggregateRule:
    def rule(translate: Translator, node: Ast, kept: str) -> Aggregate:
        value = translate.boolean(node.this)
        partial = PartialColumn(f"{name}({value.sql}){kept}", f"{name}({{}})", types.BOOLEAN)
        return Aggregate((partial,), "{0}", types.BOOLEAN)

    return rule


def _variance(final: str) -> AggregateRule:
    """Describe variances by count, mean and sum of squared deviations, merged pairwise exactly."""

    def rule(translate: Translator, node: Ast, kept: str) -> Aggregate:
        value = translate(node.this)
        if not types.is_number(value.type):
            raise InputError(f"{quote_sql(node)} needs a number; write a cast")
        operand = f"CAST({value.sql} AS DOUBLE)"
        kind = pa.struct([("n", types.DOUBLE), ("mean", types.DOUBLE), ("m2", types.DOUBLE)])
        update = (
            f"{{'n': CAST(count({operand}){kept} AS DOUBLE), "
            f"'mean': CAST(coalesce(avg({operand}){kept}, 0) AS DOUBLE), "
            f"'m2': CAST(coalesce(var_pop({operand}){kept} * count({operand}){kept}, 0) "
            "AS DOUBLE)}"
        )
        merge = (
            "list_reduce(list({}), lambda a, b: {{'n': a.n + b.n, "
            "'mean': CASE WHEN a.n + b.n = 0 THEN 0 "
            "ELSE a.mean + (b.mean - a.mean) * b.n / (a.n + b.n) END, "
            "'m2': CASE WHEN a.n + b.n = 0 THEN 0 "
            "ELSE a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * b.n / (a.n + b.n) "
            "END}})"
        )
        return Aggregate((PartialColumn(update, merge, kind),), final, types.DOUBLE)

    return rule


_SAMPLE_SQL = "CASE WHEN {0}.n < 2 THEN NULL ELSE %s END"
_POPULATION_SQL = "CASE WHEN {0}.n < 1 THEN NULL ELSE %s END"
_RULES: dict[type, AggregateRule] = {
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _min_max("min"),
    exp.Max: _min_max("max"),
    exp.LogicalAnd: _logical("bool_and"),
    exp.LogicalOr: _logical("bool_or"),
    exp.Stddev: _variance(_SAMPLE_SQL % "sqrt({0}.m2 / ({0}.n - 1))"),
    exp.StddevSamp: _variance(_SAMPLE_SQL % "sqrt({0}.m2 / ({0}.n - 1))"),
    exp.StddevPop: _variance(_POPULATION_SQL % "sqrt({0}.m2 / {0}.n)"),
    exp.Variance: _variance(_SAMPLE_SQL % "({0}.m2 / ({0}.n - 1))"),
    exp.VariancePop: _variance(_POPULATION_SQL % "({0}.m2 / {0}.n)"),
}
