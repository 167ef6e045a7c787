"""The shape of a compiled query: a tree of three kinds of node, as frozen values.

A `SelectNode` selects, projects and joins; a `AggregateNode` aggregates by windows what blocks give it; a
`UnionNode` puts rows of equal columns together. Rows flow up from streams. SQL inside is DuckDB's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.sql.compile.parameter_bounds import ParameterBound
from evenflow.sql.translate.typed_expr import Relation


@dataclass(frozen=True, slots=True)
class JoinBuffer:
    """The rows of one join input that may still find a partner.

    `select` is what is kept of a row (with `_t`, its time in microseconds), `where` what a row must
    fulfil alone, `retention_us` how far behind the watermark `_t` may fall before the row is useless.
    """

    select: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    retention_us: int


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
    """Rows that arrive, under an alias: of a stream (by name) or of a node below.

    `drops_late_rows` rows of a stream are dropped as late once their time is below the watermark; where a
    window above decides (an aggregate straight over the stream), they are not.
    """

    alias: str
    feed: "str | PlanNode"
    drops_late_rows: bool = False
    buffer: JoinBuffer | None = None


@dataclass(frozen=True, slots=True)
class TableReference:
    """A reference table in FROM; with `on`, it is LEFT JOINed."""

    alias: str
    table: str
    on: str | None = None


@dataclass(frozen=True, slots=True)
class SelectNode:
    """SELECT ... FROM inputs, tables WHERE ...; `probes[i]` lead from new rows of input i.

    `parameter_bounds` follow from `where`, if rows meet the subscriptions of a template here.
    """

    id: int
    inputs: tuple[NodeInput, ...]
    references: tuple[TableReference, ...]
    where: tuple[str, ...]
    select: tuple[tuple[str, str], ...]
    preaggregates: bool
    relation: Relation
    lineage: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    equal_columns: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = ()
    probes: tuple[tuple[JoinProbe, ...], ...] = ()
    parameter_bounds: tuple[ParameterBound, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows of `size_us` that begin every `slide_us` from `start_us`; panes divide them evenly.

    A time group that is no window is one of size 1: it is complete when the time has passed.
    `lag_us`: times still to come are at least watermark - lag_us.
    """

    size_us: int
    slide_us: int
    start_us: int
    pane_us: int
    lag_us: int


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """GROUP BY window, columns: feeds make partial rows per pane, `select` the answer of a window.

    Stored columns: `_t` (the pane's start), `_n` (rows), `keys`, and the partials with their merge.
    """

    id: int
    feeds: tuple[SelectNode, ...]
    windows: WindowSpec
    keys: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    partial_schema: pa.Schema
    select: tuple[tuple[str, str], ...]
    having: str | None
    relation: Relation
    lineage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnionNode:
    """UNION ALL."""

    id: int
    parts: "tuple[PlanNode, ...]"
    relation: Relation


PlanNode = SelectNode | AggregateNode | UnionNode


def nodes_bottom_up(node: PlanNode) -> "list[PlanNode]":
    """List the nodes of a tree, children first, each once."""
    seen: dict[int, PlanNode] = {}

    def visit(at: PlanNode) -> None:
        if at.id in seen:
            return
        for child in child_nodes(at):
            visit(child)
        seen[at.id] = at

    visit(node)
    return list(seen.values())


def child_nodes(node: PlanNode) -> "list[PlanNode]":
    """List the nodes a node reads."""
    if isinstance(node, UnionNode):
        return list(node.parts)
    if isinstance(node, AggregateNode):
        return list(node.feeds)
    return [i.feed for i in node.inputs if not isinstance(i.feed, str)]


def source_stream(node: "str | PlanNode") -> str | None:
    """Name the stream if rows reach this node straight from one, with no state between."""
    while not isinstance(node, str):
        if not isinstance(node, SelectNode) or len(node.inputs) != 1:
            return None
        node = node.inputs[0].feed
    return node
