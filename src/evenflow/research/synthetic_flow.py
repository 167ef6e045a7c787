"""A synthetic flow: queries with known loads, observed as the runtime observes them.

As in the runtime, a plan decided after batch b takes effect in batch b + 2. Measured loads have
noise; heavy keys are listed, the others summed per worker.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.model import Decision, KeyStats, Plan, QueryLoad, RoutingTable, Snapshot
from evenflow.model.arrays import Floats, Hashes, Workers

ROWS_PER_SECOND = 1e6  # of CPU
Controller = Callable[[Sequence[Snapshot], Sequence[Decision]], Decision]


@dataclass(frozen=True, slots=True, eq=False)
class QueryDemand:
    """The CPU seconds that a query needs in a batch, by key.

    key_seconds    batch -> load of each key; one element for a query without a key
    hashes         of the keys; None: the query has no key and can only be whole
    state_bytes    state of each key
    fixed_seconds  additional load on every worker that runs the query
    row_seconds    load of one row
    split_by       stream to split keys by; empty: they cannot be split
    shared_part    part of the load of a key that every owner of a split has
    key_rows       batch -> rows of each key; None: as many as `row_seconds` says
    shared_seconds batch -> load of each key that every owner has; None: as `shared_part` says
    """

    key_seconds: Callable[[int], Floats]
    hashes: Hashes | None = None
    streams: tuple[str, ...] = ("events",)
    state_bytes: float = 1000.0
    pinned: bool = False
    fixed_seconds: float = 0.0
    row_seconds: float = 1 / ROWS_PER_SECOND
    split_by: str = ""
    shared_part: float = 0.0
    key_rows: Callable[[int], Floats] | None = None
    shared_seconds: Callable[[int], Floats] | None = None

    def shared_parts(self, batch: int, cost: Floats) -> Floats:
        """Return the part of the load of each key that every owner of a split has."""
        if self.shared_seconds is None:
            return np.full(len(cost), self.shared_part)
        needs = np.maximum(self.key_seconds(batch), 1e-300)
        return np.minimum(self.shared_seconds(batch) / needs, 1.0)

    def rows(self, batch: int, cost: Floats) -> Floats:
        """Return the rows of each key."""
        if self.key_rows is None:
            return np.rint(cost / self.row_seconds)
        return self.key_rows(batch)


@dataclass(slots=True)
class SyntheticFlow:
    """Queries under a plan, one batch after the other.

    noise       relative standard deviation of the measured load of a query on a worker
    heavy_keys  maximum number of listed keys per query and worker
    stalls      (batch, worker): the worker does nothing in the batch and catches up in the next
    """

    queries: dict[str, QueryDemand]
    plan: Plan
    noise: float = 0.0
    heavy_keys: int = 512
    seed: int = 0
    stream_rates: dict[str, float] = field(default_factory=dict)
    drained: frozenset[int] = frozenset()
    stalls: frozenset[tuple[int, int]] = frozenset()
    batch: int = 0
    next_plan: Plan = None  # type: ignore[assignment]
    snapshots: list[Snapshot] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    _rng: np.random.Generator = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.next_plan = self.plan if self.next_plan is None else self.next_plan
        self._rng = np.random.default_rng(self.seed)

    def true_loads(self) -> Floats:
        """Return the load of each worker in the next batch, without noise."""
        total = np.zeros(self.plan.workers)
        for name, query in self.queries.items():
            total += self._worker_loads(name, query, query.key_seconds(self.batch))
        return total

    def imbalance(self) -> float:
        """Return the largest over the mean true load of the active workers."""
        loads = self.true_loads()[list(self.plan.active)]
        return float(loads.max() / loads.mean())

    def step(self, controller: Controller) -> Decision:
        """Run a batch, decide, and advance to the next batch."""
        snapshot = self.observe()
        self.snapshots.append(snapshot)
        decision = controller(self.snapshots, self.decisions)
        self.decisions.append(decision)
        self.plan, self.next_plan = self.next_plan, decision.plan or self.next_plan
        self.batch += 1
        return decision

    def add_query(self, name: str, demand: QueryDemand, worker: int | None) -> None:
        """Add a query from the next batch on, keyed if `worker` is None."""
        self.queries = {**self.queries, name: demand}
        self.plan, self.next_plan = (
            replace(plan, tables={**plan.tables, name: RoutingTable()})
            if worker is None
            else replace(plan, placement={**plan.placement, name: worker})
            for plan in (self.plan, self.next_plan)
        )

    def remove_query(self, name: str) -> None:
        """End a query."""
        self.queries = {other: query for other, query in self.queries.items() if other != name}
        self.plan, self.next_plan = (
            replace(
                plan,
                placement={q: w for q, w in plan.placement.items() if q != name},
                tables={q: t for q, t in plan.tables.items() if q != name},
            )
            for plan in (self.plan, self.next_plan)
        )

    def observe(self) -> Snapshot:
        """Return the snapshot of the batch under the current plan."""
        loads = {name: self._query_load(name, query) for name, query in self.queries.items()}
        return Snapshot(
            self.batch,
            float(self.batch),
            1.0,
            self.plan,
            self.next_plan,
            self.drained,
            loads,
            self._shipped_bytes(),
            sum((query.load for query in loads.values()), np.zeros(self.plan.workers)),
        )

    def _owners(self, name: str, query: QueryDemand) -> Workers:
        if name in self.plan.tables:
            assert query.hashes is not None  # noqa: S101 - only keyable queries become keyed
            return self.plan.route(name, query.hashes)
        keys = 1 if query.hashes is None else len(query.hashes)
        return np.full(keys, self.plan.placement[name], dtype=np.int32)

    def _worker_loads(self, name: str, query: QueryDemand, cost: Floats) -> Floats:
        owners = self._owners(name, query)
        loads: Floats = np.bincount(owners, weights=cost, minlength=self.plan.workers).astype(float)
        splits = self._splits(name, query)
        parts = query.shared_parts(self.batch, cost) if splits else cost
        for key, workers in splits.items():
            shared = parts[key] * cost[key]
            loads[owners[key]] -= cost[key]
            loads[list(workers)] += shared + (cost[key] - shared) / len(workers)
        return loads + self._fixed_loads(name, query)

    def _splits(self, name: str, query: QueryDemand) -> dict[int, tuple[int, ...]]:
        """Return the split keys, by position, and their owners."""
        splits = self.plan.tables[name].splits if name in self.plan.tables else ()
        if not splits or query.hashes is None:
            return {}
        at = {int(query.hashes[key]): key for key in range(len(query.hashes))}
        return {at[split.key_hash]: split.owners for split in splits}

    def _fixed_loads(self, name: str, query: QueryDemand) -> Floats:
        """Return the fixed load of a query on each worker that runs it."""
        hosts = np.isin(np.arange(self.plan.workers), self._owners(name, query))
        return np.where(hosts, query.fixed_seconds, 0.0)

    def _measurement_factors(self) -> Floats:
        """Return measured over true load of each worker."""
        factors = np.maximum(1 + self.noise * self._rng.standard_normal(self.plan.workers), 0.05)
        for worker in range(self.plan.workers):
            if (self.batch, worker) in self.stalls:
                factors[worker] = 0.0
            elif (self.batch - 1, worker) in self.stalls:
                factors[worker] *= 2
        return factors

    def _query_load(self, name: str, query: QueryDemand) -> QueryLoad:
        factors = self._measurement_factors()
        owners = self._owners(name, query)
        measured = factors[owners]
        for key, workers in self._splits(name, query).items():
            measured[key] = factors[list(workers)].mean()
        cost = query.key_seconds(self.batch) * measured
        load = self._worker_loads(name, query, cost)
        held = np.bincount(owners, minlength=self.plan.workers).astype(np.float64)
        rows = np.rint(load / query.row_seconds).astype(np.int64)
        if query.key_rows is not None:
            counted = np.bincount(owners, query.key_rows(self.batch), self.plan.workers)
            rows = counted.astype(np.int64)
        return QueryLoad(
            query.streams, rows, rows, load, load, held * query.state_bytes,
            keys=self._key_stats(name, query, owners, cost) if name in self.plan.tables else None,
            pinned=query.pinned,
            keyable=query.hashes is not None,
            split_streams=(query.split_by,) if query.split_by else (),
        )  # fmt: skip

    def _key_stats(self, name: str, query: QueryDemand, owners: Workers, cost: Floats) -> KeyStats:
        assert query.hashes is not None  # noqa: S101 - only keyable queries become keyed
        ranked = np.lexsort((-cost, owners))
        begins = np.searchsorted(owners[ranked], np.arange(self.plan.workers))
        rank = np.arange(len(ranked)) - begins[owners[ranked]]
        seen = cost[ranked] > 0
        heavy = np.sort(ranked[(rank < self.heavy_keys) & seen])
        heavy = heavy[np.argsort(query.hashes[heavy], kind="stable")]
        light = ranked[(rank >= self.heavy_keys) & seen]
        counts = np.bincount(owners[light], minlength=self.plan.workers).astype(np.int64)
        rest = np.bincount(owners[light], weights=cost[light], minlength=self.plan.workers)
        fixed = self._fixed_loads(name, query)
        return KeyStats(
            query.hashes[heavy], owners[heavy], cost[heavy], np.full(len(heavy), query.state_bytes),
            tuple(f"key{at}" for at in heavy), counts,
            rest + fixed, counts.astype(np.float64) * query.state_bytes,
            fixed, query.rows(self.batch, cost)[heavy].astype(np.int64),
            query.shared_parts(self.batch, cost)[heavy] * cost[heavy],
            (query.split_by,) * len(heavy),
        )  # fmt: skip

    def _shipped_bytes(self) -> dict[str, Floats]:
        """Return the bytes of each stream sent to each worker with a whole query over it."""
        shipped: dict[str, Floats] = {}
        for name, query in self.queries.items():
            for stream in query.streams:
                sent = shipped.setdefault(stream, np.zeros(self.plan.workers))
                rate = self.stream_rates.get(stream, 1000.0)
                if name in self.plan.placement:
                    sent[self.plan.placement[name]] = rate
        return shipped
