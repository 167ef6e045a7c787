"""How a query runs for a key that several workers share: which rows go where, which state is where.

For a key split by stream s, a row of s belongs to one owner, and rows of the other streams go to
all owners. Rows that leave a node are then

- DIVIDED: each at one owner;
- COPIED: each at all owners;
- MERGED: at one owner, from an aggregate, whose panes meet at the key's home.

A join is right if one input is divided and all others are copied: every match is found where its
divided row is. An aggregate is right over rows that are each at one owner. If the stream feeds two
inputs of joins, as in a self-join, all owners store all its rows, and one input of each join, the
*role*, counts only rows that belong to the owner. Everything else is refused: `split_plan` returns
None, and the key stays on one worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_STORE,
    AggregateNode,
    AnalyticNode,
    PlanNode,
    SelectNode,
    StoreId,
    UnionNode,
    nodes_bottom_up,
    source_stream,
    source_streams,
)


class SplitPolicy(Enum):
    """Where the rows of a split key are stored.

    FRAGMENT  each at one owner, any of them
    REPLICA   all of them at every owner
    HOME      at the key's home
    """

    FRAGMENT = "fragment"
    REPLICA = "replica"
    HOME = "home"


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The rules for a key split by one stream.

    divided  streams whose rows are each sent to one owner; rows of the others go to all owners
    roles    join node -> alias of the input whose rows count only at the owner they belong to
    stores   where each store keeps the rows of the key
    """

    divided: tuple[str, ...]
    roles: Mapping[int, str]
    stores: Mapping[StoreId, SplitPolicy]


class _Spread(Enum):
    DIVIDED = 1
    COPIED = 2
    MERGED = 3


class _NotSplittableError(Exception):
    pass


@dataclass(slots=True)
class _SpreadFinder:
    """Finds the spread of each node, bottom up; with a role stream, also the role of each join."""

    divided: tuple[str, ...]
    role_stream: str | None = None
    spreads: dict[int, _Spread] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)

    def of(self, feed: str | PlanNode) -> _Spread:
        if isinstance(feed, str):
            return _Spread.DIVIDED if feed in self.divided else _Spread.COPIED
        if feed.id not in self.spreads:
            self.spreads[feed.id] = self._of_node(feed)
        return self.spreads[feed.id]

    def _of_node(self, node: PlanNode) -> _Spread:
        if isinstance(node, UnionNode):
            return self._union(node)
        if isinstance(node, AnalyticNode):
            raise _NotSplittableError
        if isinstance(node, AggregateNode):
            if any(self.of(feed) is _Spread.COPIED for feed in node.feeds):
                raise _NotSplittableError
            return _Spread.MERGED
        if not node.probes:
            return self.of(node.inputs[0].feed)
        return self._join(node)

    def _union(self, node: UnionNode) -> _Spread:
        spreads = {self.of(part) for part in node.parts}
        if len(spreads) == 1:
            return spreads.pop()
        if _Spread.COPIED in spreads:
            raise _NotSplittableError
        return _Spread.MERGED

    def _join(self, node: SelectNode) -> _Spread:
        spreads = [self.of(item.feed) for item in node.inputs]
        # Windows of an aggregate above would miss rows that a join adds as late as this.
        if _Spread.MERGED in spreads:
            raise _NotSplittableError
        divided = spreads.count(_Spread.DIVIDED)
        if divided > 1:
            raise _NotSplittableError
        role = next((i for i in node.inputs if source_stream(i.feed) == self.role_stream), None)
        if node.outer is not None:
            # A row is settled where all rows that can match it are, so it is the one to divide.
            buffers = zip(spreads, (item.buffer for item in node.inputs), strict=True)
            kept = [spread for spread, b in buffers if b is not None and b.settle_us is not None]
            if kept != [_Spread.DIVIDED]:
                raise _NotSplittableError
        if divided == 0 and role is not None:
            self.roles[node.id] = role.alias
            return _Spread.DIVIDED
        return _Spread.DIVIDED if divided else _Spread.COPIED


def split_plan(root: PlanNode, stream: str) -> SplitPlan | None:
    """Return the rules for keys split by a stream, or None if that could change a result."""
    nodes = nodes_bottom_up(root)
    joins = [node for node in nodes if isinstance(node, SelectNode) and node.probes]
    divided = (stream,) if joins else source_streams(root)
    for finder in (_SpreadFinder(divided), _SpreadFinder((), role_stream=stream)):
        try:
            if finder.of(root) is not _Spread.COPIED:
                return SplitPlan(finder.divided, finder.roles, _store_policies(nodes, finder))
        except _NotSplittableError:
            pass
    return None


def _store_policies(nodes: list[PlanNode], finder: _SpreadFinder) -> dict[StoreId, SplitPolicy]:
    policies = {SUBSCRIPTIONS_STORE: SplitPolicy.REPLICA}
    for node in nodes:
        if isinstance(node, AggregateNode):
            policies[node.id, ""] = SplitPolicy.HOME
        elif isinstance(node, SelectNode) and node.probes:
            for item in node.inputs:
                divided = finder.of(item.feed) is _Spread.DIVIDED
                policies[node.id, item.alias] = (
                    SplitPolicy.FRAGMENT if divided else SplitPolicy.REPLICA
                )
    return policies


def divided_streams(root: PlanNode) -> dict[str, tuple[str, ...]]:
    """Return the streams by which keys can be split, and the streams that are then divided."""
    plans = {stream: split_plan(root, stream) for stream in source_streams(root)}
    return {stream: plan.divided for stream, plan in plans.items() if plan is not None}
