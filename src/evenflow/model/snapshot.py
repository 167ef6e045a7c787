"""Measurements of one batch: the controller's only input besides its earlier decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evenflow.model.arrays import Floats, Hashes, Indices, Workers, freeze_arrays
from evenflow.model.plan import Plan, Transfer


@dataclass(frozen=True, slots=True, eq=False)
class KeyStats:
    """The keys of a keyed query in one batch: heavy keys one by one, light keys summed up.

    hashes, owner, cost, state_bytes, names, rows  of each heavy key, ascending by hash
    rest_keys, rest_cost, rest_state_bytes         number, cost and state of light keys per worker
    rest_fixed_cost                                part of `rest_cost` that no row causes
    shared_cost                                    part of `cost` that every owner of a split pays
    split_by                                       stream to split the key by; "" if it cannot be

    Cost is in CPU seconds of the batch, state in bytes. Names are for messages only. A split key is
    listed once, its owner is its home, and its cost is what it would be on one worker: at r owners
    each has shared_cost + (cost - shared_cost) / r.
    """

    hashes: Hashes
    owner: Workers
    cost: Floats
    state_bytes: Floats
    names: tuple[str, ...]
    rest_keys: Indices
    rest_cost: Floats
    rest_state_bytes: Floats
    rest_fixed_cost: Floats
    rows: Indices
    shared_cost: Floats = field(default_factory=lambda: np.zeros(0))
    split_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.shared_cost):
            object.__setattr__(self, "shared_cost", np.zeros(len(self.hashes)))
        if not self.split_by:
            object.__setattr__(self, "split_by", ("",) * len(self.hashes))
        freeze_arrays(self)

    def cost_shares(self) -> Floats:
        """Return the share of each heavy key in the cost of all rows."""
        total = float(self.cost.sum() + (self.rest_cost - self.rest_fixed_cost).sum())
        return self.cost / total if total > 0 else np.zeros_like(self.cost)


WORKER_FIELDS = ("rows_in", "rows_out", "cpu_seconds", "load", "state_bytes")
"""The fields of `QueryLoad` with one entry per worker; columns of the same names in the history."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryLoad:
    """One query in one batch; arrays have one entry per worker.

    cpu_seconds    as measured
    load           CPU seconds attributed by rows, which is less noisy; planners use it
    keys           statistics of a keyed query
    keyable        whether a whole query could be keyed
    split_streams  streams by which its keys can be split; none if they cannot
    """

    streams: tuple[str, ...]
    rows_in: Indices
    rows_out: Indices
    cpu_seconds: Floats
    load: Floats
    state_bytes: Floats
    keys: KeyStats | None = None
    pinned: bool = False
    keyable: bool = False
    publishes: bool = False
    split_streams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_arrays(self)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One batch.

    at                  end of the batch, in seconds since the epoch
    interval_seconds    since the end of the batch before
    plan                in force during the batch
    next_plan           the plan to change: in force next, or once its state has been transferred
    workers_to_drain    workers requested to be drained; `plan.drained` are drained already
    shipped_bytes       stream -> bytes sent to each worker
    worker_cpu_seconds  CPU seconds of each worker for the whole batch
    transfers           state that workers handed over at the end of the batch
    idle                no query had work: the batch only applied commands or moved state
    """

    batch: int
    at: float
    interval_seconds: float
    plan: Plan
    next_plan: Plan
    workers_to_drain: frozenset[int] = frozenset()
    queries: Mapping[str, QueryLoad] = field(default_factory=dict)
    shipped_bytes: Mapping[str, Floats] = field(default_factory=dict)
    worker_cpu_seconds: Floats = field(default_factory=lambda: np.zeros(0))
    transfers: tuple[Transfer, ...] = ()
    idle: bool = field(init=False)

    def __post_init__(self) -> None:
        worked = any(query.load.any() for query in self.queries.values())
        object.__setattr__(self, "idle", not worked)

    def worker_loads(self) -> Floats:
        """Return the load of each worker: its whole queries and its keys."""
        total = np.zeros(self.plan.workers)
        for query in self.queries.values():
            total += query.load
        return total


def imbalance(loads: Floats, active: tuple[int, ...] | None = None) -> float:
    """Return the largest over the mean load of the active workers; 1 if even or idle.

    >>> imbalance(np.array([3.0, 1.0, 2.0, 0.0]), active=(0, 1, 2))
    1.5
    """
    loads = loads if active is None else loads[list(active)]
    mean = float(loads.mean()) if len(loads) else 0.0
    return float(loads.max()) / mean if mean > 0 else 1.0


class HotKey(NamedTuple):
    """A key, its share of the cost of the query's rows, and its worker in the next plan.

    A split key has several `owners`; `owner` is the first of them.
    """

    name: str
    share: float
    owner: int
    owners: tuple[int, ...] = ()


def hot_keys(snapshots: Sequence[Snapshot], query: str, count: int) -> list[HotKey]:
    """Return the heaviest keys of a keyed query in the last batch that had rows of it."""
    if not snapshots or query not in snapshots[-1].next_plan.tables:
        return []
    for snapshot in reversed(snapshots):
        keys = snapshot.queries[query].keys if query in snapshot.queries else None
        if keys is None or not keys.cost.any():  # no rows: windows closed, state moved
            continue
        shares = keys.cost_shares()
        order = np.argsort(-shares, kind="stable")[:count]
        plan = snapshots[-1].next_plan
        owners = [plan.owners_of_key(query, int(keys.hashes[key])) for key in order]
        return [
            HotKey(keys.names[key], float(shares[key]), workers[0], workers)
            for key, workers in zip(order, owners, strict=True)
        ]
    return []
