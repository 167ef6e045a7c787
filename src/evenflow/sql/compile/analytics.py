"""Functions with OVER: a query without them below, and their node over its rows.

`SELECT a, f(b) OVER (PARTITION BY w ORDER BY c) FROM t` becomes OVER (PARTITION BY c2 ORDER BY c3)
over `SELECT a AS c0, b AS c1, w AS c2, c AS c3 FROM t`. GROUP BY and HAVING stay below.
"""

from dataclasses import dataclass, field

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.compile.context import CompileContext, CteScope
from evenflow.sql.compile.problems import ProblemList
from evenflow.sql.query_plan import AnalyticNode
from evenflow.sql.relation import EventTime, Field, Relation
from evenflow.sql.translate.aggregates import has_aggregate
from evenflow.sql.translate.column_names import output_column_name
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr
from evenflow.sql.translate.window_functions import translate_over
from evenflow.sql.types import check_column_names, column_sql, is_hashable

_ROWS = "_r"  # the alias of the rows below


def has_over(select: Ast) -> bool:
    """Tell whether a SELECT has functions with OVER."""
    return any(item.find(exp.Window) is not None for item in select.expressions)


@dataclass
class _Below:
    """The columns that the query below selects, by their text."""

    columns: dict[str, tuple[str, Ast]] = field(default_factory=dict)

    def rewrite(self, node: Ast, *, is_call: bool = False) -> Ast:
        """Replace what has no OVER by columns of the query below; `is_call` keeps the call."""
        if not is_call and node.find(exp.Window) is None:
            if node.find(exp.Column) is None and not has_aggregate(node):
                return node.copy()
            text = node.sql("spark")
            name, _ = self.columns.setdefault(text, (f"c{len(self.columns)}", node))
            return exp.column(name, _ROWS)
        copied = node.copy()
        inner = isinstance(node, exp.Window) or is_call
        for old, child in zip(
            node.iter_expressions(), list(copied.iter_expressions()), strict=True
        ):
            if isinstance(old, exp.WindowSpec):
                continue
            keeps = isinstance(old, exp.Order | exp.Ordered | exp.Where) or (
                inner and old is node.this and not isinstance(node, exp.Ordered | exp.Where)
            )
            child.replace(self.rewrite(old, is_call=keeps))
        return copied


def compile_analytics(context: CompileContext, select: Ast, ctes: CteScope) -> AnalyticNode:
    """Compile a SELECT that has functions with OVER."""
    context.refuse_template("functions with OVER")
    below = _Below()
    stars = [item for item in select.expressions if item.is_star and not has_aggregate(item)]
    if len(stars) > 1:
        raise refusal(stars[1], "is a second * beside OVER; name the columns")
    items = {id(item): below.rewrite(item) for item in select.expressions if item not in stars}
    query = select.copy()
    columns = [exp.alias_(node.copy(), name) for name, node in below.columns.values()]
    query.set("expressions", [*(star.copy() for star in stars), *columns])
    query.set("with_", None)
    feed = context.compile(query, ctes, drop_late=True)
    names = {name for name, _ in below.columns.values()}
    expressions: list[Ast] = []
    for item in select.expressions:
        if item in stars:
            fields = [f.name for f in feed.relation.fields if f.name not in names]
            expressions += [exp.column(exp.to_identifier(n, quoted=True), _ROWS) for n in fields]
        else:
            name = output_column_name(item)
            value = items[id(item)]
            expressions.append(
                exp.alias_(value.this if isinstance(value, exp.Alias) else value, name, quoted=True)
            )
    return _build_node(context, feed.relation, expressions, feed)


def _build_node(
    context: CompileContext, rows: Relation, expressions: list[Ast], feed: Ast
) -> AnalyticNode:
    ties = [column_sql(_ROWS, f.name) for f in rows.fields]

    def resolve(node: Ast) -> TypedExpr | None:
        return translate_over(translate, node, ties) if isinstance(node, exp.Window) else None

    translate = Translator({_ROWS: rows}, resolve, memo=context.new_memo())
    time, keys = _partition(translate, rows, expressions)
    problems, outputs = ProblemList(context.catalog.functions), []
    for item in expressions:
        value = problems.attempt(translate, item.this if isinstance(item, exp.Alias) else item)
        if value is not None:
            outputs.append((item.alias_or_name, value))
    problems.raise_found()
    check_column_names(name for name, _ in outputs)
    lags_us = _output_lags_us(time, rows)
    fields = tuple(
        Field(n, v.type, v.time if v.time and v.time.clock in lags_us else None) for n, v in outputs
    )
    sql = column_sql(_ROWS, time.name)
    start = f"struct_extract({sql}, 'start')" if time.time and time.time.width_us else sql
    return AnalyticNode(
        id=next(context.node_ids),
        feed=feed,
        time_sql=f"epoch_us({start})",
        lag_us=_lag_us(time, rows),
        keys=tuple(name for name in keys if name != time.name),
        select=tuple((name, value.sql) for name, value in outputs),
        relation=Relation(fields, lags_us),
        lineage={name: value.column[1] for name, value in outputs if value.column},
    )


def _partition(
    translate: Translator, rows: Relation, expressions: list[Ast]
) -> tuple[Field, list[str]]:
    """Return the event time and the columns that every OVER is partitioned by."""
    common: list[str] | None = None
    for node in (found for item in expressions for found in item.find_all(exp.Window)):
        values = [translate(part) for part in node.args.get("partition_by") or ()]
        names = [value.column[1] for value in values if value.column]
        common = names if common is None else [name for name in common if name in names]
    fields = [f for f in rows.fields if f.name in (common or ())]
    time = next((f for f in fields if f.time is not None), None)
    if time is None:
        raise InputError(
            "OVER needs all rows of its partition, which is never complete; add the time to all "
            "PARTITION BY, such as window(time, '10 seconds') or a window of a subquery"
        )
    return time, [f.name for f in fields if is_hashable(f.type)]


def _lag_us(column: Field, rows: Relation) -> int:
    time = column.time or EventTime("")
    return rows.lags_us[time.clock] - time.offset_us


def _output_lags_us(column: Field, rows: Relation) -> dict[str, int]:
    """Return the clocks of the result: the time of a partition, and the time it was floored from.

    Rows leave when the time of their partition has passed; others wait for it.
    """
    time = (column.time or EventTime("")).qualified(_ROWS)
    lags_us = {time.clock: _lag_us(column, rows) + time.offset_us}
    source = time.floored_from()
    if source is not None:
        lags_us[source.clock] = lags_us[time.clock] + source.offset_us
    return lags_us
