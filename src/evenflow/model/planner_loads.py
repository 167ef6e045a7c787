"""Load snapshots: what a planner is told. Load is CPU seconds needed per second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenflow.errors import InputError
from evenflow.model.arrays import Bools, Floats, Workers, frozen


@dataclass(frozen=True, slots=True, eq=False)
class KeyLoads:
    """The keys of one keyed query over one interval, one array entry a key.

    cost   c(k), load of the key
    state  S(k, w), bytes (or any unit) that a move of the key would carry
    home   h(k), the worker the hash gives
    owner  F(k), the worker that has the key now
    names  what to call the keys in verdicts; their positions if not given
    immovable  marks keys that no planner may move; none if not given
    """

    cost: Floats
    state: Floats
    home: Workers
    owner: Workers
    workers: int
    names: Sequence[Any] | None = None
    immovable: Bools | None = None

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
        """Make a snapshot of anything that can become arrays."""
        loads = (np.asarray(cost, np.float64), np.asarray(state, np.float64))
        places = (np.asarray(home, np.int32), np.asarray(owner, np.int32))
        return cls(*loads, *places, workers, names)

    def __post_init__(self) -> None:
        for name, dtype in (
            ("cost", np.float64),
            ("state", np.float64),
            ("home", np.int32),
            ("owner", np.int32),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        if self.immovable is not None:
            object.__setattr__(self, "immovable", frozen(self.immovable, np.bool_))
            if len(self.immovable) != len(self.cost):
                raise InputError("immovable must have one entry for each key")
        if self.workers < 1:
            raise InputError(f"at least one worker is needed, got {self.workers}")
        if not len(self.cost) == len(self.state) == len(self.home) == len(self.owner):
            raise InputError("cost, state, home and owner must have one entry for each key")
        for name in ("cost", "state"):
            values = getattr(self, name)
            if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
                raise InputError(f"{name} must be finite and not negative")
            with np.errstate(over="ignore"):
                if not np.isfinite(values.sum()):
                    raise InputError(f"{name} sums to more than a double holds; use larger units")
        for name in ("home", "owner"):
            at = getattr(self, name)
            if len(at) and not 0 <= int(at.min()) <= int(at.max()) < self.workers:
                raise InputError(f"{name} names a worker outside 0..{self.workers - 1}")

    def __len__(self) -> int:
        return len(self.cost)

    def key_name(self, key: int) -> str:
        """Return what to call a key when speaking to people."""
        return str(key if self.names is None else self.names[key])

    @property
    def immovable_mask(self) -> Bools:
        """Mark the keys that stay, as an array in any case."""
        return np.zeros(len(self), dtype=np.bool_) if self.immovable is None else self.immovable

    def worker_loads(self, owner: Workers | None = None) -> Floats:
        """Return L(d) of every worker, under the present owners or others."""
        at = self.owner if owner is None else owner
        loads: Floats = np.bincount(at, weights=self.cost, minlength=self.workers).astype(float)
        return loads


@dataclass(frozen=True, slots=True, eq=False)
class LoadSeries:
    """The last k load samples of each running operator (a row each), oldest first.

    `movable` is False for operators that count as load and never move.
    """

    operators: tuple[str, ...]
    samples: Floats
    movable: Bools

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", frozen(self.samples, np.float64))
        object.__setattr__(self, "movable", frozen(self.movable, np.bool_))
        shape = self.samples.shape
        if len(shape) != 2 or shape[0] != len(self.operators) or len(self.movable) != shape[0]:
            raise InputError(
                f"a load series needs a row of samples for each of {len(self.operators)} "
                f"operators, got an array of shape {shape}"
            )
        if not bool(np.isfinite(self.samples).all()) or bool((self.samples < 0).any()):
            raise InputError("load samples must be finite and not negative")
