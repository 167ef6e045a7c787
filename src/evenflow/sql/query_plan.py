"""The plan of a compiled query: a tree of frozen nodes. `compile` writes it, `tasks` run it.

A `SelectNode` filters, projects and joins; an `AggregateNode` aggregates the rows of select nodes
by windows; an `AnalyticNode` computes functions with OVER; a `UnionNode` concatenates. Rows flow up
from streams. SQL in nodes is DuckDB's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from evenflow.sql.relation import ColumnRef, Relation
from evenflow.sql.user_functions import UserCall

ROW_ALIAS = "_r"  # the alias of the new row in the SQL of a `JoinBuffer`
SUBSCRIPTIONS_ALIAS = "_subscriptions"  # the alias of a template's table of parameters
VERSION, IS_FINAL = "_version", "_final"  # columns that a task adds to results in update mode
SUBSCRIPTIONS_STORE = (-1, "")  # its key in `QueryPlan.store_keys`

StoreId = tuple[int, str]  # id of the node, alias of the join input ("" for an aggregate)
SqlColumns = tuple[tuple[str, str], ...]  # (name, SQL) of each selected column


def marked_table(name: str) -> str:
    """Write a reference table inside an expression; a task writes its engine's name instead."""
    return f'"\x02{name}"'  # no query can contain a control character


class ParameterBound(NamedTuple):
    """`value_sql comparison :parameter`, implied by the WHERE of a template.

    `price > :limit` holds for no subscription unless `price` is above the smallest limit.
    """

    value_sql: str
    comparison: str
    parameter: str
    duckdb_type: str

    @property
    def extreme_function(self) -> str:
        """The aggregate over the subscriptions to compare with."""
        return "max" if self.comparison.startswith("<") else "min"


@dataclass(frozen=True, slots=True)
class JoinBuffer:
    """The rows of one join input that can still match.

    `select` are the buffered columns, with `_t`, the row's time in microseconds. `where` are the
    conditions on this input alone. A row is dropped once `_t < watermark - retention_us`. In an
    outer join it is settled once `_t < watermark - settle_us`: nothing that matches it can come.
    """

    select: SqlColumns
    where: tuple[str, ...]
    retention_us: int
    settle_us: int | None = None


@dataclass(frozen=True, slots=True)
class JoinProbe:
    """Find the rows of input `target` that can match rows of input `source`.

    Columns are equal pairwise; `target._t - source._t` lies in [low_us, high_us].
    """

    source: str
    target: str
    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    low_us: int
    high_us: int


@dataclass(frozen=True, slots=True)
class NodeInput:
    """Rows of a stream (by name) or of a node, under an alias.

    With `drops_late_rows`, rows of a stream below the watermark are dropped. An aggregate directly
    over the stream keeps them, as a window can still be open for them. `late_us` lets only rows
    through that are late for windows of this size (0: below the watermark).
    """

    alias: str
    feed: "str | PlanNode"
    drops_late_rows: bool = False
    buffer: JoinBuffer | None = None
    late_us: int | None = None


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """What a join of two inputs returns of a settled row.

    kind    ANTI: the row if nothing matched it; SEMI: if something did; OUTER: like ANTI, with NULL
            for the other input, beside all pairs
    on      the conditions of a match
    where   conditions on the result
    schemas of the inputs' buffered columns
    """

    kind: str
    on: tuple[str, ...]
    where: tuple[str, ...]
    schemas: Mapping[str, pa.Schema]


@dataclass(frozen=True, slots=True)
class TableReference:
    """A reference table in FROM; with `on`, it is LEFT, SEMI or ANTI JOINed, as `kind` says."""

    alias: str
    table: str
    on: str | None = None
    kind: str = "LEFT"


class LateralView(NamedTuple):
    """Rows made from each row before it in FROM by the SELECT `sql`; if outer, at least one."""

    alias: str
    sql: str
    is_outer: bool


@dataclass(frozen=True, slots=True)
class SelectNode:
    """SELECT ... FROM inputs, references WHERE ...; `probes[i]` start from new rows of input i.

    `lineage` maps result columns to the input columns they copy. `parameter_bounds` are set where
    rows are joined with the subscriptions of a template. `subquery_tables` are reference tables
    that expressions read.
    """

    id: int
    inputs: tuple[NodeInput, ...]
    references: tuple[TableReference, ...]
    where: tuple[str, ...]
    select: SqlColumns
    preaggregates: bool
    relation: Relation
    lineage: Mapping[str, ColumnRef] = field(default_factory=dict)
    equal_columns: tuple[tuple[ColumnRef, ColumnRef], ...] = ()
    probes: tuple[tuple[JoinProbe, ...], ...] = ()
    parameter_bounds: tuple[ParameterBound, ...] = ()
    outer: OuterJoin | None = None
    laterals: tuple[LateralView, ...] = ()
    subquery_tables: tuple[str, ...] = ()

    @property
    def needs_tables(self) -> bool:
        """Whether it reads reference tables or the subscriptions of a template."""
        return bool(self.references or self.subquery_tables)

    @property
    def joins_subscriptions(self) -> bool:
        """Whether rows are joined with the subscriptions of a template here."""
        return any(r.table == SUBSCRIPTIONS_ALIAS for r in self.references)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows of `size_us` that start every `slide_us` from `start_us`; panes divide them evenly.

    Grouping by a plain time is a window of size 1. Times still to come are at least
    `watermark - lag_us`. A session lasts until `size_us` after its last row; its rows are their own
    panes. With `ttl_us` there are no windows: a group lasts until it has no row for that long.
    """

    size_us: int
    slide_us: int
    start_us: int
    pane_us: int
    lag_us: int
    is_session: bool = False
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """GROUP BY window, columns: `feeds` compute partial rows per pane, `select` a window's result.

    `partial_schema` has `_t` (start of the pane), the `keys`, the partial columns, and `_n` (rows).
    With `updates`, each step also returns the groups that changed in it.
    """

    id: int
    feeds: tuple[SelectNode, ...]
    windows: WindowSpec
    keys: tuple[str, ...]
    merges: SqlColumns
    partial_schema: pa.Schema
    select: SqlColumns
    having: str | None
    relation: Relation
    lineage: Mapping[str, str] = field(default_factory=dict)
    updates: bool = False


@dataclass(frozen=True, slots=True)
class AnalyticNode:
    """Functions with OVER, computed over all rows of a time at once, when the time has passed.

    `time_sql` is the time of a row of `feed` in microseconds; times still to come are at least
    `watermark - lag_us`. `keys` are the columns of `feed` that every OVER is partitioned by.
    """

    id: int
    feed: "PlanNode"
    time_sql: str
    lag_us: int
    keys: tuple[str, ...]
    select: SqlColumns
    relation: Relation
    lineage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnionNode:
    """UNION ALL."""

    id: int
    parts: "tuple[PlanNode, ...]"
    relation: Relation


PlanNode = SelectNode | AggregateNode | AnalyticNode | UnionNode


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """All a task needs to run a query.

    `store_keys` are the columns by which each store is split over workers, empty if it is not.
    `parameters` is the schema of a template's subscriptions, `functions` are calls of the user's.
    `order` sorts the rows of each step: items of ORDER BY over the columns of the result. In update
    mode `upsert_key` are the columns that identify a result.
    """

    root: PlanNode
    time_columns: Mapping[str, str]
    store_keys: Mapping[StoreId, tuple[str, ...]]
    parameters: pa.Schema | None = None
    functions: tuple[UserCall, ...] = ()
    order: tuple[str, ...] = ()
    upsert_key: tuple[str, ...] | None = None


def nodes_bottom_up(root: PlanNode) -> list[PlanNode]:
    """List the nodes of a tree, children first, each once."""
    seen: dict[int, PlanNode] = {}

    def visit(node: str | PlanNode) -> None:
        if isinstance(node, str) or node.id in seen:
            return
        if isinstance(node, UnionNode):
            children: tuple[str | PlanNode, ...] = node.parts
        elif isinstance(node, AggregateNode):
            children = node.feeds
        elif isinstance(node, AnalyticNode):
            children = (node.feed,)
        else:
            children = tuple(i.feed for i in node.inputs)
        for child in children:
            visit(child)
        seen[node.id] = node

    visit(root)
    return list(seen.values())


def source_stream(node: str | PlanNode) -> str | None:
    """Return the stream whose rows reach this node without state in between, if there is one."""
    while not isinstance(node, str):
        if not isinstance(node, SelectNode) or len(node.inputs) != 1:
            return None
        node = node.inputs[0].feed
    return node


def source_streams(root: PlanNode) -> tuple[str, ...]:
    """List the streams a tree reads, each once."""
    nodes = (n for n in nodes_bottom_up(root) if isinstance(n, SelectNode))
    feeds = (i.feed for n in nodes for i in n.inputs)
    return tuple(dict.fromkeys(feed for feed in feeds if isinstance(feed, str)))


class CombinedFeed(NamedTuple):
    """A feed whose partial rows can be computed anywhere, and their columns that route them.

    `aggregate` is the id of the aggregate that it feeds.
    """

    feed: SelectNode
    stream: str
    key_columns: tuple[str, ...]
    aggregate: int


def combined_feeds(plan: QueryPlan) -> tuple[CombinedFeed, ...]:
    """Return the feeds that sum up the rows of streams, if nothing else reads a stream.

    Empty if a node needs single rows: a join, a reference table, the subscriptions of a template,
    a query without an aggregate.
    """
    nodes, found = nodes_bottom_up(plan.root), []
    aggregates = [node for node in nodes if isinstance(node, AggregateNode)]
    aggregate_of = {feed.id: node.id for node in aggregates for feed in node.feeds}
    for node in nodes:
        if not isinstance(node, SelectNode):
            continue
        streams = [item.feed for item in node.inputs if isinstance(item.feed, str)]
        if not streams:
            continue
        needs_rows = len(node.inputs) > 1 or node.needs_tables or node.inputs[0].drops_late_rows
        if needs_rows or node.id not in aggregate_of:
            return ()
        aggregate = aggregate_of[node.id]
        key = plan.store_keys.get((aggregate, ""), ())
        found.append(CombinedFeed(node, streams[0], key, aggregate))
    return tuple(found)


def written_characters(node: PlanNode) -> int:
    """Return the length of the SQL that a node runs in a batch; a join runs it for each input."""
    if isinstance(node, UnionNode):
        return 0
    texts = [sql for _, sql in node.select]
    if isinstance(node, AnalyticNode):
        return sum(map(len, texts))
    if isinstance(node, AggregateNode):
        return sum(map(len, [*texts, *(sql for _, sql in node.merges), node.having or ""]))
    texts += [*node.where, *(r.on or "" for r in node.references)]
    texts += [view.sql for view in node.laterals]
    texts += [*node.outer.on, *node.outer.where] if node.outer is not None else []
    return sum(map(len, texts)) * len(node.inputs)
