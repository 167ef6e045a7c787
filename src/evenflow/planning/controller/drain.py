"""Workers that go and come: a plan in which the asked ones, and only they, are drained."""

from collections.abc import Mapping

import numpy as np

from evenflow.model import Plan, RoutingTable, Snapshot, Verdict, VerdictCode, home_workers
from evenflow.planning.controller.arrivals import place_arriving_queries
from evenflow.planning.controller.config import Balancing


def drainable_workers(snapshot: Snapshot) -> tuple[frozenset[int], tuple[Verdict, ...]]:
    """Return the workers that can be drained of those asked for, and why the others cannot.

    A worker with a pinned query stays, as does everyone if nobody would be left.
    """
    following = snapshot.next_plan
    if not set(range(following.workers)) - snapshot.workers_to_drain:
        everyone = Verdict(
            VerdictCode.ALL_DRAINED,
            "workers",
            f"all {following.workers} workers are to be drained; one must stay: activate one",
        )
        return following.drained, (everyone,)
    held = {
        following.placement[name]: name
        for name, query in sorted(snapshot.queries.items(), reverse=True)
        if query.pinned
        and following.placement.get(name) in snapshot.workers_to_drain - following.drained
    }
    verdicts = tuple(
        Verdict(
            VerdictCode.PINNED_ON_DRAINED,
            name,
            f"worker {worker} cannot be drained while {name} is pinned to it; unpin the query",
        )
        for worker, name in sorted(held.items())
    )
    return snapshot.workers_to_drain - held.keys(), verdicts


def plan_with_drained(
    snapshot: Snapshot,
    drain: frozenset[int],
    loads: Mapping[str, float],
    rates: Mapping[str, float],
    config: Balancing,
) -> Plan:
    """Return the following plan with other workers drained: each with the work of those that go.

    Keys follow the hash, which deals out those of a worker that goes and gives a worker that
    comes its own; whole queries of drained workers are placed like arrivals.
    """
    following = snapshot.next_plan
    tables = {
        name: prune_table(table, following.workers, drain)
        for name, table in following.tables.items()
    }
    emptied = Plan(following.workers, following.placement, tables, drain)
    streams = {name: _streams_of_query(snapshot, name) for name in following.placement}
    placed = place_arriving_queries(emptied, streams, loads, config, rates)
    return Plan(following.workers, {**following.placement, **placed}, tables, drain)


def _streams_of_query(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    query = snapshot.queries.get(name)
    return () if query is None else query.streams


def prune_table(table: RoutingTable, workers: int, drained: frozenset[int]) -> RoutingTable:
    """Return a table without entries for drained workers and for keys that are at home."""
    if not len(table):
        return table
    at_home = table.owners == home_workers(table.hashes, workers, drained)
    kept = ~(at_home | np.isin(table.owners, list(drained)))
    return RoutingTable.from_entries(table.hashes[kept], table.owners[kept])
