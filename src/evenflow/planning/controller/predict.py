"""Recorded batches as they would be under another plan.

What a key or a whole query needs does not depend on its worker, so the load measured under one plan
gives the load of every worker under another, also for batches before the plan existed. Only light
keys are measured as a sum: they stay where they are, unless other workers are drained, and then
follow the hash, which spreads them evenly.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.model import KeyStats, Plan, RoutingTable, Snapshot
from evenflow.model.arrays import Floats, Hashes, Workers


def same_table(first: RoutingTable, second: RoutingTable) -> bool:
    """Return whether two tables have the same entries."""
    return first is second or (
        np.array_equal(first.hashes, second.hashes)
        and np.array_equal(first.owners, second.owners)
        and first.splits == second.splits
    )


def same_plan(first: Plan, second: Plan) -> bool:
    """Return whether two plans place everything alike."""
    return first is second or (
        (first.workers, first.drained) == (second.workers, second.drained)
        and first.placement == second.placement
        and first.tables.keys() == second.tables.keys()
        and all(same_table(table, second.tables[name]) for name, table in first.tables.items())
    )


def _same_routes(query: str, before: Plan, after: Plan) -> bool:
    """Return whether two plans route every key of a keyed query alike."""
    return (
        query in before.tables
        and before.drained == after.drained
        and same_table(before.tables[query], after.tables[query])
    )


def redistribute_rest(rest: Floats, before: Plan, after: Plan) -> Floats:
    """Return the sum of the light keys of each worker if other workers are drained.

    Light keys of a drained worker are spread over the others; an activated worker takes an even
    part from all of them.

    >>> two_of_three = Plan(3, drained=frozenset({2}))
    >>> redistribute_rest(np.array([2.0, 2.0, 0.0]), two_of_three, Plan(3)).round(3).tolist()
    [1.333, 1.333, 1.333]
    """
    if before.drained == after.drained:
        return rest
    active = np.isin(np.arange(after.workers), after.active)
    activated = [worker for worker in after.active if worker in before.drained]
    stay = active & ~np.isin(np.arange(after.workers), activated)
    parts = np.where(active, rest, 0.0)
    parts[stay] += rest[~active].sum() / max(len(after.active) - len(activated), 1)
    share, total = len(activated) / len(after.active), parts.sum()
    parts *= 1 - share
    parts[activated] += total * share / max(len(activated), 1)
    return parts


def key_owners(stats: KeyStats, name: str, before: Plan, after: Plan) -> Workers:
    """Return the owners of the heavy keys under `after`; as measured if the routes are the same."""
    if _same_routes(name, before, after):
        return stats.owner
    return after.route(name, stats.hashes)


def key_position(hashes: Hashes, key_hash: int) -> int | None:
    """Return where a key is listed; None if it is not."""
    at = int(np.searchsorted(hashes, np.uint64(key_hash)))
    return at if at < len(hashes) and int(hashes[at]) == key_hash else None


def heavy_key_loads(stats: KeyStats, name: str, plan: Plan, owner: Workers) -> Floats:
    """Return the load of the heavy keys on each worker; owners of a split key share it."""
    loads: Floats = np.bincount(owner, stats.cost, plan.workers).astype(np.float64)
    for split in plan.tables[name].splits:
        key = key_position(stats.hashes, split.key_hash)
        if key is not None:
            cost, shared = float(stats.cost[key]), float(stats.shared_cost[key])
            loads[owner[key]] -= cost
            loads[list(split.owners)] += shared + (cost - shared) / len(split.owners)
    return loads


def keyed_query_loads(stats: KeyStats, name: str, before: Plan, after: Plan) -> Floats:
    """Return the load of a keyed query on each worker under `after`, measured under `before`."""
    heavy = heavy_key_loads(stats, name, after, key_owners(stats, name, before, after))
    loads: Floats = heavy + redistribute_rest(stats.rest_cost, before, after)
    return loads


def keyed_query_series(snapshots: Sequence[Snapshot], name: str, plan: Plan) -> Floats:
    """Return the load of a keyed query on each worker (column) in each batch (row)."""
    series = np.zeros((len(snapshots), plan.workers))
    for row, snapshot in enumerate(snapshots):
        if name not in snapshot.queries:
            continue
        query = snapshot.queries[name]
        if query.keys is not None:
            series[row] = keyed_query_loads(query.keys, name, snapshot.plan, plan)
        elif name in snapshot.plan.tables:
            series[row] = redistribute_rest(query.load, snapshot.plan, plan)
        else:  # still a whole query in that batch: assume that the hash spreads it evenly
            series[row, list(plan.active)] = query.load.sum() / len(plan.active)
    return series


def whole_query_series(snapshots: Sequence[Snapshot], names: Sequence[str]) -> Floats:
    """Return the load of each whole query (row) in each batch (column).

    Batches before its arrival count as its mean, so that the arrival is not a burst.
    """
    rows = {name: row for row, name in enumerate(names)}
    series = np.full((len(names), len(snapshots)), np.nan)
    for column, snapshot in enumerate(snapshots):
        measured = [(rows[name], q.load) for name, q in snapshot.queries.items() if name in rows]
        if measured:
            loads = np.concatenate([load for _, load in measured]).reshape(len(measured), -1)
            series[[row for row, _ in measured], column] = loads.sum(axis=1)
    known = ~np.isnan(series)
    counts = known.sum(axis=1)
    means = np.where(known, series, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(known, series, means[:, None])


def predicted_shipped_bytes(plan: Plan, snapshot: Snapshot, rates: dict[str, float]) -> float:
    """Return the bytes per batch for whole queries: a stream goes once to each worker."""
    flows = {
        (stream, plan.placement[name])
        for name, query in snapshot.queries.items()
        if name in plan.placement
        for stream in query.streams
    }
    return float(sum(rates.get(stream, 0.0) for stream, _ in sorted(flows)))


def moved_bytes(before: Plan, after: Plan, snapshot: Snapshot) -> float:
    """Return the state to transfer: of whole queries, heavy keys, and light keys that follow the
    hash to other workers.
    """
    total = 0.0
    for name, query in snapshot.queries.items():
        state, keys = query.state_bytes, query.keys
        if name in before.placement and name in after.placement:
            if before.placement[name] != after.placement[name]:
                total += float(state.sum())
        elif name in before.placement and name in after.tables:
            total += float(state.sum()) * (1 - 1 / len(after.active))
        elif name in before.tables and name in after.placement:
            total += float(state.sum() - state[after.placement[name]])
        elif name in before.tables and name in after.tables and keys is not None:
            if _same_routes(name, before, after):
                continue
            owner = key_owners(keys, name, snapshot.plan, before)
            moved = owner != key_owners(keys, name, snapshot.plan, after)
            light = keys.rest_state_bytes
            light_moved = np.maximum(light - redistribute_rest(light, before, after), 0.0)
            for key_hash in split_hashes(name, before, after):
                key = key_position(keys.hashes, key_hash)
                if key is not None:
                    moved[key] = False
                    owners = [plan.owners_of_key(name, key_hash) for plan in (before, after)]
                    total += copied_bytes(float(keys.state_bytes[key]), *owners)
            total += float(keys.state_bytes[moved].sum() + light_moved.sum())
    return total


def split_hashes(query: str, *plans: Plan) -> list[int]:
    """Return the keys of a query that are split in one of some plans."""
    return sorted({split.key_hash for plan in plans for split in plan.tables[query].splits})


def copied_bytes(state: float, before: Sequence[int], after: Sequence[int]) -> float:
    """Return the state that a change of the owners of a key transfers, at most.

    Every new owner gets a copy of what all owners have. Which part of the state that is depends on
    the query; in a self-join it is all of it.

    >>> copied_bytes(600.0, (1, 2), (1, 2, 4, 5)), copied_bytes(600.0, (1,), (2,))
    (1200.0, 600.0)
    """
    return state * len(set(after) - set(before))
