"""Input of the planners of keys and operators. Load is CPU seconds needed per second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenflow.errors import InputError
from evenflow.model.arrays import (
    Bools,
    Floats,
    Hashes,
    Workers,
    freeze_arrays,
    require_all_non_negative,
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyLoads:
    """The keys of one keyed query over one interval, one array entry per key.

    cost       c(k), load of the key
    state      S(k, w), bytes (or any unit) that a move of the key transfers
    home       h(k), the worker given by the hash
    owner      F(k), the worker that has the key now
    names      for verdicts; defaults to the position of the key
    immovable  marks keys that no planner may move; defaults to none
    shared     part of the cost that every owner of a split key pays; defaults to all of it, so that
               splitting gains nothing
    splits     present owners of split keys, home first; `owner` has their homes
    hashes     of the keys, for planners that choose workers by hash; defaults to their positions
    noise      standard deviation of the cost from interval to interval, by chance; defaults to none
    """

    cost: Floats
    state: Floats
    home: Workers
    owner: Workers
    workers: int
    names: Sequence[Any] | None = None
    immovable: Bools | None = None
    shared: Floats | None = None
    splits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    hashes: Hashes | None = None
    noise: Floats | None = None

    @classmethod
    def from_arrays(
        cls,
        cost: ArrayLike,
        state: ArrayLike,
        home: ArrayLike,
        owner: ArrayLike,
        workers: int,
        names: Sequence[Any] | None = None,
    ) -> "KeyLoads":
        """Build from anything that can become arrays."""
        loads = (np.asarray(cost, np.float64), np.asarray(state, np.float64))
        workers_of_keys = (np.asarray(home, np.int32), np.asarray(owner, np.int32))
        return cls(*loads, *workers_of_keys, workers, names)

    def __post_init__(self) -> None:
        freeze_arrays(self)
        lengths = {len(self.cost), len(self.state), len(self.home), len(self.owner)}
        if len(lengths | {len(self.immovable_mask), len(self.shared_cost)}) > 1:
            raise InputError("cost, state, home, owner and others need one entry for each key")
        if bool((self.shared_cost > self.cost * (1 + 1e-9)).any()):
            raise InputError("the shared cost of a key exceeds its cost")
        if self.workers < 1:
            raise InputError(f"at least one worker is needed, got {self.workers}")
        for name, values in (("cost", self.cost), ("state", self.state)):
            require_all_non_negative(name, values)
            with np.errstate(over="ignore"):
                if not np.isfinite(values.sum()):
                    raise InputError(f"{name} sums to more than a double holds; use larger units")
        for name, workers in (("home", self.home), ("owner", self.owner)):
            if len(workers) and not 0 <= int(workers.min()) <= int(workers.max()) < self.workers:
                raise InputError(f"{name} names a worker outside 0..{self.workers - 1}")

    def __len__(self) -> int:
        return len(self.cost)

    def key_name(self, key: int) -> str:
        """Return the name of a key for messages."""
        return str(key if self.names is None else self.names[key])

    @property
    def immovable_mask(self) -> Bools:
        """`immovable` as an array in any case."""
        return np.zeros(len(self), dtype=np.bool_) if self.immovable is None else self.immovable

    @property
    def shared_cost(self) -> Floats:
        """`shared` as an array in any case."""
        return self.cost if self.shared is None else self.shared

    @property
    def divisible(self) -> bool:
        """Whether splitting some key would gain anything."""
        return self.shared is not None and bool((self.shared < self.cost).any())

    def owners_of(self, key: int) -> tuple[int, ...]:
        """Return the present owners of a key, its home first."""
        return self.splits.get(key, (int(self.owner[key]),))

    def piece_cost(self, key: int, owners: int) -> float:
        """Return what each of some owners has of a key."""
        shared = float(self.shared_cost[key])
        return shared + (float(self.cost[key]) - shared) / owners

    def worker_loads(
        self,
        owner: Workers | None = None,
        splits: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Floats:
        """Return L(d) of every worker, with the current owners or others."""
        if owner is None:
            owner, splits = self.owner, self.splits if splits is None else splits
        loads: Floats = np.bincount(owner, weights=self.cost, minlength=self.workers).astype(float)
        for key, owners in (splits or {}).items():
            loads[owner[key]] -= self.cost[key]
            loads[list(owners)] += self.piece_cost(key, len(owners))
        return loads


@dataclass(frozen=True, slots=True, eq=False)
class LoadSeries:
    """The last k load samples of each running operator (a row each), oldest first.

    `movable` is False for operators that only count as load.
    """

    operators: tuple[str, ...]
    samples: Floats
    movable: Bools

    def __post_init__(self) -> None:
        freeze_arrays(self)
        shape = self.samples.shape
        if len(shape) != 2 or shape[0] != len(self.operators) or len(self.movable) != shape[0]:
            raise InputError(
                f"a load series needs a row of samples for each of {len(self.operators)} "
                f"operators, got an array of shape {shape}"
            )
        require_all_non_negative("load samples", self.samples)
