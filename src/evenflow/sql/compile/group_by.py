"""GROUP BY of a continuous query: one time, any columns, aggregates in SELECT and HAVING."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.compile.blocks import build_block
from evenflow.sql.compile.context import CompileContext
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.select_aliases import SelectAliases
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, UnionNode, WindowSpec
from evenflow.sql.relation import EventTime, Field, Relation
from evenflow.sql.translate.aggregates import read_aggregate
from evenflow.sql.translate.literals import interval_us, parse_span_us
from evenflow.sql.translate.refusals import quote_sql, refusal
from evenflow.sql.translate.translator import (
    SUBSCRIPTION_COLUMN,
    TranslationMemo,
    Translator,
    output_column_name,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

WINDOW_CLOCK = "w"
MAX_PANES = 10_000
MAX_WINDOWS_PER_ROW = 3_600  # for example 1 hour that slides by 1 second


class _WindowCall(NamedTuple):
    """The arguments of window(...): the SQL of the time, and three spans."""

    time_sql: str
    size_us: int
    slide_us: int
    start_us: int


@dataclass
class _GroupByBuilder:
    """The groups and aggregates of one GROUP BY, collected while its expressions are read.

    The time group is either a call of window(...) or an event-time expression, `group_time`.
    """

    translate: Translator
    keys: dict[str, TypedExpr] = field(default_factory=dict)  # by SQL
    pane_start_sql: str = ""
    row_time_sql: str = ""
    window_call: _WindowCall | None = None
    group_time: TypedExpr | None = None
    windows: WindowSpec | None = None
    updates: list[tuple[str, str]] = field(default_factory=list)
    merges: list[tuple[str, str]] = field(default_factory=list)
    partial_columns: list[tuple[str, pa.DataType]] = field(default_factory=list)
    having: str | None = None
    aggregated: dict[int, tuple[Ast, bool]] = field(default_factory=dict)  # node has an aggregate

    def resolve(self, node: Ast) -> TypedExpr | None:
        """Translate a group or an aggregate of SELECT or HAVING; return None for other nodes."""
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.Interval):
            return None
        value = None
        if isinstance(node, exp.AggFunc | exp.Filter | exp.Anonymous):
            value = self._resolve_aggregate(node)
        if value is None and not self._has_aggregate(node):
            value = self._resolve_group(node)
        if value is None and isinstance(node, exp.Column):
            value = self._resolve_struct_field(node)
            if value is None:
                raise refusal(
                    node,
                    "is neither grouped nor aggregated; "
                    "add it to GROUP BY or put it into an aggregate such as max(...)",
                )
        return value

    def _has_aggregate(self, node: Ast) -> bool:
        known = self.aggregated.get(id(node))
        if known is None:
            found = isinstance(node, exp.AggFunc) or any(
                self._has_aggregate(child) for child in node.iter_expressions()
            )
            known = self.aggregated[id(node)] = node, found  # holds the node: the id stays valid
        return known[1]

    def _resolve_group(self, node: Ast) -> TypedExpr | None:
        if self.window_call is not None and self._is_grouped_window(node):
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
        if self.group_time is not None and inner.sql == self.group_time.sql:
            return self.output_time()
        return self.key_column(inner) if inner.sql in self.keys else None

    def key_column(self, key: TypedExpr) -> TypedExpr:
        """Return the stored column of a group, adding the group if it is new."""
        self.keys.setdefault(key.sql, key)
        name = f"g{list(self.keys).index(key.sql)}"
        return TypedExpr(types.quote_identifier(name), key.type, column=("", name))

    def _resolve_struct_field(self, node: Ast) -> TypedExpr | None:
        """Translate a field of a struct that is a group."""
        *before, last = node.parts
        if not before:
            return None
        struct = exp.Column(**dict(zip(("this", "table", "db"), reversed(before), strict=False)))
        try:
            value = self._resolve_group(struct)
        except InputError:
            return None
        return self.translate.struct_field(value, last.name) if value is not None else None

    def _is_grouped_window(self, node: Ast) -> bool:
        if _is_window_call(node):
            return _read_window_call(self.translate, node)[1] == self.window_call
        return isinstance(node, exp.Column) and node.parts[0].name.lower() == "window"

    def output_time(self) -> TypedExpr:
        """Compute the time of a group from the start of its window, `_ws`."""
        assert self.windows is not None  # noqa: S101 - set before expressions are read
        start, width_us = 'make_timestamp("_ws")', self.windows.size_us
        if self.group_time is not None:
            if self.group_time.type != types.WINDOW:
                return TypedExpr(start, self.group_time.type, time=EventTime(WINDOW_CLOCK))
            if self.group_time.time is not None:
                width_us = self.group_time.time.width_us or 0
        sql = f"{{'start': {start}, 'end': make_timestamp(\"_ws\" + {width_us})}}"
        return TypedExpr(sql, types.WINDOW, time=EventTime(WINDOW_CLOCK, 0, width_us))

    def _resolve_aggregate(self, node: Ast) -> TypedExpr | None:
        aggregate = read_aggregate(self.translate, node)
        if aggregate is None:
            return None
        names = []
        known = {sql: name for name, sql in self.updates}
        for partial in aggregate.partials:
            if partial.update not in known:
                name = known[partial.update] = f"p{len(self.updates)}"
                self.updates.append((name, partial.update))
                self.merges.append((name, partial.merge.format(types.quote_identifier(name))))
                self.partial_columns.append((name, partial.type))
            names.append(types.quote_identifier(known[partial.update]))
        return TypedExpr(aggregate.final.format(*names), aggregate.type)

    def add_group(self, node: Ast, lags_us: Mapping[str, int]) -> None:
        """Add one item of GROUP BY."""
        if _is_window_call(node):
            if self.windows is not None:
                raise refusal(node, "is a second window; move it to a subquery")
            value, call = _read_window_call(self.translate, node)
            pane_us = gcd(call.size_us, call.slide_us)
            self.window_call, self.row_time_sql = call, call.time_sql
            self.windows = WindowSpec(*call[1:], pane_us, _time_lag_us(node, value, lags_us))
            time = f"epoch_us({call.time_sql})"
            # The remainder is negative before the start; a second modulo makes it positive.
            rest = f"((({time} - {call.start_us}) % {pane_us}) + {pane_us}) % {pane_us}"
            self.pane_start_sql = f"({time} - {rest})"
            return
        value = self.translate(node)
        if value.time is not None and self.windows is None:
            self.windows = WindowSpec(1, 1, 0, 1, _time_lag_us(node, value, lags_us))
            self.group_time, self.row_time_sql = value, value.sql
            if value.time.width_us:
                self.row_time_sql = f"struct_extract({value.sql}, 'start')"
            self.pane_start_sql = f"epoch_us({self.row_time_sql})"
        elif value.literal is None or value.columns:
            if pa.types.is_struct(value.type) and any(map(_is_nested, value.type)):
                raise refusal(
                    node, "groups by a STRUCT that has a nested field; group by its fields"
                )
            self.keys.setdefault(value.sql, value)


def compile_group_by(
    context: CompileContext,
    select: Ast,
    expressions: list[Ast],
    source: FromClause,
    where: list[TypedExpr],
) -> PlanNode:
    """Compile SELECT ... GROUP BY into partial rows per pane and results per window."""
    translate, lags_us = source.translator, source.output_lags_us()
    builder = _GroupByBuilder(translate)
    group = select.args.get("group")
    aliases = SelectAliases(context, expressions, translate)
    for node in group.expressions if group is not None else ():
        builder.add_group(aliases.group_item(node), lags_us)
    if builder.windows is None:
        raise InputError(
            "the aggregate has no window, so it would never be complete; "
            "add window(time, '10 seconds') to GROUP BY"
        )
    above = Translator({}, builder.resolve, memo=TranslationMemo(context.text_budget))
    outputs = []
    if source.joins_subscriptions:
        outputs.append(("subscription", builder.key_column(SUBSCRIPTION_COLUMN)))
    for node in expressions:
        name = output_column_name(node)
        outputs.append((name, above(node.this if isinstance(node, exp.Alias) else node)))
    having = select.args.get("having")
    if having is not None:
        builder.having = above.boolean(aliases.replace_in(having.this)).sql
    return _build_node(context, source, where, builder, builder.windows, outputs)


def _build_node(
    context: CompileContext,
    source: FromClause,
    where: list[TypedExpr],
    builder: _GroupByBuilder,
    windows: WindowSpec,
    outputs: list[tuple[str, TypedExpr]],
) -> PlanNode:
    keys = {f"g{index}": value for index, value in enumerate(builder.keys.values())}
    partials = [("_t", builder.pane_start_sql)]
    partials += [(key, types.group_key_sql(value.sql, value.type)) for key, value in keys.items()]
    partials += [*builder.updates, ("_n", "CAST(count(*) AS BIGINT)")]
    partial_schema = pa.schema(
        [("_t", types.LONG)]
        + [(key, types.physical_type(value.type)) for key, value in keys.items()]
        + [*builder.partial_columns, ("_n", types.LONG)]
    )
    has_time = TypedExpr(f"({builder.row_time_sql} IS NOT NULL)", types.BOOLEAN)
    feed = build_block(
        context,
        source,
        [*where, has_time],
        tuple(partials),
        Relation(()),
        {key: value.column for key, value in keys.items() if value.column},
        preaggregates=True,
    )
    feeds = feed.parts if isinstance(feed, UnionNode) else (feed,)
    types.check_column_names(name for name, _ in outputs)
    return AggregateNode(
        id=next(context.node_ids),
        feeds=tuple(f for f in feeds if isinstance(f, SelectNode)),
        windows=windows,
        keys=tuple(keys),
        merges=(*builder.merges, ("_n", 'CAST(sum("_n") AS BIGINT)')),
        partial_schema=partial_schema,
        select=tuple((name, value.sql) for name, value in outputs),
        having=builder.having,
        relation=Relation(
            tuple(Field(name, value.type, value.time) for name, value in outputs),
            {WINDOW_CLOCK: windows.lag_us + windows.size_us - 1},
        ),
        lineage={name: value.column[1] for name, value in outputs if value.column},
    )


def _time_lag_us(node: Ast, value: TypedExpr, lags_us: Mapping[str, int]) -> int:
    """Return how far behind the watermark a time can still arrive."""
    if value.time is None or value.time.clock not in lags_us:
        raise refusal(node, "is not over an event-time column, so it never completes")
    return lags_us[value.time.clock] - value.time.offset_us


def _is_nested(field: pa.Field) -> bool:
    return bool(pa.types.is_nested(field.type))


def _is_window_call(node: Ast) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "window"


def _read_window_call(translate: Translator, node: Ast) -> tuple[TypedExpr, _WindowCall]:
    """Read the time and the arguments of window(time, size[, slide[, start]])."""
    if not 2 <= len(node.expressions) <= 4:
        raise refusal(node, "is not a window; write window(time, '10 seconds'[, '5 seconds'])")
    value = translate(node.expressions[0])
    sql, time = value.sql, value.time
    if time is not None and time.width_us is not None:  # a window of a subquery: use its last time
        end = translate.struct_field(value, "end")
        sql, time = f"({end.sql} - to_microseconds(1))", time.window_field("end")
        value = replace(value, time=time.shifted(-1) if time else None)
    if value.type == types.TIMESTAMP_NTZ:
        raise refusal(node, "is over TIMESTAMP_NTZ; cast the column to TIMESTAMP before the stream")
    if time is None:
        raise refusal(
            node,
            f"needs the event-time column; {quote_sql(node.expressions[0])} is another column, "
            "or computed from it",
        )
    spans_us = [_read_span_us(e) for e in node.expressions[1:]]
    size_us, slide_us, start_us = (*spans_us, *(spans_us[0], 0)[len(spans_us) - 1 :])
    if size_us <= 0 or slide_us <= 0 or slide_us > size_us:
        raise refusal(node, "needs a size and slide above zero, and a slide of at most the size")
    if -(-size_us // slide_us) > MAX_WINDOWS_PER_ROW:
        raise refusal(
            node,
            f"puts a row into {-(-size_us // slide_us):,} windows, at most "
            f"{MAX_WINDOWS_PER_ROW:,} are possible; use a longer slide",
        )
    if size_us // gcd(size_us, slide_us) > MAX_PANES:
        raise refusal(node, f"has more than {MAX_PANES:,} panes; use a longer slide")
    return value, _WindowCall(sql, size_us, slide_us, start_us % slide_us)


def _read_span_us(node: Ast) -> int:
    if isinstance(node, exp.Literal) and node.is_string:
        return parse_span_us(str(node.this))
    return interval_us(node)
