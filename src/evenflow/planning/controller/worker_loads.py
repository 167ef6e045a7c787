"""The load of every worker under a plan, estimated from a window of batches.

A keyed query is averaged since its shares last changed; earlier batches count with the shares of
now, so a shift of hot keys shows at once. Whole queries burst, which is not a change, and are
averaged over the whole window. Both keep their standard error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenflow.model import Plan, Snapshot, home_workers
from evenflow.model.arrays import Floats, Hashes, Indices, Workers
from evenflow.planning.controller.change_points import (
    last_change_point,
    relative_noise,
    shares_of_mean,
    usable_rows,
)
from evenflow.planning.controller.predict import (
    keyed_query_series,
    redistribute_rest,
    whole_query_series,
)

WATCHED_KEYS = 16  # heaviest keys whose shares can show a change, besides the workers' shares
MIN_KEY_ROWS = 5  # a key with fewer rows counts as light: it may have none in the next batch


@dataclass(frozen=True, slots=True, eq=False)
class KeyedQueryLoads:
    """Load of a keyed query on each worker (column) in each batch (row), with the shares of now.

    stable_rows     batches since the shares last changed
    relative_error  of the mean share of a worker
    """

    series: Floats
    stable_rows: Indices
    relative_error: float


@dataclass(frozen=True, slots=True, eq=False)
class KeyEstimate:
    """The keys of a query, averaged over batches; workers are positions in `plan.active`.

    The arrays list the heavy keys, then one entry per worker for everything else on it: the light
    keys and fixed cost of the query (`light_load`), and the load of all other queries.
    """

    query: str
    hashes: Hashes
    key_names: dict[int, str]
    cost: Floats
    state_bytes: Floats
    home: Workers
    owner: Workers
    light_load: Floats
    plan: Plan

    @property
    def heavy(self) -> slice:
        """The entries of the heavy keys."""
        return slice(0, len(self.hashes))

    @property
    def immovable(self) -> slice:
        """The entries of everything else, one per worker."""
        return slice(len(self.hashes), len(self.cost))

    def worker_loads(self, owner: Workers | None = None) -> Floats:
        """Return the load of each active worker, with the current owners or others."""
        owner = self.owner if owner is None else owner
        loads: Floats = np.bincount(owner, self.cost, len(self.plan.active)).astype(float)
        return loads

    def display_name(self, key: int) -> str:
        """Return the name of a key for messages: its hash if the name is not known."""
        return self.key_names.get(int(self.hashes[key]), f"{int(self.hashes[key]):016x}")


@dataclass(frozen=True, eq=False)
class WorkerLoads:
    """The usable batches of a window as if `plan` had been in force.

    last_snapshot      the last batch of the window, usable or not: shows what is hosted and pinned
    whole_query_loads  load of each whole query (row) in each batch (column)
    """

    snapshots: tuple[Snapshot, ...]
    plan: Plan
    keyed_queries: Mapping[str, KeyedQueryLoads]
    whole_queries: tuple[str, ...]
    whole_query_loads: Floats
    last_snapshot: Snapshot
    _key_estimates: dict[str, KeyEstimate] = field(default_factory=dict, repr=False)

    @classmethod
    def under_plan(cls, snapshots: Sequence[Snapshot], plan: Plan) -> "WorkerLoads":
        """Estimate the loads of a window under a plan."""
        names = tuple(plan.placement)
        samples = whole_query_series(snapshots, names)
        keyed = {name: keyed_query_series(snapshots, name, plan) for name in plan.tables}
        total = _sum_by_worker(plan, names, samples) + sum(keyed.values())
        rows = usable_rows(total[:, list(plan.active)])
        usable = tuple(snapshots[row] for row in rows)
        queries = {
            name: _keyed_query_loads(usable, name, series[rows], plan)
            for name, series in keyed.items()
        }
        return cls(usable, plan, queries, names, samples[:, rows], snapshots[-1])

    @property
    def active_workers(self) -> list[int]:
        """The workers that are not drained."""
        return list(self.plan.active)

    @cached_property
    def whole_series(self) -> Floats:
        """Load of whole queries on each worker (column) in each batch (row)."""
        return _sum_by_worker(self.plan, self.whole_queries, self.whole_query_loads)

    @cached_property
    def keyed_series(self) -> Floats:
        """Load of keyed queries on each worker in each batch."""
        nothing = np.zeros((len(self.snapshots), self.plan.workers))
        return sum((query.series for query in self.keyed_queries.values()), nothing)

    @cached_property
    def total_series(self) -> Floats:
        """Load of each worker in each batch."""
        result: Floats = self.whole_series + self.keyed_series
        return result

    @cached_property
    def mean_loads(self) -> Floats:
        """Mean load of each active worker."""
        if not self.snapshots:
            return np.zeros(len(self.active_workers))
        result: Floats = self.total_series[:, self.active_workers].mean(axis=0)
        return result

    def confident_imbalance(self, confidence: float) -> float:
        """Return max over mean load, each load less `confidence` standard errors."""
        means = self.mean_loads
        if means.sum() <= 0:
            return 1.0
        variance = np.zeros(len(means))
        for query in self.keyed_queries.values():
            mean = query.series[:, self.active_workers].mean(axis=0)
            variance += (query.relative_error * mean) ** 2
        whole = self.whole_series[:, self.active_workers]
        variance += (_relative_error(whole) * whole.mean(axis=0)) ** 2
        return float((means - confidence * np.sqrt(variance)).max() / means.mean())

    def snapshots_with_keys(self, query: str) -> list[Snapshot]:
        """Return the batches with key statistics of a query since its load last changed."""
        stable = (self.snapshots[row] for row in self.keyed_queries[query].stable_rows)
        return [snapshot for snapshot in stable if snapshot.queries[query].keys is not None]

    def key_estimate(self, query: str) -> KeyEstimate:
        """Estimate the keys of a query, once; it must have `snapshots_with_keys`."""
        if query not in self._key_estimates:
            self._key_estimates[query] = _estimate_keys(self, query)
        return self._key_estimates[query]

    def immovable_keyed_load(self) -> Floats:
        """Return the load of keyed queries on each active worker that no move of keys changes."""
        load = np.zeros(len(self.active_workers))
        for name, query in self.keyed_queries.items():
            if self.snapshots_with_keys(name):
                load += self.key_estimate(name).light_load
            else:
                load += query.series.mean(axis=0)[self.active_workers]
        return load


def _sum_by_worker(plan: Plan, names: tuple[str, ...], samples: Floats) -> Floats:
    series = np.zeros((samples.shape[1], plan.workers))
    workers = np.array([plan.placement[name] for name in names], dtype=np.int64)
    np.add.at(series.T, workers, samples)
    return series


def _relative_error(loads: Floats) -> float:
    """Return the relative standard error of the mean shares over the batches with load."""
    busy = loads[loads.sum(axis=1) > 0]
    return relative_noise(shares_of_mean(busy)) / float(np.sqrt(len(busy))) if len(busy) else 0.0


def _keyed_query_loads(
    snapshots: Sequence[Snapshot], name: str, series: Floats, plan: Plan
) -> KeyedQueryLoads:
    """Average a keyed query since its shares last changed."""
    active, totals = list(plan.active), series.sum(axis=1)
    busy = np.flatnonzero(totals > 0)
    if not len(busy):
        return KeyedQueryLoads(series, busy, 0.0)
    shares = shares_of_mean(series[busy][:, active])
    key_shares = _heaviest_key_shares(snapshots, name, busy)
    since = max(last_change_point(shares), last_change_point(key_shares))
    stable = busy[since:]
    batches = np.arange(len(series))
    totals = np.where(batches < busy[0], totals[busy].mean(), totals)
    level = np.zeros(plan.workers)
    level[active] = shares[since:].mean(axis=0) / len(active)
    adjusted = np.where((batches < stable[0])[:, None], totals[:, None] * level, series)
    return KeyedQueryLoads(adjusted, stable, relative_noise(shares) / float(np.sqrt(len(stable))))


def _heaviest_key_shares(snapshots: Sequence[Snapshot], name: str, rows: Indices) -> Floats:
    """Return the shares of the currently heaviest keys (columns) in some batches (rows)."""
    stats = [snapshots[row].queries[name].keys for row in rows]
    newest = stats[-1]
    if newest is None:
        return np.zeros((len(rows), 0))
    top = np.sort(newest.hashes[np.argsort(-newest.cost, kind="stable")[:WATCHED_KEYS]])
    shares = np.zeros((len(rows), len(top)))
    for row, keys in enumerate(stats):
        if keys is not None and len(keys.hashes):
            at = np.minimum(np.searchsorted(keys.hashes, top), len(keys.hashes) - 1)
            total = float(keys.cost.sum() + keys.rest_cost.sum()) or 1.0
            shares[row] = np.where(keys.hashes[at] == top, keys.cost[at], 0.0) / total
    return shares


def _estimate_keys(loads: WorkerLoads, name: str) -> KeyEstimate:
    """Average the keys of a query over the stable batches, each with the same weight.

    A key with few rows was listed by luck and counts as light.
    """
    plan, series = loads.plan, loads.keyed_queries[name].series.mean(axis=0)
    other_queries = loads.total_series.mean(axis=0) - series
    stats = [
        (snapshot.plan, keys)
        for snapshot in loads.snapshots_with_keys(name)
        if (keys := snapshot.queries[name].keys) is not None
    ]
    totals = [float(keys.cost.sum() + keys.rest_cost.sum()) for _, keys in stats]
    scales = [series.sum() / (total * len(stats)) if total else 0.0 for total in totals]
    hashes, at = np.unique(np.concatenate([k.hashes for _, k in stats]), return_inverse=True)
    weights = [keys.cost * scale for (_, keys), scale in zip(stats, scales, strict=True)]
    cost = np.bincount(at, weights=np.concatenate(weights), minlength=len(hashes))
    rows = np.bincount(at, np.concatenate([k.rows for _, k in stats]), len(hashes))
    state_bytes, light = np.zeros(len(hashes)), np.zeros(plan.workers)
    parts = np.split(at, np.cumsum([len(k.hashes) for _, k in stats])[:-1])
    for (measured_plan, keys), part, scale in zip(stats, parts, scales, strict=True):
        state_bytes[part] = keys.state_bytes  # the newest wins
        light += redistribute_rest(keys.rest_cost, measured_plan, plan) * scale
    newest = stats[-1][1]
    active = list(plan.active)
    workers = np.arange(len(active), dtype=np.int32)
    position = np.full(plan.workers, -1, dtype=np.int32)
    position[active] = workers
    homes = position[home_workers(hashes, plan.workers, plan.drained)]
    owners = position[plan.route(name, hashes)]
    owners = np.where(owners < 0, homes, owners)
    heavy = (rows >= MIN_KEY_ROWS) | np.isin(hashes, plan.tables[name].hashes)
    light_load = light[active] + np.bincount(owners[~heavy], cost[~heavy], len(active))
    return KeyEstimate(
        query=name,
        hashes=hashes[heavy],
        key_names=dict(zip(newest.hashes.tolist(), newest.names, strict=False)),
        cost=np.concatenate([cost[heavy], light_load + other_queries[active]]),
        state_bytes=np.concatenate([state_bytes[heavy], np.zeros(len(active))]),
        home=np.concatenate([homes[heavy], workers]),
        owner=np.concatenate([owners[heavy], workers]).astype(np.int32),
        light_load=light_load,
        plan=plan,
    )
