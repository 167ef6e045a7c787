"""The shape of a compiled query: a tree of three kinds of node, as frozen values.

A `Block` selects, projects and joins; a `Group` aggregates by windows what blocks give it; a
`Union` puts rows of equal columns together. Rows flow up from streams. SQL inside is DuckDB's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.sql.limits import Limit
from evenflow.sql.typed import Relation


@dataclass(frozen=True, slots=True)
class Buffer:
    """The rows of one join input that may still find a partner.

    `select` is what is kept of a row (with `_t`, its time in microseconds), `where` what a row must
    fulfil alone, `keep_us` how far behind the watermark `_t` may fall before the row is useless.
    """

    select: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    keep_us: int


@dataclass(frozen=True, slots=True)
class Probe:
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
class Input:
    """Rows that arrive, under an alias: of a stream (by name) or of a node below.

    `strict` rows of a stream are dropped as late once their time is below the watermark; where a
    window above decides (an aggregate straight over the stream), they are not.
    """

    alias: str
    feed: "str | Node"
    strict: bool = False
    buffer: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference table in FROM; with `on`, it is LEFT JOINed."""

    alias: str
    table: str
    on: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """SELECT ... FROM inputs, tables WHERE ...; `probes[i]` lead from new rows of input i.

    `limits` follow from `where`, if rows meet the subscriptions of a template here.
    """

    id: int
    inputs: tuple[Input, ...]
    references: tuple[Reference, ...]
    where: tuple[str, ...]
    select: tuple[tuple[str, str], ...]
    grouped: bool
    relation: Relation
    lineage: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    equal: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = ()
    probes: tuple[tuple[Probe, ...], ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Windows:
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
class Group:
    """GROUP BY window, columns: feeds make partial rows per pane, `select` the answer of a window.

    Stored columns: `_t` (the pane's start), `_n` (rows), `keys`, and the partials with their merge.
    """

    id: int
    feeds: tuple[Block, ...]
    windows: Windows
    keys: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    stored: pa.Schema
    select: tuple[tuple[str, str], ...]
    having: str | None
    relation: Relation
    lineage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL."""

    id: int
    parts: "tuple[Node, ...]"
    relation: Relation


Node = Block | Group | Union


def walk(node: Node) -> "list[Node]":
    """List the nodes of a tree, children first, each once."""
    seen: dict[int, Node] = {}

    def visit(at: Node) -> None:
        if at.id in seen:
            return
        for child in children(at):
            visit(child)
        seen[at.id] = at

    visit(node)
    return list(seen.values())


def children(node: Node) -> "list[Node]":
    """List the nodes a node reads."""
    if isinstance(node, Union):
        return list(node.parts)
    if isinstance(node, Group):
        return list(node.feeds)
    return [i.feed for i in node.inputs if not isinstance(i.feed, str)]


def origin(node: "str | Node") -> str | None:
    """Name the stream if rows reach this node straight from one, with no state between."""
    while not isinstance(node, str):
        if not isinstance(node, Block) or len(node.inputs) != 1:
            return None
        node = node.inputs[0].feed
    return node
