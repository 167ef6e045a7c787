"""Promotion: a whole query that outgrows one worker becomes keyed, over all workers."""

from collections.abc import Sequence

import numpy as np

from evenflow.model import Plan, RoutingTable, Snapshot
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import whole_query_series
from evenflow.planning.controller.window import busy_snapshots


def queries_to_promote(
    snapshots: Sequence[Snapshot], plan: Plan, mean_load: float, config: Balancing
) -> list[str]:
    """Return the whole queries that have a key and exceed the bound of a single worker.

    They must exceed it over the last `samples` batches; one burst is not enough.
    """
    last = snapshots[-1]
    names = [
        name
        for name, query in last.queries.items()
        if name in plan.placement and query.keyable and not query.pinned
    ]
    if not config.promote or len(plan.active) < 2 or not names:
        return []
    recent = busy_snapshots(snapshots)[-config.samples :]
    if len(recent) < config.samples:
        return []
    series = whole_query_series(recent, names)
    sure_loads = series.mean(axis=1) - series.std(axis=1)
    seconds = float(np.mean([snapshot.interval_seconds for snapshot in recent]))
    bound = max((1 + config.max_imbalance) * mean_load, config.promote_share * seconds)
    return [name for name, load in zip(names, sure_loads, strict=True) if load > bound]


def promote_queries(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with some whole queries keyed, with empty tables.

    >>> promote_queries(Plan(2, {"q": 1}), ["q"]).placement
    {}
    """
    placement = {name: worker for name, worker in plan.placement.items() if name not in names}
    tables = {**plan.tables, **{name: RoutingTable() for name in names}}
    return Plan(plan.workers, placement, tables, plan.drained)
