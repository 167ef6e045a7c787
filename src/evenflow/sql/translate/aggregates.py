"""Aggregates in three steps: partial columns of a batch, merged partial columns, the result.

`update` computes a partial column from rows, `merge` combines partial columns (also those that are
merged already), and `final` computes the result from the merged columns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.refusals import refusal, unsupported
from evenflow.sql.translate.translator import Translator, declare, refuse_struct_order
from evenflow.sql.translate.typed_expr import Ast


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """One stored column: how rows are aggregated into it, and how it is merged (`{}` is it)."""

    update: str
    merge: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: its stored columns and its result (`{0}`, `{1}` are the merged columns)."""

    partials: tuple[PartialColumn, ...]
    final: str
    type: pa.DataType


AggregateRule = Callable[[Translator, Ast], Aggregate]


def read_aggregate(translate: Translator, node: Ast) -> Aggregate | None:
    """Read an aggregate call; return None for any other node."""
    is_filtered = isinstance(node, exp.Filter)
    call = node.this if is_filtered else node
    if isinstance(call, exp.Anonymous):
        call = _to_aggregate_node(call)
    if not isinstance(call, exp.AggFunc):
        if is_filtered:
            raise refusal(node, "is refused: FILTER needs an aggregate before it")
        return None
    if is_filtered:
        call = _filtered(call, node.expression.this)
    if isinstance(call, exp.Count):
        return _count(translate, call)
    rule = _RULES.get(type(call))
    if rule is None:
        raise unsupported(call)
    if isinstance(call.this, exp.Distinct):
        raise refusal(call, "is not supported: use DISTINCT only in count(DISTINCT x)")
    return rule(translate, call)


def _filtered(call: Ast, condition: Ast) -> Ast:
    """Write FILTER as CASE: arguments of rows that are left out are not evaluated, as in Spark."""

    def chosen(argument: Ast) -> Ast:
        return exp.Case(ifs=[exp.If(this=condition, true=argument)])

    argument = call.this
    if isinstance(argument, exp.Distinct):
        changed: Ast = exp.Distinct(expressions=[chosen(e) for e in argument.expressions])
    else:
        is_star = isinstance(argument, exp.Star)
        changed = chosen(exp.Literal.number(1) if is_star else argument)
    return type(call)(**{**call.args, "this": changed})


def _to_aggregate_node(node: Ast) -> Ast:
    name = str(node.this).lower()
    if name in ("every", "bool_and") and len(node.expressions) == 1:
        return exp.LogicalAnd(this=node.expressions[0])
    if name in ("some", "any", "bool_or") and len(node.expressions) == 1:
        return exp.LogicalOr(this=node.expressions[0])
    return node


def _counter(counted_sql: str) -> PartialColumn:
    update = f"CAST(count({counted_sql}) AS BIGINT)"
    return PartialColumn(update, "CAST(sum({}) AS BIGINT)", types.LONG)


def _count(translate: Translator, node: Ast) -> Aggregate:
    counted = node.this
    if isinstance(counted, exp.Distinct):
        return _count_distinct(translate, node)
    if node.expressions:
        raise refusal(node, "has several arguments; count takes one expression or *")
    sql = "*" if isinstance(counted, exp.Star) else translate(counted).sql
    return Aggregate((_counter(sql),), "{0}", types.LONG)


def _count_distinct(translate: Translator, node: Ast) -> Aggregate:
    if len(node.this.expressions) != 1:
        raise refusal(node, "has several arguments; count(DISTINCT) takes one expression")
    value = translate(node.this.expressions[0])
    update = f"list(DISTINCT {value.sql}) FILTER (WHERE {value.sql} IS NOT NULL)"
    merge = "list_distinct(flatten(list({0}) FILTER (WHERE {0} IS NOT NULL)))"
    partial = PartialColumn(update, merge, pa.list_(types.physical_type(value.type)))
    return Aggregate((partial,), "CAST(coalesce(len({0}), 0) AS BIGINT)", types.LONG)


def _count_if(translate: Translator, node: Ast) -> Aggregate:
    condition = translate.boolean(node.this)
    partial = _counter(f"CASE WHEN {condition.sql} THEN 1 END")
    return Aggregate((partial,), "{0}", types.LONG)


def _sum(translate: Translator, node: Ast) -> Aggregate:
    value = translate(node.this)
    if not types.is_number(value.type):
        raise refusal(node, f"needs a number, got {types.spark_name(value.type)}; write a cast")
    kind = types.LONG if types.is_integer(value.type) else types.DOUBLE
    if types.is_decimal(value.type):
        kind = pa.decimal128(min(value.type.precision + 10, 38), value.type.scale)
    name = types.duckdb_name(kind)
    operand = f"CAST({value.sql} AS DOUBLE)" if kind == types.DOUBLE else value.sql
    update, merge = f"CAST(sum({operand}) AS {name})", f"CAST(sum({{}}) AS {name})"
    return Aggregate((PartialColumn(update, merge, kind),), "{0}", kind)


def _avg(translate: Translator, node: Ast) -> Aggregate:
    value = translate(node.this)
    if not types.is_number(value.type) or types.is_decimal(value.type):
        raise refusal(node, f"averages {types.spark_name(value.type)}; cast it to DOUBLE")
    update = f"CAST(sum(CAST({value.sql} AS DOUBLE)) AS DOUBLE)"
    total = PartialColumn(update, "sum({})", types.DOUBLE)
    final = "CAST(CASE WHEN {1} = 0 THEN NULL ELSE {0} / {1} END AS DOUBLE)"
    return Aggregate((total, _counter(value.sql)), final, types.DOUBLE)


def _same_function(name: str, *, boolean: bool = False) -> AggregateRule:
    """Return the rule of an aggregate whose partial columns are merged by itself."""

    def rule(translate: Translator, node: Ast) -> Aggregate:
        value = translate.boolean(node.this) if boolean else translate(node.this)
        refuse_struct_order(node, value)
        update, merge = f"{name}({value.sql})", f"{name}({{}})"
        partial = PartialColumn(update, merge, types.physical_type(value.type))
        return Aggregate((partial,), "{0}", value.type)

    return rule


def _variance(final: str) -> AggregateRule:
    """Return the rule of a variance: count, mean and sum of squared deviations, merged pairwise."""

    def rule(translate: Translator, node: Ast) -> Aggregate:
        value = translate(node.this)
        if not types.is_number(value.type):
            raise refusal(node, "needs a number; write a cast")
        operand = f"CAST({value.sql} AS DOUBLE)"
        kind = pa.struct([("n", types.DOUBLE), ("mean", types.DOUBLE), ("m2", types.DOUBLE)])
        count, mean, variance, least, most = (
            f"{name}({operand})" for name in ("count", "avg", "var_pop", "min", "max")
        )
        # The mean of equal values is their value, without the rounding of a quotient.
        mean = f"CASE WHEN {least} = {most} THEN {least} ELSE {mean} END"
        update = (
            f"{{'n': CAST({count} AS DOUBLE), 'mean': CAST(coalesce({mean}, 0) AS DOUBLE), "
            f"'m2': CAST(coalesce({variance} * {count}, 0) AS DOUBLE)}}"
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
    exp.Min: _same_function("min"),
    exp.Max: _same_function("max"),
    exp.LogicalAnd: _same_function("bool_and", boolean=True),
    exp.LogicalOr: _same_function("bool_or", boolean=True),
    exp.Stddev: _variance(_SAMPLE_SQL % "sqrt({0}.m2 / ({0}.n - 1))"),
    exp.StddevSamp: _variance(_SAMPLE_SQL % "sqrt({0}.m2 / ({0}.n - 1))"),
    exp.StddevPop: _variance(_POPULATION_SQL % "sqrt({0}.m2 / {0}.n)"),
    exp.Variance: _variance(_SAMPLE_SQL % "({0}.m2 / ({0}.n - 1))"),
    exp.VariancePop: _variance(_POPULATION_SQL % "({0}.m2 / {0}.n)"),
}
declare("this", exp.Where, *_RULES)
declare("this expressions big_int", exp.Count)  # BIGINT is Spark's type of a count
declare("this expression", exp.Filter)
declare("expressions", exp.Distinct)
