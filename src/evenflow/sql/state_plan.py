"""What a plan keeps between batches: whether two plans keep the same, and for how long."""

from evenflow.errors import InputError
from evenflow.sql.query_plan import (
    AggregateNode,
    AnalyticNode,
    PlanNode,
    QueryPlan,
    SelectNode,
    UnionNode,
    nodes_bottom_up,
)


def same_state(one: QueryPlan, other: QueryPlan) -> bool:
    """Tell whether a task of one plan can go on with the saved state of the other.

    What is computed from the state may differ: the columns and the condition of the result.
    """
    return (
        _kept(one.root) == _kept(other.root)
        and one.store_keys == other.store_keys
        and one.parameters == other.parameters
    )


def retained_us(plan: QueryPlan) -> int:
    """Return how far behind the watermark rows lie, at most, that still count for a result."""
    total = 0
    for node in nodes_bottom_up(plan.root):
        if isinstance(node, AggregateNode):
            if node.windows.is_session or node.windows.ttl_us is not None:
                raise InputError(
                    "a session, or a group without a window, can have begun at any time, so the "
                    "query cannot take over from another; cancel that, then submit the new one"
                )
            total += node.windows.size_us + node.windows.lag_us
        elif isinstance(node, AnalyticNode):
            total += max(0, node.lag_us)
        elif isinstance(node, SelectNode):
            total += max((i.buffer.retention_us for i in node.inputs if i.buffer), default=0)
    return total


def _kept(node: str | PlanNode) -> object:
    """Return what decides which rows are kept, under which labels; comparable."""
    if isinstance(node, str):
        return ()
    if isinstance(node, UnionNode):
        return tuple(_kept(part) for part in node.parts)
    if isinstance(node, AggregateNode):
        return node.id, node.feeds, node.windows, node.keys, node.merges, node.partial_schema
    if isinstance(node, AnalyticNode):
        return node.id, node.feed, node.time_sql, node.lag_us
    if node.probes:
        return node.id, node.inputs
    return tuple(_kept(item.feed) for item in node.inputs)
