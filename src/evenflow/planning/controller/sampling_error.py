"""How far chance explains the measured load of a keyed query.

Rows arrive by chance, so the cost of a key with n rows has a relative standard deviation of
1 / sqrt(n). A worker's variance is the sum over its keys. If every row costs the same, the variance
of a worker's share (1 is the mean) is share x workers / rows; if some keys cost more per row, as in
a join, it is that of fewer rows.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.model import KeyStats, Plan, QueryLoad, Snapshot
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.controller.predict import key_owners, key_position, redistribute_rest

WATCHED_KEYS = 64  # heaviest keys whose shares can show a change, besides the workers' shares


def cost_variances(stats: KeyStats) -> Floats:
    """Return the variance of the cost of each heavy key."""
    result: Floats = stats.cost**2 / np.maximum(stats.rows, 1)
    return result


def _heavy_key_variances(stats: KeyStats, name: str, plan: Plan, owner: Workers) -> Floats:
    """Return the variance of the load of heavy keys on each worker; owners divide the rows."""
    each = cost_variances(stats)
    variances: Floats = np.bincount(owner, each, plan.workers).astype(np.float64)
    for split in plan.tables[name].splits:
        key = key_position(stats.hashes, split.key_hash)
        if key is not None:
            variances[owner[key]] -= each[key]
            variances[list(split.owners)] += each[key] / len(split.owners)
    return np.maximum(variances, 0.0)


def rest_variances(query: QueryLoad, stats: KeyStats) -> Floats:
    """Return the variance of the cost of the light keys of each worker."""
    listed = np.bincount(stats.owner, stats.rows, len(query.rows_in))
    result: Floats = (stats.rest_cost - stats.rest_fixed_cost) ** 2 / np.maximum(
        query.rows_in - listed, 1
    )
    return result


def row_variances(snapshots: Sequence[Snapshot], name: str, plan: Plan) -> Floats:
    """Return the variance by chance of the load of each worker (column) in each batch (row)."""
    variances = np.zeros((len(snapshots), plan.workers))
    for row, snapshot in enumerate(snapshots):
        query = snapshot.queries.get(name)
        if query is None:
            continue
        if query.keys is None:
            load = redistribute_rest(query.load, snapshot.plan, plan)
            variances[row] = load**2 / max(float(query.rows_in.mean()), 1.0)
            continue
        owner = key_owners(query.keys, name, snapshot.plan, plan)
        variances[row] = _heavy_key_variances(query.keys, name, plan, owner)
        rest = rest_variances(query, query.keys)
        variances[row] += np.maximum(redistribute_rest(rest, snapshot.plan, plan), 0.0)
    return variances


def _heaviest(cost: Floats) -> Indices:
    """Return the positions of the heaviest keys, in any order."""
    if len(cost) <= WATCHED_KEYS:
        return np.arange(len(cost))
    return np.argpartition(-cost, WATCHED_KEYS)[:WATCHED_KEYS]


def heaviest_key_shares(snapshots: Sequence[Snapshot], name: str) -> tuple[Floats, Floats]:
    """Return the cost shares of the heaviest keys (columns) in some batches, and the rows behind.

    Watched are the keys that are heavy in the newest batch or were in the others. The rows are
    those of the whole query in the batch, fewer if a row of the key costs more than others.
    """
    stats = [snapshot.queries[name].keys for snapshot in snapshots]
    known = [keys for keys in stats if keys is not None and len(keys.hashes)]
    top = [keys.hashes[_heaviest(keys.cost)] for keys in known]
    watched = np.unique(np.concatenate(top)) if top else np.zeros(0, dtype=np.uint64)
    shares, rows = np.zeros((2, len(stats), len(watched)))
    totals = np.array([max(float(s.queries[name].rows_in.sum()), 1.0) for s in snapshots])
    for row, keys in enumerate(stats):
        if keys is not None and len(keys.hashes):
            at = np.minimum(np.searchsorted(keys.hashes, watched), len(keys.hashes) - 1)
            listed = keys.hashes[at] == watched
            total = float(keys.cost.sum() + keys.rest_cost.sum()) or 1.0
            shares[row] = np.where(listed, keys.cost[at], 0.0) / total
            rows[row] = np.where(listed, keys.rows[at], 0)
    mean = (totals[:, None] * shares).sum(axis=0) / totals.sum()
    worth = rows.sum(axis=0) / np.maximum(totals.sum() * mean, 1e-9)
    return shares, np.maximum(totals[:, None] * np.clip(worth, 1e-9, 1.0), 1.0)
