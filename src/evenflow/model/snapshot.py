"""What was observed in one batch: the controller's only input besides its own decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evenflow.model.arrays import Floats, Hashes, Indices, Workers, frozen
from evenflow.model.plan import Plan, Transfer


@dataclass(frozen=True, slots=True, eq=False)
class KeyStats:
    """The keys of a keyed query in one batch: heavy ones one by one, the others added up.

    hashes, owner, cost, state_bytes, names  one entry for each heavy key, ascending by hash
    rest_keys, rest_cost, rest_state_bytes  number, cost and state of the others on each worker
    rest_fixed_cost                    of rest_cost, what no row causes
    rows                               of each heavy key in the batch
    cost is in CPU seconds of the batch, state in bytes; names are for people.
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

    def __post_init__(self) -> None:
        for name, dtype in (
            ("hashes", np.uint64),
            ("owner", np.int32),
            ("cost", np.float64),
            ("state_bytes", np.float64),
            ("rest_keys", np.int64),
            ("rest_cost", np.float64),
            ("rest_state_bytes", np.float64),
            ("rest_fixed_cost", np.float64),
            ("rows", np.int64),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))

    def cost_shares(self) -> Floats:
        """Return the part of each heavy key in all that rows cost."""
        total = float(self.cost.sum() + (self.rest_cost - self.rest_fixed_cost).sum())
        return self.cost / total if total > 0 else np.zeros_like(self.cost)


@dataclass(frozen=True, slots=True, eq=False)
class QueryLoad:
    """One query in one batch; arrays have an entry for each worker.

    cpu_seconds  as measured
    load         CPU seconds attributed by rows, so that the noise of one measurement on one
                 worker is not taken for imbalance: what planners use
    keys         of a keyed query
    keyable      whether a whole query's SQL allows to spread it by a key
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

    def __post_init__(self) -> None:
        for name, dtype in (
            ("rows_in", np.int64),
            ("rows_out", np.int64),
            ("cpu_seconds", np.float64),
            ("load", np.float64),
            ("state_bytes", np.float64),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One batch.

    at         seconds since the epoch when the batch ended
    interval_seconds  since the batch before ended: load over seconds is the share of a core
    plan       held in this batch
    next_plan  holds in the next one, or after it if state is on its way: what to change
    workers_to_drain  the workers that are asked to be drained from now on (`plan.drained` are so now)
    shipped_bytes  stream -> bytes that each worker was sent
    worker_cpu_seconds  CPU seconds of each worker, all its work for the batch
    transfers  state that workers gave to others at its end
    idle       whether no query had work: a batch to take in what was asked, or to move state
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
        """Return the load of every worker: what its queries and its shares of keyed ones need."""
        total = np.zeros(self.plan.workers)
        for query in self.queries.values():
            total += query.load
        return total


def imbalance(loads: Floats, active: tuple[int, ...] | None = None) -> float:
    """Return the largest load over the mean of the active workers, 1 when even or idle.

    >>> imbalance(np.array([3.0, 1.0, 2.0, 0.0]), active=(0, 1, 2))
    1.5
    """
    taken = loads if active is None else loads[list(active)]
    mean = float(taken.mean()) if len(taken) else 0.0
    return float(taken.max()) / mean if mean > 0 else 1.0
