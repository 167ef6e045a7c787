"""Aggregates that return values of rows: lists, sets, percentiles, the first, the largest by.

Where Spark's answer depends on the order of arrival, rows are ordered by event time, and equal
times by content: a batch that runs again gives the same result.
"""

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.aggregates import (
    Aggregate,
    AggregateCall,
    AggregateRule,
    PartialColumn,
    aggregate,
    braces,
    distinct_values,
    without_filter,
)
from evenflow.sql.translate.hashes import hash_sql
from evenflow.sql.translate.translator import refuse_struct_order
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

_PRECISION = 9  # of approx_count_distinct: Spark's for a relative standard deviation of 5 %
_JOINED = "flatten(list({0}) FILTER (WHERE {0} IS NOT NULL))"


def _collect_list(call: AggregateCall) -> Aggregate:
    value = call.value()
    row = f"{{'t': {call.time_sql}, 'v': {value.sql}}}"
    update = f"list({row}) FILTER (WHERE {value.sql} IS NOT NULL)"
    kind = pa.list_(pa.struct([("t", types.LONG), ("v", types.physical_type(value.type))]))
    name = braces(types.duckdb_name(value.type))
    final = f"coalesce(list_transform(list_sort({{0}}), lambda e: e.v), CAST([] AS {name}[]))"
    return Aggregate((PartialColumn(update, _JOINED, kind),), final, pa.list_(value.type))


def _collect_set(call: AggregateCall) -> Aggregate:
    value = call.value()
    name = braces(types.duckdb_name(value.type))
    final = f"coalesce(list_sort({{0}}), CAST([] AS {name}[]))"
    return Aggregate((distinct_values(value),), final, pa.list_(value.type))


def _ordered(extreme: str, order: str, null: str) -> AggregateRule:
    """Return the rule of first and last (by time), or of max_by and min_by (by an argument)."""

    def rule(call: AggregateCall) -> Aggregate:
        where: tuple[str, ...] = ()
        plain = without_filter(call)
        value = plain.value()
        by, kind = call.time_sql, types.LONG
        if order == "argument":
            ordering = call.value(1)
            refuse_struct_order(call.node, ordering)
            by, kind = ordering.sql, types.physical_type(ordering.type)
            where = (f"{by} IS NOT NULL",)
        elif _ignores_nulls(call):
            where = (f"{value.sql} IS NOT NULL",)
        row = f"{{'t': {by}, 'n': {value.sql} IS {null}, 'v': {value.sql}}}"
        update = f"{extreme}({row}){call.where(*where)}"
        fields = [("t", kind), ("n", types.BOOLEAN), ("v", types.physical_type(value.type))]
        partial = PartialColumn(update, f"{extreme}({{}})", pa.struct(fields))
        return Aggregate((partial,), "struct_extract({0}, 'v')", value.type)

    return rule


def _ignores_nulls(call: AggregateCall) -> bool:
    if len(call.arguments) < 2:
        return call.ignores_nulls
    given = call.arguments[1]
    if not isinstance(given, exp.Boolean):
        raise call.refuse("needs true or false as its second argument")
    return bool(given.this)


def _values(call: AggregateCall, value: TypedExpr) -> PartialColumn:
    update = f"list({value.sql}) FILTER (WHERE {value.sql} IS NOT NULL)"
    return PartialColumn(update, _JOINED, pa.list_(types.physical_type(value.type)))


def _fractions(call: AggregateCall, node: Ast) -> tuple[list[float], bool]:
    """Read the constant percentage, or an array of them."""
    is_array = isinstance(node, exp.Anonymous) and str(node.this).lower() == "array"
    items = node.expressions if is_array else [node]
    found = []
    for item in items:
        while isinstance(item, exp.Cast | exp.TryCast | exp.Paren):
            item = item.this  # noqa: PLW2901
        if not isinstance(item, exp.Literal) or item.is_string:
            raise call.refuse("needs a constant percentage from 0 to 1")
        found.append(float(str(item.this)))
    if not all(0 <= fraction <= 1 for fraction in found):
        raise call.refuse("needs a percentage from 0 to 1")
    return found, is_array


def _interpolated(fraction: float) -> str:
    """Write Spark's percentile over the sorted list `v`: neighbours weighted by distance."""
    at = f"({fraction!r} * (len(v) - 1))"
    low, high = f"v[CAST(floor({at}) AS BIGINT) + 1]", f"v[CAST(ceil({at}) AS BIGINT) + 1]"
    mixed = f"(ceil({at}) - {at}) * {low} + ({at} - floor({at})) * {high}"
    return f"CASE WHEN {low} = {high} THEN {low} ELSE {mixed} END"


def _ranked(fraction: float) -> str:
    """Write the value at a rank of the sorted list `v`: the first that covers the percentage."""
    return f"v[greatest(CAST(ceil({fraction!r} * len(v)) AS BIGINT), 1)]"


def _percentile_of(
    call: AggregateCall, value: TypedExpr, fractions: tuple[list[float], bool], *, exact: bool,
    descending: bool = False,
) -> Aggregate:  # fmt: skip
    write = _interpolated if exact else _ranked
    given, is_array = fractions
    sort = "list_sort"
    if descending and exact:
        given = [1 - fraction for fraction in given]
    elif descending:
        sort = "list_reverse_sort"
    body = "[" + ", ".join(map(write, given)) + "]" if is_array else write(given[0])
    final = (
        "CASE WHEN {0} IS NOT NULL AND len({0}) > 0 THEN "
        f"list_transform([{sort}({{0}})], lambda v: {body})[1] END"
    )
    kind = pa.list_(value.type) if is_array else value.type
    return Aggregate((_values(call, value),), final, kind)


def _as_double(value: TypedExpr) -> TypedExpr:
    return value.cast(types.DOUBLE)


def _percentile(call: AggregateCall) -> Aggregate:
    value = _as_double(call.number())
    return _percentile_of(call, value, _fractions(call, call.arguments[1]), exact=True)


def _median(call: AggregateCall) -> Aggregate:
    return _percentile_of(call, _as_double(call.number()), ([0.5], False), exact=True)


def _percentile_approx(call: AggregateCall) -> Aggregate:
    value = call.value()
    if not (types.is_number(value.type) or types.is_timestamp(value.type)
            or value.type == types.DATE):  # fmt: skip
        raise call.refuse("needs a number, date or timestamp")
    return _percentile_of(call, value, _fractions(call, call.arguments[1]), exact=False)


def _within_group(exact: bool) -> AggregateRule:
    def rule(call: AggregateCall) -> Aggregate:
        if call.order is None or len(call.order.expressions) != 1:
            raise call.refuse("needs WITHIN GROUP (ORDER BY x)")
        (ordered,) = call.order.expressions
        value = call.translate(call.chosen(ordered.this))
        if not types.is_number(value.type):
            raise call.refuse("needs a number to order by")
        fractions = _fractions(call, call.arguments[0])
        return _percentile_of(call, _as_double(value), fractions, exact=exact,
                              descending=bool(ordered.args.get("desc")))  # fmt: skip

    return rule


def _approx_count_distinct(call: AggregateCall) -> Aggregate:
    """Return Spark's HyperLogLog++ with 512 registers, kept as the pairs that occurred."""
    value = call.value()
    if len(call.arguments) > 1:
        raise call.refuse("has an error bound; only the default of 5 % is supported")
    hashed = hash_sql(call.node, "xxhash", value, "CAST(42 AS BIGINT)")
    update = f"list(DISTINCT spark_hll_pair({hashed})) FILTER (WHERE {value.sql} IS NOT NULL)"
    merge = "list_distinct(flatten(list({0}) FILTER (WHERE {0} IS NOT NULL)))"
    partial = PartialColumn(update, merge, pa.list_(types.INT))
    return Aggregate((partial,), "spark_hll_estimate(coalesce({0}, []))", types.LONG)


def _listagg(call: AggregateCall) -> Aggregate:
    """Join texts in the order of event time, or of WITHIN GROUP (ORDER BY the same texts)."""
    value = call.value()
    if value.type != types.STRING:
        raise call.refuse("needs a STRING; write a cast")
    delimiter = call.translate(call.arguments[1]).literal if len(call.arguments) > 1 else ""
    if not isinstance(delimiter, str):
        raise call.refuse("needs a constant text as delimiter")
    between = braces(types.quote_string(delimiter))
    if call.order is None:
        listed = _collect_list(call)
        final = f"CASE WHEN len({{0}}) > 0 THEN array_to_string({listed.final}, {between}) END"
        return Aggregate(listed.partials, final, types.STRING)
    ordered, *others = call.order.expressions
    if others or ordered.this != call.arguments[0]:
        raise call.refuse("must be ordered by the same expression, and no other")
    sort = "list_reverse_sort" if ordered.args.get("desc") else "list_sort"
    final = f"CASE WHEN len({{0}}) > 0 THEN array_to_string({sort}({{0}}), {between}) END"
    return Aggregate((_values(call, value),), final, types.STRING)


aggregate("listagg string_agg", _listagg, 1, 2)
aggregate("collect_list array_agg", _collect_list, 1)
aggregate("collect_set", _collect_set, 1, distinct=True)
aggregate("first first_value any_value", _ordered("min", "time", "NULL"), 1, 2)
aggregate("last last_value", _ordered("max", "time", "NULL"), 1, 2)
aggregate("max_by", _ordered("max", "argument", "NOT NULL"), 2)
aggregate("min_by", _ordered("min", "argument", "NULL"), 2)
aggregate("percentile", _percentile, 2)
aggregate("median", _median, 1)
aggregate("percentile_approx approx_percentile", _percentile_approx, 2, 3)
aggregate("percentile_cont", _within_group(exact=True), 1)
aggregate("percentile_disc", _within_group(exact=False), 1)
aggregate("approx_count_distinct", _approx_count_distinct, 1, 2)
