"""What no placement gets the busiest worker below, and which item is to blame.

Items are keys or whole queries, each on one worker at a time, beside what stays there. Of the i
heaviest items each needs as much as the i-th at least. Up to a load L, a worker has room for
(L - what stays) / cost of such items, rounded down, and only from some L on for i of them in all.
So an item heavier than a worker's share is found, one that does not fit beside what stays, and nine
items on eight workers. All loads are in parts of the mean load of a worker.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.model.arrays import Floats
from evenflow.planning.controller.config import Balancing

LOWER_BOUND_TOLERANCE = 1e-3  # above the floor a plan may end: the last bit moves hundreds of keys
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The floor, the item to blame, and how many are as heavy; no item: what stays is the floor."""

    load: float
    limiting_item: int | None = None
    limiting_count: int = 0

    def target_load(self, config: Balancing) -> float:
        """Return the load of the busiest worker that plans aim at."""
        return max(1 + config.target_imbalance, self.load * (1 + LOWER_BOUND_TOLERANCE))

    def reachable_load(self, config: Balancing) -> float:
        """Return what plans come to that are worth making."""
        return self.target_load(config) * (1 + config.min_gain)

    def describe_others(self, things: str) -> str:
        """Say how many others are to blame as well, if any."""
        return (
            f", {self.limiting_count - 1} other {things} at least as much"
            if self.limiting_count > 1
            else ""
        )


def max_load_lower_bound(cost: Floats, stays: Floats, slack: float) -> LowerBound:
    """Return the floor of items beside what stays on each worker.

    Items of at most `slack` cannot raise it above 1 + slack, and are left out, as are those too
    light for plans to aim at.

    >>> max_load_lower_bound(np.array([0.75, 0.5, 0.05]), np.array([0.25, 0.45]), 0.1)
    LowerBound(load=1.0, limiting_item=0, limiting_count=1)
    >>> max_load_lower_bound(np.full(3, 0.6), np.array([0.1, 0.1]), 0.1)
    LowerBound(load=1.3, limiting_item=2, limiting_count=3)
    """
    floor = LowerBound(float(stays.max()))
    coarse = np.flatnonzero(cost > max(slack, LOWER_BOUND_TOLERANCE))
    if not len(coarse):
        return floor
    order = coarse[np.argsort(-cost[coarse], kind="stable")]
    number, each = np.arange(1, len(order) + 1), cost[order]
    # Poured over the workers like water, items rise to `level`; whole ones end a little above it.
    workers = np.arange(1, len(stays) + 1)
    level = ((number * each)[:, None] + np.cumsum(np.sort(stays))) / workers
    above = (level.min(axis=1)[:, None] - stays) / each[:, None]
    below = np.maximum(np.ceil(above - ROUNDING) - 1, 0)
    nearest = np.sort(stays + (below + 1) * each[:, None], axis=1)
    missing = number - below.sum(axis=1).astype(np.int64)
    load = nearest[np.arange(len(order)), missing - 1]
    worst = int(load.argmax())
    if load[worst] <= floor.load * (1 + ROUNDING):
        return floor
    return LowerBound(float(load[worst]), int(order[worst]), worst + 1)
