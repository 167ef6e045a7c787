"""Promotion: a whole query that outgrows a worker is spread over all of them by its key."""

from collections.abc import Sequence

import numpy as np

from evenflow.model import Plan, RoutingTable, Snapshot
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import whole_query_series
from evenflow.planning.controller.window import busy_snapshots


def queries_to_promote(
    snapshots: Sequence[Snapshot], following: Plan, mean_load: float, config: Balancing
) -> list[str]:
    """Return the whole queries that no worker can carry within the bound and that have a key.

    The last batches decide, so that one burst does not.
    """
    last = snapshots[-1]
    names = [
        name
        for name, query in last.queries.items()
        if name in following.placement and query.keyable and not query.pinned
    ]
    if not config.promote or len(following.active) < 2 or not names:
        return []
    recent = busy_snapshots(snapshots)[-config.samples :]
    if len(recent) < config.samples:
        return []
    loads = whole_query_series(recent, names)
    needed = loads.mean(axis=1) - loads.std(axis=1)
    seconds = float(np.mean([snapshot.interval_seconds for snapshot in recent]))
    bound = max((1 + config.max_imbalance) * mean_load, config.promote_share * seconds)
    return [name for name, load in zip(names, needed, strict=True) if load > bound]


def promote_queries(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with some whole queries keyed, over the hash alone at first.

    >>> promote_queries(Plan(2, {"q": 1}), ["q"]).placement
    {}
    """
    placement = {name: worker for name, worker in plan.placement.items() if name not in names}
    tables = {**plan.tables, **{name: RoutingTable() for name in names}}
    return Plan(plan.workers, placement, tables, plan.drained)
