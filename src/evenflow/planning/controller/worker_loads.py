"""What every worker carries under a plan, as well as a window of batches tells.

Each keyed query is averaged since its shares last changed: batches before that count with the
shares that hold now, so that a shift of its hot keys is seen at once. Whole queries burst, which is
no change, and are averaged over the whole window. The uncertainty of both is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from evenflow.model import Plan, Snapshot
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.controller.change_points import (
    last_change_point,
    relative_noise,
    shares_of_mean,
    usable_rows,
)
from evenflow.planning.controller.predict import keyed_query_series, whole_query_series

WATCHED_KEYS = 16  # heaviest keys whose own shares tell a change, besides the workers'


@dataclass(frozen=True, slots=True, eq=False)
class KeyedQueryLoads:
    """A keyed query: load of every worker (column) in every batch (row), as if now were always.

    stable_rows  the batches in which what holds now was measured
    relative_error  relative, of the mean share of a worker
    """

    series: Floats
    stable_rows: Indices
    relative_error: float


@dataclass(frozen=True, eq=False)
class WorkerLoads:
    """The usable batches of a window under a plan.

    last_snapshot   the last batch of the window, usable or not: what is hosted, and what is pinned
    whole_queries, whole_query_loads  whole queries, and the load of each (row) in each batch (column)
    key_estimates   what is known of the keys of each query, once it was asked for (`keyed_queries`)
    """

    snapshots: tuple[Snapshot, ...]
    plan: Plan
    keyed_queries: Mapping[str, KeyedQueryLoads]
    whole_queries: tuple[str, ...]
    whole_query_loads: Floats
    last_snapshot: Snapshot
    key_estimates: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def under_plan(cls, snapshots: Sequence[Snapshot], plan: Plan) -> "WorkerLoads":
        """Look at a window as if the plan had held in it."""
        names = tuple(plan.placement)
        samples = whole_query_series(snapshots, names)
        keyed = {name: keyed_query_series(snapshots, name, plan) for name in plan.tables}
        total = _sum_by_worker(plan, names, samples) + sum(keyed.values())
        rows = usable_rows(total[:, list(plan.active)])
        kept = tuple(snapshots[row] for row in rows)
        parts = {
            name: _keyed_query_loads(kept, name, series[rows], plan)
            for name, series in keyed.items()
        }
        return cls(kept, plan, parts, names, samples[:, rows], snapshots[-1])

    @property
    def active_workers(self) -> list[int]:
        """The workers that are not drained."""
        return list(self.plan.active)

    @cached_property
    def whole_series(self) -> Floats:
        """Load of whole queries on every worker (column) in every batch (row)."""
        return _sum_by_worker(self.plan, self.whole_queries, self.whole_query_loads)

    @cached_property
    def keyed_series(self) -> Floats:
        """Load of keyed queries on every worker in every batch."""
        nothing = np.zeros((len(self.snapshots), self.plan.workers))
        return sum((part.series for part in self.keyed_queries.values()), nothing)

    @cached_property
    def total_series(self) -> Floats:
        """Load of every worker in every batch."""
        result: Floats = self.whole_series + self.keyed_series
        return result

    @cached_property
    def mean_loads(self) -> Floats:
        """Mean load of every active worker."""
        if not self.snapshots:
            return np.zeros(len(self.active_workers))
        result: Floats = self.total_series[:, self.active_workers].mean(axis=0)
        return result

    def confident_imbalance(self, confidence: float) -> float:
        """Return the load of the busiest worker over the mean that is sure to be that large."""
        means = self.mean_loads
        if means.sum() <= 0:
            return 1.0
        square = np.zeros(len(means))
        for part in self.keyed_queries.values():
            square += (part.relative_error * part.series[:, self.active_workers].mean(axis=0)) ** 2
        whole = self.whole_series[:, self.active_workers]
        square += (_relative_error(whole) * whole.mean(axis=0)) ** 2
        return float((means - confidence * np.sqrt(square)).max() / means.mean())


def _sum_by_worker(plan: Plan, names: tuple[str, ...], samples: Floats) -> Floats:
    series = np.zeros((samples.shape[1], plan.workers))
    places = np.array([plan.placement[name] for name in names], dtype=np.int64)
    np.add.at(series.T, places, samples)
    return series


def _relative_error(loads: Floats) -> float:
    """Return the relative error of mean shares over some batches."""
    seen = loads[loads.sum(axis=1) > 0]
    return relative_noise(shares_of_mean(seen)) / float(np.sqrt(len(seen))) if len(seen) else 0.0


def _keyed_query_loads(
    snapshots: Sequence[Snapshot], name: str, series: Floats, plan: Plan
) -> KeyedQueryLoads:
    """Average a keyed query since its shares last changed."""
    active, totals = list(plan.active), series.sum(axis=1)
    seen = np.flatnonzero(totals > 0)
    if not len(seen):
        return KeyedQueryLoads(series, seen, 0.0)
    parts = shares_of_mean(series[seen][:, active])
    since = max(
        last_change_point(parts), last_change_point(_heaviest_key_shares(snapshots, name, seen))
    )
    held = seen[since:]
    before = np.arange(len(series)) < held[0]
    came = np.arange(len(series)) < seen[0]
    totals = np.where(came, totals[seen].mean(), totals)
    level = np.zeros(plan.workers)
    level[active] = parts[since:].mean(axis=0) / len(active)
    adjusted = np.where(before[:, None], totals[:, None] * level, series)
    return KeyedQueryLoads(adjusted, held, relative_noise(parts) / float(np.sqrt(len(held))))


def _heaviest_key_shares(snapshots: Sequence[Snapshot], name: str, rows: Indices) -> Floats:
    """Return the shares of the keys that are heaviest by now, a column each."""
    stats = [snapshots[row].queries[name].keys for row in rows]
    newest = stats[-1]
    if newest is None:
        return np.zeros((len(rows), 0))
    top = np.sort(newest.hashes[np.argsort(-newest.cost, kind="stable")[:WATCHED_KEYS]])
    columns = np.zeros((len(rows), len(top)))
    for row, keys in enumerate(stats):
        if keys is not None and len(keys.hashes):
            at = np.minimum(np.searchsorted(keys.hashes, top), len(keys.hashes) - 1)
            total = float(keys.cost.sum() + keys.rest_cost.sum()) or 1.0
            columns[row] = np.where(keys.hashes[at] == top, keys.cost[at], 0.0) / total
    return columns
