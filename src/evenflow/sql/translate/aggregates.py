"""Aggregates in three steps: partial columns of a batch, merged partial columns, the result.

`update` computes a partial column from rows, `merge` combines partial columns (also those that are
merged already), and `final` computes the result from the merged columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import parsed
from evenflow.sql.translate.translator import (
    NAMED_RULES,
    Translator,
    declare,
    refuse_struct_order,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

OVER_MARK = "\x02"  # no query can contain a control character


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """One stored column: how rows are aggregated into it, and how it is merged (`{}` is it).

    `windowed` is the update with `OVER_MARK` where OVER goes, empty if it cannot have OVER.
    """

    update: str
    merge: str
    type: pa.DataType
    windowed: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: its stored columns and its result (`{0}`, `{1}` are the merged columns)."""

    partials: tuple[PartialColumn, ...]
    final: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate: its arguments, its FILTER, and the event time of a row."""

    translate: Translator
    node: Ast
    name: str
    arguments: tuple[Ast, ...]
    is_distinct: bool = False
    ignores_nulls: bool = False
    condition: Ast | None = None
    order: Ast | None = None  # of WITHIN GROUP
    time_sql: str = ""

    def value(self, at: int = 0) -> TypedExpr:
        """Translate an argument; as in Spark, FILTER leaves rows out before it is evaluated."""
        return self.translate(self.chosen(self.arguments[at]))

    def chosen(self, argument: Ast) -> Ast:
        """Write FILTER as CASE."""
        if self.condition is None:
            return argument
        return exp.Case(ifs=[exp.If(this=self.condition, true=argument)])

    def number(self, at: int = 0) -> TypedExpr:
        """Translate an argument that must be a number."""
        value = self.value(at)
        if not types.is_number(value.type):
            kind = types.spark_name(value.type)
            raise refusal(self.node, f"needs a number, got {kind}; write a cast")
        return value

    def where(self, *conditions: str) -> str:
        """Write which rows count."""
        tests = list(conditions)
        if self.condition is not None:
            tests.append(self.translate.boolean(self.condition).sql)
        return f" FILTER (WHERE {' AND '.join(tests)})" if tests else ""

    def refuse(self, problem: str) -> Exception:
        """Return the error of this call."""
        return refusal(self.node, problem)


AggregateRule = Callable[[AggregateCall], Aggregate]
AGGREGATES: dict[str, tuple[AggregateRule, tuple[int, ...], bool]] = {}


def _refuse_misplaced(_: Translator, node: Ast) -> TypedExpr:
    raise refusal(
        node,
        "is refused: an aggregate belongs in SELECT or HAVING of a query with "
        "GROUP BY window(...), and not inside another aggregate",
    )


def aggregate(names: str, rule: AggregateRule, *counts: int, distinct: bool = False) -> None:
    """Register an aggregate for these numbers of arguments; `distinct`: it can have DISTINCT."""
    for name in names.split():
        AGGREGATES[name] = rule, counts, distinct
        NAMED_RULES[name] = _refuse_misplaced
        parsed(name, topic="aggregates")


def is_aggregate(node: Ast) -> bool:
    """Tell whether a node is the call of an aggregate, not what is inside it."""
    if isinstance(node, exp.Any):  # not that of LIKE ANY ('a%')
        return isinstance(node.this, exp.Paren) and not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in AGGREGATES


def has_aggregate(node: Ast) -> bool:
    """Tell whether an expression contains an aggregate, other than one of a subquery."""
    return any(is_aggregate(part) for part in node.walk(prune=_is_query))


def _is_query(node: Ast) -> bool:
    return isinstance(node, exp.Select)


def read_aggregate(translate: Translator, node: Ast, time_sql: str = "") -> Aggregate | None:
    """Read an aggregate call; return None for any other node."""
    given: dict[str, Any] = {}
    call = node
    while isinstance(call, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(call, exp.Filter):
            given["condition"] = call.expression.this
        elif isinstance(call, exp.WithinGroup):
            given["order"] = call.expression
        else:
            given["ignores_nulls"] = isinstance(call, exp.IgnoreNulls)
        call = call.this
    if not is_aggregate(call):
        if call is not node:
            raise refusal(node, "is refused: FILTER needs an aggregate before it")
        return None
    name = "any" if isinstance(call, exp.Any) else str(call.this).lower()
    arguments = [call.this.this] if isinstance(call, exp.Any) else list(call.expressions)
    if arguments and isinstance(arguments[0], exp.Distinct):
        given["is_distinct"] = True
        arguments = [*arguments[0].expressions, *arguments[1:]]
    rule, counts, can_be_distinct = AGGREGATES[name]
    if given.get("is_distinct") and not can_be_distinct:
        raise refusal(call, "is not supported: use DISTINCT only in count, sum and avg")
    if counts and len(arguments) not in counts:
        words = " or ".join(map(str, counts))
        raise refusal(call, f"has {len(arguments)} arguments; {name} takes {words}")
    found = AggregateCall(translate, call, name, tuple(arguments), time_sql=time_sql, **given)
    return rule(found)


def counter(counted_sql: str, where: str = "") -> PartialColumn:
    """Return the column that counts values."""
    call, merge = f"count({counted_sql}){where}", "CAST(sum({}) AS BIGINT)"
    windowed = f"CAST({call}{OVER_MARK} AS BIGINT)"
    return PartialColumn(f"CAST({call} AS BIGINT)", merge, types.LONG, windowed)


def distinct_values(value: TypedExpr) -> PartialColumn:
    """Return the column that lists the different values."""
    update = f"list(DISTINCT {value.sql}) FILTER (WHERE {value.sql} IS NOT NULL)"
    merge = "list_distinct(flatten(list({0}) FILTER (WHERE {0} IS NOT NULL)))"
    return PartialColumn(update, merge, pa.list_(types.physical_type(value.type)))


def _count(call: AggregateCall) -> Aggregate:
    if not call.arguments:
        raise call.refuse("has no arguments; write count(*)")
    if call.is_distinct:
        return _count_distinct(call)
    if isinstance(call.arguments[0], exp.Star):
        one = call.chosen(exp.Literal.number(1))
        sql = "*" if call.condition is None else call.translate(one).sql
        return Aggregate((counter(sql),), "{0}", types.LONG)
    values = [call.value(at) for at in range(len(call.arguments))]
    sql = values[0].sql
    if len(values) > 1:
        tests = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
        sql = f"CASE WHEN {tests} THEN 1 END"
    return Aggregate((counter(sql),), "{0}", types.LONG)


def _count_distinct(call: AggregateCall) -> Aggregate:
    values = [call.value(at) for at in range(len(call.arguments))]
    value = values[0]
    if len(values) > 1:
        fields = ", ".join(f"'c{at}': {v.sql}" for at, v in enumerate(values))
        tests = " AND ".join(f"{v.sql} IS NOT NULL" for v in values)
        kind = pa.struct([(f"c{at}", v.type) for at, v in enumerate(values)])
        value = TypedExpr(f"(CASE WHEN {tests} THEN {{{fields}}} END)", kind)
    partial = distinct_values(value)
    return Aggregate((partial,), "CAST(coalesce(len({0}), 0) AS BIGINT)", types.LONG)


def _count_if(call: AggregateCall) -> Aggregate:
    condition = call.translate.boolean(call.chosen(call.arguments[0]))
    return Aggregate((counter(f"CASE WHEN {condition.sql} THEN 1 END"),), "{0}", types.LONG)


def _sum_type(value: TypedExpr) -> pa.DataType:
    if types.is_decimal(value.type):
        return pa.decimal128(min(value.type.precision + 10, 38), value.type.scale)
    return types.LONG if types.is_integer(value.type) else types.DOUBLE


def _sum_column(value: TypedExpr) -> PartialColumn:
    kind = _sum_type(value)
    name = types.duckdb_name(kind)
    operand = f"CAST({value.sql} AS DOUBLE)" if kind == types.DOUBLE else value.sql
    update, merge = f"CAST(sum({operand}) AS {name})", f"CAST(sum({{}}) AS {name})"
    return PartialColumn(update, merge, kind, f"CAST(sum({operand}){OVER_MARK} AS {name})")


def _sum(call: AggregateCall) -> Aggregate:
    value = call.number()
    kind = _sum_type(value)
    if not call.is_distinct:
        return Aggregate((_sum_column(value),), "{0}", kind)
    final = f"CAST(list_sum({{0}}) AS {types.duckdb_name(kind)})"
    return Aggregate((distinct_values(value),), final, kind)


def _avg(call: AggregateCall) -> Aggregate:
    value = call.number()
    if call.is_distinct:
        partials: tuple[PartialColumn, ...] = (distinct_values(value),)
        total = f"CAST(list_sum({{0}}) AS {types.duckdb_name(_sum_type(value))})"
        count = "CAST(len({0}) AS BIGINT)"
    else:
        operand = value if types.is_decimal(value.type) else value.cast(types.DOUBLE)
        partials = _sum_column(operand), counter(value.sql)
        total, count = "{0}", "{1}"
    if types.is_decimal(value.type):
        kind = types.bounded_decimal(value.type.precision + 4, value.type.scale + 4)
        quotient = (
            f"CAST(spark_divide_decimal(CAST({total} AS VARCHAR), CAST({count} AS VARCHAR), "
            f"{kind.scale}, {kind.precision}) AS {types.duckdb_name(kind)})"
        )
        final = f"CASE WHEN {count} > 0 THEN {quotient} END"
        return Aggregate(partials, final, kind)
    final = f"CAST(CASE WHEN {count} > 0 THEN {total} / {count} END AS DOUBLE)"
    return Aggregate(partials, final, types.DOUBLE)


def _same_function(name: str, *, boolean: bool = False, integral: bool = False) -> AggregateRule:
    """Return the rule of an aggregate whose partial columns are merged by itself."""

    def rule(call: AggregateCall) -> Aggregate:
        value = call.value()
        if boolean:
            value = call.translate.boolean(call.chosen(call.arguments[0]))
        if integral and not types.is_integer(value.type):
            raise call.refuse(f"needs an integer, got {types.spark_name(value.type)}")
        refuse_struct_order(call.node, value)
        update, merge = f"{name}({value.sql})", f"{name}({{}})"
        kind = types.physical_type(value.type)
        partial = PartialColumn(update, merge, kind, update + OVER_MARK)
        return Aggregate((partial,), "{0}", value.type)

    return rule


def braces(text: str) -> str:
    """Escape braces in a text that is formatted later."""
    return text.replace("{", "{{").replace("}", "}}")


def without_filter(call: AggregateCall) -> AggregateCall:
    """Return the call without FILTER, for rules that write it themselves."""
    return replace(call, condition=None)


aggregate("count", _count, distinct=True)
aggregate("count_if", _count_if, 1)
aggregate("sum", _sum, 1, distinct=True)
aggregate("avg mean", _avg, 1, distinct=True)
aggregate("min", _same_function("min"), 1, distinct=True)
aggregate("max", _same_function("max"), 1, distinct=True)
aggregate("bool_and every", _same_function("bool_and", boolean=True), 1)
aggregate("bool_or some any", _same_function("bool_or", boolean=True), 1)
aggregate("bit_and", _same_function("bit_and", integral=True), 1)
aggregate("bit_or", _same_function("bit_or", integral=True), 1)
aggregate("bit_xor", _same_function("bit_xor", integral=True), 1)
declare("this", exp.Where, exp.IgnoreNulls, exp.RespectNulls)
declare("this expression", exp.Filter, exp.WithinGroup)
declare("expressions", exp.Distinct, exp.Order)
declare("this desc nulls_first", exp.Ordered)
