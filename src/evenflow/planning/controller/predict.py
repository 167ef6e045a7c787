"""Recorded batches as they would be under another plan.

What a key or a whole query needs does not depend on where it runs, so load measured under one plan
says what every worker would carry under another. A plan is therefore judged by all batches of the
window, also those before it. Only the light keys, which are measured added up, are not known one
by one: they stay where they are unless other workers are drained, and then follow the hash, which
deals them evenly.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.model import KeyStats, Plan, RoutingTable, Snapshot
from evenflow.model.arrays import Floats, Workers


def same_table(one: RoutingTable, other: RoutingTable) -> bool:
    """Tell whether two tables say the same."""
    if one is other:
        return True
    return np.array_equal(one.hashes, other.hashes) and np.array_equal(one.owners, other.owners)


def same_plan(one: Plan, other: Plan) -> bool:
    """Tell whether two plans say the same."""
    if one is other:
        return True
    return (
        (one.workers, one.drained) == (other.workers, other.drained)
        and one.placement == other.placement
        and one.tables.keys() == other.tables.keys()
        and all(same_table(table, other.tables[name]) for name, table in one.tables.items())
    )


def redistribute_rest(rest: Floats, before: Plan, after: Plan) -> Floats:
    """Return what the light keys of each worker amount to when other workers are drained.

    Those of a worker that goes are dealt to all that stay; one that comes takes an even part of
    everyone's.

    >>> redistribute_rest(np.array([2.0, 2.0, 0.0]), Plan(3, drained=frozenset({2})), Plan(3)).round(3).tolist()
    [1.333, 1.333, 1.333]
    """
    if before.drained == after.drained:
        return rest
    stay = np.isin(np.arange(after.workers), after.active)
    come = [worker for worker in after.active if worker in before.drained]
    parts = np.where(stay, rest, 0.0)
    parts[stay & ~np.isin(np.arange(after.workers), come)] += rest[~stay].sum() / max(
        len(after.active) - len(come), 1
    )
    share = len(come) / len(after.active)
    total = parts.sum()
    parts *= 1 - share
    parts[come] += total * share / max(len(come), 1)
    return parts


def key_owners(stats: KeyStats, name: str, before: Plan, after: Plan) -> Workers:
    """Return who would have the heavy keys: as measured, if the plan was the same for them."""
    if (
        name in before.tables
        and before.drained == after.drained
        and same_table(before.tables[name], after.tables[name])
    ):
        return stats.owner
    return after.route(name, stats.hashes)


def keyed_query_loads(stats: KeyStats, name: str, before: Plan, after: Plan) -> Floats:
    """Return what each worker would carry of a keyed query, measured under another plan."""
    owner = key_owners(stats, name, before, after)
    heavy = np.bincount(owner, weights=stats.cost, minlength=after.workers)
    loads: Floats = heavy + redistribute_rest(stats.rest_cost, before, after)
    return loads


def keyed_query_series(snapshots: Sequence[Snapshot], name: str, plan: Plan) -> Floats:
    """Return the load of a keyed query on every worker (column) in every batch (row)."""
    series = np.zeros((len(snapshots), plan.workers))
    for row, snapshot in enumerate(snapshots):
        if name not in snapshot.queries:
            continue
        query = snapshot.queries[name]
        if query.keys is not None:
            series[row] = keyed_query_loads(query.keys, name, snapshot.plan, plan)
        elif name in snapshot.plan.tables:
            series[row] = redistribute_rest(query.load, snapshot.plan, plan)
        else:  # whole in that batch, keyed by now: the hash deals it evenly, as far as is known
            series[row, list(plan.active)] = query.load.sum() / len(plan.active)
    return series


def whole_query_series(snapshots: Sequence[Snapshot], names: Sequence[str]) -> Floats:
    """Return the load of each whole query (row) in each batch (column).

    Batches before a query came count as its mean, so that its arrival is no burst.
    """
    at = {name: row for row, name in enumerate(names)}
    series = np.full((len(names), len(snapshots)), np.nan)
    for column, snapshot in enumerate(snapshots):
        found = [(at[name], query.load) for name, query in snapshot.queries.items() if name in at]
        if found:
            loads = np.concatenate([load for _, load in found]).reshape(len(found), -1)
            series[[row for row, _ in found], column] = loads.sum(axis=1)
    seen = ~np.isnan(series)
    counts = seen.sum(axis=1)
    means = np.where(seen, series, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(seen, series, means[:, None])


def predicted_shipped_bytes(plan: Plan, snapshot: Snapshot, rates: dict[str, float]) -> float:
    """Return the bytes of a batch for whole queries: a stream once to each of its workers."""
    flows = {
        (stream, plan.placement[name])
        for name, query in snapshot.queries.items()
        if name in plan.placement
        for stream in query.streams
    }
    return float(sum(rates.get(stream, 0.0) for stream, _ in sorted(flows)))


def moved_bytes(before: Plan, after: Plan, snapshot: Snapshot) -> float:
    """Return the state that must change hands: of whole queries, of keys, and of light keys that
    follow the hash to other workers.
    """
    total = 0.0
    for name, query in snapshot.queries.items():
        if name in before.placement and name in after.placement:
            if before.placement[name] != after.placement[name]:
                total += float(query.state_bytes.sum())
        elif name in before.placement and name in after.tables:
            total += float(query.state_bytes.sum()) * (1 - 1 / len(after.active))
        elif name in before.tables and name in after.placement:
            total += float(query.state_bytes.sum() - query.state_bytes[after.placement[name]])
        elif name in before.tables and name in after.tables and query.keys is not None:
            keys = query.keys
            if before.drained == after.drained and same_table(
                before.tables[name], after.tables[name]
            ):
                continue
            held = key_owners(keys, name, snapshot.plan, before)
            moved = held != key_owners(keys, name, snapshot.plan, after)
            rest = np.maximum(
                keys.rest_state_bytes - redistribute_rest(keys.rest_state_bytes, before, after), 0.0
            )
            total += float(keys.state_bytes[moved].sum() + rest.sum())
    return total
