"""GROUP BY of a continuous query: one time, any columns, aggregates in SELECT and HAVING."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.compile.windows import is_window_call, read_window_call, time_lag_us
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, UnionNode, WindowSpec
from evenflow.sql.translate.aggregates import read_aggregate
from evenflow.sql.translate.translator import (
    SUBSCRIPTION_COLUMN,
    Translator,
    output_column_name,
    quote_sql,
)
from evenflow.sql.translate.typed_expr import Ast, EventTime, Field, Relation, TypedExpr

if TYPE_CHECKING:
    from evenflow.sql.compile.from_clause import FromClause
    from evenflow.sql.compile.select import Compiler

WINDOW_CLOCK = "w"


@dataclass
class _GroupByBuilder:
    """What is collected while the expressions are read."""

    translate: Translator
    keys: dict[str, TypedExpr] = field(default_factory=dict)  # DuckDB text -> expression
    pane_start_sql: str = ""  # of the pane
    row_time_sql: str = ""  # of the row
    group_time: TypedExpr | None = None
    windows: WindowSpec | None = None
    is_window_call: bool = False
    updates: list[tuple[str, str]] = field(default_factory=list)
    merges: list[tuple[str, str]] = field(default_factory=list)
    partial_columns: list[tuple[str, pa.DataType]] = field(default_factory=list)
    having: str | None = None

    def resolve(self, node: Ast) -> TypedExpr | None:
        """Answer for a node above the grouping: a group, an aggregate, or nothing."""
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.Interval | exp.Placeholder):
            return self._resolve_group(node) if isinstance(node, exp.Placeholder) else None
        if isinstance(node, exp.AggFunc | exp.Filter | exp.Anonymous):
            made = self._resolve_aggregate(node)
            if made is not None:
                return made
        if node.find(exp.AggFunc):
            return None
        if (grouped := self._resolve_group(node)) is not None:
            return grouped
        if isinstance(node, exp.Column):
            if (part := self._resolve_struct_field(node)) is not None:
                return part
            raise InputError(
                f"{quote_sql(node)} is neither grouped nor aggregated; "
                "add it to GROUP BY or put it into an aggregate such as max(...)"
            )
        return None

    def _resolve_group(self, node: Ast) -> TypedExpr | None:
        if self.is_window_call and self._is_grouped_window(node):
            value = self.output_time()
            for part in node.parts[1:] if isinstance(node, exp.Column) else ():
                value = self.translate.struct_field(value, part.name)
            return value
        try:
            inner = self.translate(node)
        except InputError:
            if isinstance(node, exp.Column):
                raise
            return None
        if (
            self.group_time is not None
            and not self.is_window_call
            and inner.sql == self.group_time.sql
        ):
            return self.output_time()
        if inner.sql in self.keys:
            at = list(self.keys).index(inner.sql)
            return TypedExpr(types.quote_identifier(f"g{at}"), inner.type, column=("", f"g{at}"))
        return None

    def _resolve_struct_field(self, node: Ast) -> TypedExpr | None:
        """Answer for a field of a struct that is grouped by."""
        *before, last = node.parts
        if not before:
            return None
        whole = exp.Column(**dict(zip(("this", "table", "db"), reversed(before), strict=False)))
        try:
            value = self._resolve_group(whole)
        except InputError:
            return None
        return self.translate.struct_field(value, last.name) if value is not None else None

    def _is_grouped_window(self, node: Ast) -> bool:
        if is_window_call(node):
            return read_window_call(self.translate, node)[1:] == self._window_arguments
        return isinstance(node, exp.Column) and node.parts[0].name.lower() == "window"

    _window_arguments: tuple[str, int, int, int] = ("", 0, 0, 0)

    def output_time(self) -> TypedExpr:
        """Rebuild the time of a group from the start of its window."""
        assert self.windows is not None  # noqa: S101 - set before expressions are read
        start = 'make_timestamp("_ws")'
        if self.group_time is not None and self.group_time.type != types.WINDOW:
            return TypedExpr(start, self.group_time.type, time=EventTime(WINDOW_CLOCK))
        width = self.windows.size_us
        if self.group_time is not None and self.group_time.time is not None:
            width = self.group_time.time.width_us or 0
        end = f'make_timestamp("_ws" + {width})'
        sql = f"{{'start': {start}, 'end': {end}}}"
        return TypedExpr(sql, types.WINDOW, time=EventTime(WINDOW_CLOCK, 0, width))

    def _resolve_aggregate(self, node: Ast) -> TypedExpr | None:
        made = read_aggregate(self.translate, node)
        if made is None:
            return None
        names = []
        for partial in made.partials:
            if partial.update not in dict(self.updates).values():
                name = f"p{len(self.updates)}"
                self.updates.append((name, partial.update))
                self.merges.append((name, partial.merge.format(types.quote_identifier(name))))
                self.partial_columns.append((name, partial.type))
            names.append(next(n for n, sql in self.updates if sql == partial.update))
        sql = made.final.format(*(types.quote_identifier(n) for n in names))
        return TypedExpr(sql, made.type)


def compile_group_by(
    compiler: "Compiler",
    select: Ast,
    expressions: list[Ast],
    source: "FromClause",
    where: list[TypedExpr],
) -> PlanNode:
    """Compile SELECT ... GROUP BY into partial rows per pane and an answer per window."""
    translate = source.translator
    lags = source.output_lags_us()
    made = _GroupByBuilder(translate)
    clause = select.args.get("group")
    for node in clause.expressions if clause is not None else ():
        _add_group_item(made, _resolve_group_item(node, expressions, translate), lags)
    if made.windows is None:
        raise InputError(
            "the aggregate has no window, so it would never be complete; "
            "add window(time, '10 seconds') to GROUP BY"
        )
    above = Translator({}, made.resolve)
    outputs = []
    if source.joins_subscriptions:
        made.keys.setdefault(SUBSCRIPTION_COLUMN.sql, SUBSCRIPTION_COLUMN)
        at = list(made.keys).index(SUBSCRIPTION_COLUMN.sql)
        outputs.append(
            (
                "subscription",
                TypedExpr(types.quote_identifier(f"g{at}"), types.STRING, column=("", f"g{at}")),
            )
        )
    for node in expressions:
        name = output_column_name(node)
        outputs.append((name, above(node.this if isinstance(node, exp.Alias) else node)))
    having = select.args.get("having")
    condition = (
        above.boolean(_replace_select_aliases(having.this, expressions, translate))
        if having
        else None
    )
    made.having = condition.sql if condition is not None else None
    return _build_node(compiler, source, where, made, outputs)


def _build_node(
    compiler: "Compiler",
    source: "FromClause",
    where: list[TypedExpr],
    made: _GroupByBuilder,
    outputs: list[tuple[str, TypedExpr]],
) -> PlanNode:
    windows = made.windows
    assert windows is not None  # noqa: S101 - checked by the caller
    keys = tuple(f"g{at}" for at in range(len(made.keys)))
    inner = [("_t", made.pane_start_sql)]
    inner += [(key, value.sql) for key, value in zip(keys, made.keys.values(), strict=True)]
    inner += [*made.updates, ("_n", "CAST(count(*) AS BIGINT)")]
    stored = pa.schema(
        [("_t", types.LONG)]
        + [
            (key, types.physical_type(value.type))
            for key, value in zip(keys, made.keys.values(), strict=True)
        ]
        + made.partial_columns
        + [("_n", types.LONG)]
    )
    lineage = {k: v.column for k, v in zip(keys, made.keys.values(), strict=True) if v.column}
    present = TypedExpr(f"({made.row_time_sql} IS NOT NULL)", types.BOOLEAN)
    feed = compiler.build_block(
        source, [*where, present], tuple(inner), Relation(()), lineage, grouped=True
    )
    feeds = feed.parts if isinstance(feed, UnionNode) else (feed,)
    types.check_column_names(name for name, _ in outputs)
    relation = Relation(
        tuple(Field(name, value.type, value.time) for name, value in outputs),
        {WINDOW_CLOCK: windows.lag_us + windows.size_us - 1},
    )
    return AggregateNode(
        next(compiler.node_ids),
        tuple(f for f in feeds if isinstance(f, SelectNode)),
        windows,
        keys,
        (*made.merges, ("_n", 'CAST(sum("_n") AS BIGINT)')),
        stored,
        tuple((name, value.sql) for name, value in outputs),
        made.having,
        relation,
        {name: value.column[1] for name, value in outputs if value.column},
    )


def _resolve_group_item(node: Ast, expressions: list[Ast], translate: Translator) -> Ast:
    """Follow GROUP BY 1 and GROUP BY alias to the expression of SELECT."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(str(node.this)) - 1
        if not 0 <= at < len(expressions):
            raise InputError(f"GROUP BY {node.this}: SELECT has {len(expressions)} columns")
        node = expressions[at]
        return node.this if isinstance(node, exp.Alias) else node
    return _replace_select_aliases(node, expressions, translate)


def _replace_select_aliases(node: Ast, expressions: list[Ast], translate: Translator) -> Ast:
    """Replace names that only SELECT gives."""
    given = {
        e.alias.lower(): e.this
        for e in expressions
        if isinstance(e, exp.Alias)
        and not any(relation.find(e.alias) for relation in translate.inputs.values())
    }

    def replaced(at: Ast) -> Ast:
        if isinstance(at, exp.Column) and not at.table and at.name.lower() in given:
            return exp.Paren(this=given[at.name.lower()].copy())
        return at

    result = node.copy().transform(replaced)
    return result.this if isinstance(result, exp.Paren) else result


def _add_group_item(made: _GroupByBuilder, node: Ast, lags: Mapping[str, int]) -> None:
    """Take one item of GROUP BY."""
    if is_window_call(node):
        if made.windows is not None:
            raise InputError(
                f"{quote_sql(node)}: a query has one window; move the other to a subquery"
            )
        value, sql, size, slide, start = read_window_call(made.translate, node)
        made._window_arguments = (sql, size, slide, start)
        made.is_window_call = True
        lag = time_lag_us(node, value, lags)
        pane = gcd(size, slide)
        made.windows = WindowSpec(size, slide, start, pane, lag)
        made.row_time_sql, us = sql, f"epoch_us({sql})"
        # A time before `start` has a negative remainder, which a second modulo repairs.
        made.pane_start_sql = f"({us} - ((({us} - {start}) % {pane}) + {pane}) % {pane})"
        return
    value = made.translate(node)
    if value.time is not None and made.windows is None:
        lag = time_lag_us(node, value, lags)
        made.group_time = value
        made.windows = WindowSpec(1, 1, 0, 1, lag)
        made.row_time_sql = value.sql
        if value.time.width_us:
            made.row_time_sql = f"struct_extract({value.sql}, 'start')"
        made.pane_start_sql = f"epoch_us({made.row_time_sql})"
        return
    if value.literal is None or value.columns:
        made.keys.setdefault(value.sql, value)
