"""The load of every worker under a plan, estimated from a window of batches.

A keyed query is averaged since its shares last changed; earlier batches count with the shares of
now, so a shift of hot keys shows at once. Whole queries burst, which is not a change, and are
averaged over the whole window. Both keep their standard error.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenflow.model import Plan, Snapshot
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.controller.change_points import (
    excess_noise,
    last_change_point,
    last_key_change,
    relative_noise,
    shares_of_mean,
    usable_rows,
)
from evenflow.planning.controller.key_estimate import KeyEstimate, estimate_keys
from evenflow.planning.controller.predict import keyed_query_series, whole_query_series
from evenflow.planning.controller.sampling_error import heaviest_key_shares, row_variances

MATERIAL_CHANGE = 0.02  # of a key's load, in mean loads of a worker: less is no change
FIRST_PLAN_ERRORS = 0.5  # standard errors of row counts that the first plan allows for


@dataclass(frozen=True, slots=True, eq=False)
class KeyedQueryLoads:
    """Load of a keyed query on each worker (column) in each batch (row), with the shares of now.

    stable_rows   batches since the shares last changed
    row_variance  of the mean load of each active worker, because rows arrive by chance
    excess_error  relative standard error of a mean load by all other noise
    """

    series: Floats
    stable_rows: Indices
    row_variance: Floats
    excess_error: float


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

    def is_surely_above(
        self,
        bound: float,
        confidence: float,
        planned: Collection[str] = (),
        row_errors: float = FIRST_PLAN_ERRORS,
    ) -> bool:
        """Tell whether max over mean load exceeds a bound, each load less what noise explains.

        Keys are corrected for chance (`key_estimate`), so the load of a keyed query counts less
        `row_errors` standard errors of its rows. If a plan was made since its shares last changed
        (`planned`), that plan fits the noise it was made from, and `confidence` standard errors
        count. So they do for all other noise.
        """
        means, active = self.mean_loads.copy(), self.active_workers
        mean, variance = float(means.mean()), np.zeros(len(means))
        if mean <= 0 or float(means.max()) <= bound * mean:
            return False
        for name, query in self.keyed_queries.items():
            measured = query.series[:, active].mean(axis=0)
            variance += (confidence * query.excess_error * measured) ** 2
            errors = confidence if name in planned else row_errors
            variance += errors**2 * query.row_variance
        whole = self.whole_series[:, active]
        variance += (confidence * _relative_error(whole) * whole.mean(axis=0)) ** 2
        errors_of_means = np.sqrt(variance)
        if float((means - errors_of_means).max()) <= bound * mean:
            return False
        for name, query in self.keyed_queries.items():
            if self.snapshots_with_keys(name) and name not in planned:
                measured = query.series[:, active].mean(axis=0)
                means += self.key_estimate(name).query_loads() - measured
        return float((means - errors_of_means).max()) > bound * mean

    def stable_since(self, query: str) -> int:
        """Return the batch in which the shares of a keyed query last changed."""
        rows = self.keyed_queries[query].stable_rows
        return self.snapshots[rows[0]].batch if len(rows) else self.last_snapshot.batch

    def snapshots_with_keys(self, query: str) -> list[Snapshot]:
        """Return the batches with key statistics of a query since its load last changed."""
        stable = (self.snapshots[row] for row in self.keyed_queries[query].stable_rows)
        return [snapshot for snapshot in stable if snapshot.queries[query].keys is not None]

    def key_estimate(self, query: str) -> KeyEstimate:
        """Estimate the keys of a query, once; it must have `snapshots_with_keys`."""
        if query not in self._key_estimates:
            series = self.keyed_queries[query].series.mean(axis=0)
            others = (self.total_series.mean(axis=0) - series)[self.active_workers]
            measured = self.snapshots_with_keys(query)
            load = float(series.sum())
            self._key_estimates[query] = estimate_keys(measured, query, self.plan, load, others)
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
        return KeyedQueryLoads(series, busy, np.zeros(len(active)), 0.0)
    seen = [snapshots[row] for row in busy.tolist()]
    variances = row_variances(seen, name, plan)[:, active]
    shares, scale = shares_of_mean(series[busy][:, active]), totals[busy] / len(active)
    counted = variances / scale[:, None] ** 2
    noise = excess_noise(shares, counted)
    key_shares, key_rows = heaviest_key_shares(seen, name)
    changes = (
        last_change_point(shares, counted),
        last_key_change(key_shares, key_rows, noise, MATERIAL_CHANGE / len(active)),
    )
    since = max(changes)
    stable = busy[since:]
    batches = np.arange(len(series))
    level = np.zeros(plan.workers)
    level[active] = series[stable][:, active].sum(axis=0) / totals[stable].sum()
    totals = np.where(batches < busy[0], totals[busy].mean(), totals)
    adjusted = np.where((batches < stable[0])[:, None], totals[:, None] * level, series)
    relative = variances[since:].sum(axis=0) / totals[stable].sum() ** 2
    error = noise / float(np.sqrt(len(stable)))
    return KeyedQueryLoads(adjusted, stable, relative * totals.mean() ** 2, error)
