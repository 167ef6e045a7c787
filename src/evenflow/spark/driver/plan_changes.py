"""Changes to a plan at a batch boundary: arrivals, cancellations, pins, drains. Pure functions."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, StreamsByQuery
from evenflow.model.codes import QueryKind
from evenflow.names import join_names
from evenflow.spark.protocol.registry import Hosted, Registry

PlaceArrivals = Callable[[Plan, StreamsByQuery, StreamsByQuery], Mapping[str, int]]
"""Called with the plan, the streams of waiting and of placed whole queries; returns workers."""


def place_waiting_queries(plan: Plan, registry: Registry, place: PlaceArrivals) -> Plan:
    """Return the plan with a worker for every whole query that has none yet."""
    waiting = registry.queries.keys() - plan.placement.keys() - plan.tables.keys()
    if not waiting:
        return plan
    streams = {name: registry.queries[name].streams for name in sorted(waiting)}
    placed = {name: registry.queries[name].streams for name in sorted(plan.placement)}
    return replace(plan, placement={**plan.placement, **place(plan, streams, placed)})


def plan_with_query(plan: Plan, query: Hosted, worker: int | None) -> Plan:
    """Return the plan with one more query; a whole one without a worker waits to be placed."""
    if query.key_columns is not None:
        return replace(plan, tables={**plan.tables, query.name: RoutingTable()})
    if worker is None:
        return plan
    return replace(plan, placement={**plan.placement, query.name: worker})


def plan_without_query(plan: Plan, name: str) -> Plan:
    """Return the plan without a query."""
    placement = {query: worker for query, worker in plan.placement.items() if query != name}
    tables = {query: table for query, table in plan.tables.items() if query != name}
    return replace(plan, placement=placement, tables=tables)


def complete_plan(plan: Plan, current: Plan, registry: Registry) -> Plan:
    """Fill in what a plan leaves out from the current one, or refuse the plan."""
    if plan.workers != current.workers:
        raise InputError(f"the plan is for {plan.workers} workers; there are {current.workers}")
    if len(plan.drained) >= plan.workers or any(w not in range(plan.workers) for w in plan.drained):
        raise InputError(
            f"the plan drains {sorted(plan.drained)} of {plan.workers} workers; one must stay"
        )
    _check_plan_queries(plan, registry)
    placement = {n: w for n, w in current.placement.items() if n not in plan.tables}
    placement |= plan.placement
    tables = {n: t for n, t in current.tables.items() if n not in plan.placement}
    tables |= plan.tables
    for name, worker in placement.items():
        if worker not in range(plan.workers) or worker in plan.drained:
            raise InputError(
                f"the plan puts {name!r} on worker {worker}; active are {list(plan.active)}"
            )
        pin = registry.queries[name].pin
        if pin is not None and worker not in (pin, current.placement.get(name)):
            raise InputError(f"{name!r} is pinned to worker {pin}")
    for name, table in plan.tables.items():
        if not np.isin(table.owners, plan.active).all():
            raise InputError(
                f"the routing table of {name!r} names a worker that is not active; "
                f"active are {list(plan.active)}"
            )
        _check_splits(registry.queries[name], table, plan, current)
    tables = {name: table.without_workers(plan.drained) for name, table in tables.items()}
    return Plan(plan.workers, placement, tables, plan.drained)


def _check_splits(query: Hosted, table: RoutingTable, plan: Plan, current: Plan) -> None:
    """Refuse splits that the query, the active workers or the present splits do not allow."""
    before = current.tables.get(query.name, RoutingTable())
    for split in table.splits:
        key = f"key #{split.key_hash:016x} of {query.name!r}"
        if not set(split.owners) <= set(plan.active):
            raise InputError(
                f"the plan splits {key} over workers {list(split.owners)}; active are "
                f"{list(plan.active)}"
            )
        if not query.split_streams:
            raise InputError(
                f"the plan splits {key}, but its keys cannot be split: its rows would miss matches "
                "or be counted twice; leave the key on one worker"
                + ", or declare `merge`"
                * (query.kind == QueryKind.PYTHON)
            )
        if split.fragmented not in query.split_streams:
            raise InputError(
                f"the plan splits {key} by stream {split.fragmented!r}; it can be split by "
                f"{join_names(query.split_streams)}"
            )
        present = before.split_of(split.key_hash)
        if present is not None and present.fragmented != split.fragmented:
            raise InputError(
                f"the plan changes the stream that {key} is split by from "
                f"{present.fragmented!r} to {split.fragmented!r}; plan it on one worker first"
            )


def _check_plan_queries(plan: Plan, registry: Registry) -> None:
    """Refuse a plan that names unknown queries, or spreads one that has no key."""
    keyed = {q.name for q in registry.queries.values() if q.key_columns is not None}
    whole = registry.queries.keys() - keyed
    promotable = {name for name in whole if registry.queries[name].promotable}
    unknown = (plan.placement.keys() - whole) | (plan.tables.keys() - keyed - promotable)
    if unknown:
        raise InputError(
            f"the plan names {join_names(unknown)}; whole queries are {join_names(whole)}, "
            f"keyed ones {join_names(keyed)}"
        )


def check_drain(drain: frozenset[int], plan: Plan, registry: Registry) -> None:
    """Refuse to drain unknown workers, all workers, or one that a query is pinned to."""
    active = sorted(set(range(plan.workers)) - drain)
    if any(worker not in range(plan.workers) for worker in drain) or not active:
        raise InputError(
            f"workers {sorted(drain)} cannot be drained: there are 0..{plan.workers - 1}, "
            "and one must stay active"
        )
    for name, query in registry.queries.items():
        if query.pin in drain:
            raise InputError(f"{name!r} is pinned to worker {query.pin}; unpin it before draining")


def misplaced_pins(plan: Plan, registry: Registry) -> dict[str, int]:
    """Return the pinned queries that run on another worker than their pin, with their pins."""
    return {
        name: query.pin
        for name, query in registry.queries.items()
        if query.pin is not None and plan.placement.get(name) != query.pin
    }


def with_pins(plan: Plan | None, current: Plan, registry: Registry) -> Plan | None:
    """Return the plan with every misplaced pinned query moved to its pin."""
    pins = misplaced_pins(current, registry)
    if not pins:
        return plan
    base = plan or replace(current, placement={}, tables={})
    return replace(base, placement={**base.placement, **pins})


def feasible_part(plan: Plan, current: Plan, registry: Registry) -> Plan:
    """Return what of an earlier plan can still be followed."""
    queries, active = registry.queries, set(current.active)
    whole = {name for name, query in queries.items() if query.key_columns is None}
    return replace(
        current,
        placement={
            name: worker
            for name, worker in plan.placement.items()
            if name in whole and worker in active and queries[name].pin is None
        },
        tables={
            name: table.without_workers(current.drained)
            for name, table in plan.tables.items()
            if name in queries and (name not in whole or queries[name].promotable)
        },
    )
