"""Workers that go and come: a plan in which the asked ones, and only they, are drained."""

from collections.abc import Mapping

import numpy as np

from evenflow.model import Plan, RoutingTable, Snapshot, Verdict, home
from evenflow.planning.joint.arrival import arrive
from evenflow.planning.joint.config import Balancing


def drainable(snapshot: Snapshot) -> tuple[frozenset[int], tuple[Verdict, ...]]:
    """Return the workers that can be drained of those asked for, and why the others cannot.

    A worker with a pinned query stays, as does everyone if nobody would be left.
    """
    following = snapshot.following
    if not set(range(following.workers)) - snapshot.drain:
        everyone = Verdict(
            "all_drained",
            "workers",
            f"all {following.workers} workers are to be drained; one must stay: activate one",
        )
        return following.drained, (everyone,)
    held = {
        following.placement[name]: name
        for name, query in sorted(snapshot.queries.items(), reverse=True)
        if query.pinned and following.placement.get(name) in snapshot.drain - following.drained
    }
    verdicts = tuple(
        Verdict(
            "pinned_on_drained",
            name,
            f"worker {worker} cannot be drained while {name} is pinned to it; unpin the query",
        )
        for worker, name in sorted(held.items())
    )
    return snapshot.drain - held.keys(), verdicts


def redrained(
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
    following = snapshot.following
    tables = {
        name: cleaned(table, following.workers, drain) for name, table in following.tables.items()
    }
    emptied = Plan(following.workers, following.placement, tables, drain)
    streams = {name: _streams(snapshot, name) for name in following.placement}
    placed = arrive(emptied, streams, loads, config, rates)
    return Plan(following.workers, {**following.placement, **placed}, tables, drain)


def _streams(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    query = snapshot.queries.get(name)
    return () if query is None else query.streams


def cleaned(table: RoutingTable, workers: int, drained: frozenset[int]) -> RoutingTable:
    """Return a table without entries for drained workers and for keys that are at home."""
    if not len(table):
        return table
    at_home = table.owners == home(table.hashes, workers, drained)
    kept = ~(at_home | np.isin(table.owners, list(drained)))
    return RoutingTable.of(table.hashes[kept], table.owners[kept])
