"""GROUP BY of a continuous query: one time, any columns, aggregates in SELECT and HAVING."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.compile.blocks import build_block
from evenflow.sql.compile.context import CompileContext
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.hints import Hints, read_hints
from evenflow.sql.compile.problems import ProblemList
from evenflow.sql.compile.select_aliases import SelectAliases
from evenflow.sql.compile.window_calls import (
    SESSION,
    WindowCall,
    is_window_call,
    read_window_call,
)
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, UnionNode, WindowSpec
from evenflow.sql.relation import EventTime, Field, Relation
from evenflow.sql.translate.aggregates import PartialColumn, is_aggregate, read_aggregate
from evenflow.sql.translate.column_names import output_column_name
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import (
    SUBSCRIPTION_COLUMN,
    Translator,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

WINDOW_CLOCK = "w"
_CALLS = (exp.Anonymous, exp.Any, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class _GroupByBuilder:
    """The groups and aggregates of one GROUP BY, collected while its expressions are read.

    The time group is either a call of window(...) or an event-time expression, `group_time`.
    """

    translate: Translator
    keys: dict[str, TypedExpr] = field(default_factory=dict)  # by SQL
    pane_start_sql: str = ""
    row_time_sql: str = ""
    window_call: WindowCall | None = None
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
        if isinstance(node, _CALLS):
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
            children = () if isinstance(node, exp.Select) else node.iter_expressions()
            found = is_aggregate(node) or any(map(self._has_aggregate, children))
            known = self.aggregated[id(node)] = node, found  # holds the node: the id stays valid
        return known[1]

    def _resolve_group(self, node: Ast) -> TypedExpr | None:
        if self.window_call is not None and self._is_grouped_window(node):
            value = self.output_time()
            for part in node.parts[1:] if isinstance(node, exp.Column) else ():
                value = self.translate.struct_field(value, part.name)
                if self.window_call.is_session and part.name.lower() == "end":
                    value = replace(value, time=EventTime(WINDOW_CLOCK))
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
        if is_window_call(node):
            return read_window_call(self.translate, node)[1] == self.window_call
        name = SESSION if self.window_call and self.window_call.is_session else "window"
        return isinstance(node, exp.Column) and node.parts[0].name.lower() == name

    def output_time(self) -> TypedExpr:
        """Compute the time of a group from the start of its window, `_ws`."""
        assert self.windows is not None  # noqa: S101 - set before expressions are read
        start, width_us = 'make_timestamp("_ws")', self.windows.size_us
        if self.windows.is_session:  # its start can lie arbitrarily far back
            sql = f"{{'start': {start}, 'end': make_timestamp(\"_we\" - 1)}}"
            return TypedExpr(sql, types.WINDOW)
        if self.group_time is not None:
            if self.group_time.type != types.WINDOW:
                if self.group_time.type == types.DATE:
                    start = f"CAST({start} AS DATE)"
                return TypedExpr(start, self.group_time.type, time=EventTime(WINDOW_CLOCK))
            if self.group_time.time is not None:
                width_us = self.group_time.time.width_us or 0
        sql = f"{{'start': {start}, 'end': make_timestamp(\"_ws\" + {width_us})}}"
        return TypedExpr(sql, types.WINDOW, time=EventTime(WINDOW_CLOCK, 0, width_us))

    def _resolve_aggregate(self, node: Ast) -> TypedExpr | None:
        aggregate = read_aggregate(self.translate, node, f"epoch_us({self.row_time_sql})")
        if aggregate is None:
            return None
        names = []
        known = {sql: name for name, sql in self.updates}
        for partial in aggregate.partials:
            if partial.update not in known:
                name = known[partial.update] = f"p{len(self.updates)}"
                self._add_partial(name, partial)
            names.append(types.quote_identifier(known[partial.update]))
        return TypedExpr(aggregate.final.format(*names), aggregate.type)

    def _add_partial(self, name: str, partial: PartialColumn) -> None:
        self.updates.append((name, partial.update))
        self.merges.append((name, partial.merge.format(types.quote_identifier(name))))
        self.partial_columns.append((name, partial.type))

    def add_group(self, node: Ast, lags_us: Mapping[str, int]) -> None:
        """Add one item of GROUP BY."""
        if is_window_call(node):
            if self.windows is not None:
                raise refusal(node, "is a second window; move it to a subquery")
            value, call = read_window_call(self.translate, node)
            pane_us = gcd(call.size_us, call.slide_us)
            self.window_call, self.row_time_sql = call, call.time_sql
            lag_us = _time_lag_us(node, value, lags_us)
            self.windows = WindowSpec(*call[1:4], pane_us, lag_us, call.is_session)
            self.pane_start_sql = call.span_start_sql(pane_us)
            if call.is_session:
                end = f"max({self.pane_start_sql} + {call.size_us})"
                self._add_partial("_e", PartialColumn(end, "max({})", types.LONG))
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

    def add_ttl(self, hints: Hints, source: FromClause, lags_us: Mapping[str, int]) -> WindowSpec:
        """Let groups without a window last until they have no row for the ttl."""
        columns = [
            exp.column(
                exp.to_identifier(f.name, quoted=True), exp.to_identifier(alias, quoted=True)
            )
            for alias, relation in source.relations.items()
            for f in relation.fields
            if f.time is not None and f.time.qualified(alias).lag_us(lags_us) is not None
        ]
        if not hints.updates:
            time = columns[0].name if columns else "time"
            raise InputError(
                "the aggregate has no window, so it would never be complete; add "
                f"window({time}, '10 seconds') to GROUP BY, or ask for updates: "
                "SELECT /*+ UPDATE_MODE, TTL('1 hour') */ ..."
            )
        if hints.ttl_us is None:
            raise InputError(
                "groups without a window would be remembered forever; add for how long without "
                "a row: /*+ UPDATE_MODE, TTL('1 hour') */"
            )
        if not columns:
            raise InputError("UPDATE_MODE needs an event time in FROM; select it in the subquery")
        value, ttl_us = self.translate(columns[0]), hints.ttl_us
        self.row_time_sql = value.sql
        if value.time is not None and value.time.width_us:
            self.row_time_sql = f"struct_extract({value.sql}, 'start')"
        time = f"epoch_us({self.row_time_sql})"
        # Rows of one span of the ttl are never further apart, so they can be summed up.
        span = WindowCall(self.row_time_sql, ttl_us, ttl_us, 0).span_start_sql(ttl_us)
        self.pane_start_sql = f"max({time})"
        for name, sql, merge in (("_b", f"min({time})", "min({})"), ("_p", span, "max({})")):
            self._add_partial(name, PartialColumn(sql, merge, types.LONG))
        lag_us = _time_lag_us(columns[0], value, lags_us)
        return WindowSpec(ttl_us, ttl_us, 0, 1, lag_us, ttl_us=ttl_us)


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
    hints = read_hints(select)
    if builder.windows is None:
        builder.windows = builder.add_ttl(hints, source, lags_us)
    elif hints.ttl_us is not None:
        raise InputError("TTL is for groups without a window; leave it out")
    above = Translator({}, builder.resolve, memo=context.new_memo())
    outputs = []
    if source.joins_subscriptions:
        outputs.append(("subscription", builder.key_column(SUBSCRIPTION_COLUMN)))
    problems = ProblemList(context.catalog.functions)
    for node in expressions:
        value = problems.attempt(above, node.this if isinstance(node, exp.Alias) else node)
        if value is not None:
            outputs.append((output_column_name(node), value))
    having = select.args.get("having")
    if having is not None:
        kept = problems.attempt(above.boolean, aliases.replace_in(having.this))
        builder.having = kept.sql if kept is not None else None
    problems.raise_found()
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
            {WINDOW_CLOCK: windows.lag_us + (0 if windows.is_session else windows.size_us - 1)},
        ),
        lineage={name: value.column[1] for name, value in outputs if value.column},
    )


def _time_lag_us(node: Ast, value: TypedExpr, lags_us: Mapping[str, int]) -> int:
    """Return how far behind the watermark a time can still arrive."""
    lag_us = value.time.lag_us(lags_us) if value.time is not None else None
    if value.time is None or lag_us is None:
        raise refusal(node, "is not over an event-time column, so it never completes")
    return lag_us - value.time.offset_us


def _is_nested(field: pa.Field) -> bool:
    return bool(pa.types.is_nested(field.type))
