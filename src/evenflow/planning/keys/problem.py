"""What a key planner is given, and what it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import require_non_negative
from evenflow.model import KeyLoads, Verdict
from evenflow.model.arrays import Floats, Workers, frozen


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """The bounds a plan must keep, and the weights that steer the heuristics.

    max_imbalance  theta_max: no worker may carry more than (1 + theta_max) times the mean load
    max_table      A_max: entries the routing table may have
    beta           weight of cost against state when Mixed and MinMig choose keys to move
    max_owners     workers that a split key may have; 1: no key is split
    shrink         whether split keys may get fewer owners
    """

    max_imbalance: float = 0.08
    max_table: int = 3000
    beta: float = 1.5
    max_owners: int = 1 << 30
    shrink: bool = True

    def __post_init__(self) -> None:
        for name in ("max_imbalance", "max_table", "beta"):
            require_non_negative(name.replace("_", "-"), getattr(self, name))


@dataclass(frozen=True, slots=True, eq=False)
class KeyPlan:
    """The new owner of every key, the loads that follow, and a verdict for each broken bound.

    The routing table holds the keys whose owner is not their home, the hash worker, and the split
    keys with all their owners; `owner` has the first of them.
    """

    owner: Workers
    loads: Floats
    verdicts: tuple[Verdict, ...] = ()
    splits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", frozen(self.owner, np.int32))
        object.__setattr__(self, "loads", frozen(self.loads, np.float64))

    def table_size(self, keys: KeyLoads) -> int:
        """Return N_A, the number of entries of the new routing table."""
        away = self.owner != keys.home
        away[list(self.splits)] = True
        return int(np.count_nonzero(away))


KeyPlanner = Callable[[KeyLoads, KeyConfig, np.random.Generator], KeyPlan]
