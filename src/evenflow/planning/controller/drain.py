"""Drained and activated workers: a plan in which exactly the requested workers are drained."""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.model import Plan, RoutingTable, Snapshot, Verdict, VerdictCode, home_workers
from evenflow.planning.controller.arrivals import place_arriving_queries
from evenflow.planning.controller.config import Balancing


def drainable_workers(snapshot: Snapshot) -> tuple[frozenset[int], tuple[Verdict, ...]]:
    """Return the requested workers that can be drained, and verdicts on the others.

    A worker with a pinned query cannot be drained, nor can all workers.
    """
    plan, requested = snapshot.next_plan, snapshot.workers_to_drain
    if not set(range(plan.workers)) - requested:
        message = f"all {plan.workers} workers are to be drained; one must stay: activate one"
        return plan.drained, (Verdict(VerdictCode.ALL_DRAINED, "workers", message),)
    held = {
        plan.placement[name]: name
        for name, query in sorted(snapshot.queries.items(), reverse=True)
        if query.pinned and plan.placement.get(name) in requested - plan.drained
    }
    verdicts = tuple(
        Verdict(
            VerdictCode.PINNED_ON_DRAINED,
            name,
            f"worker {worker} cannot be drained while {name} is pinned to it; unpin the query",
        )
        for worker, name in sorted(held.items())
    )
    return requested - held.keys(), verdicts


def plan_with_drained(
    snapshot: Snapshot,
    drain: frozenset[int],
    loads: Mapping[str, float],
    rates: Mapping[str, float],
    config: Balancing,
) -> Plan:
    """Return the next plan with other workers drained.

    Keys follow the hash, which spreads the keys of drained workers and returns those of activated
    ones; whole queries of drained workers are placed like arrivals.
    """
    plan = snapshot.next_plan
    tables = {name: prune_table(table, plan.workers, drain) for name, table in plan.tables.items()}
    drained = replace(plan, tables=tables, drained=drain)
    streams = {
        name: snapshot.queries[name].streams if name in snapshot.queries else ()
        for name in plan.placement
    }
    placed = place_arriving_queries(drained, streams, loads, config, rates)
    return replace(drained, placement={**plan.placement, **placed})


def prune_table(table: RoutingTable, workers: int, drained: frozenset[int]) -> RoutingTable:
    """Return a table without entries for drained workers and without keys at home."""
    if not len(table):
        return table
    table = table.without_workers(drained)
    away = table.owners != home_workers(table.hashes, workers, drained)
    return RoutingTable.from_entries(table.hashes[away], table.owners[away], table.splits)
