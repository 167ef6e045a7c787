"""A lower bound of the load of the busiest worker, and the item that causes it.

Items are keys or whole queries, each on one worker, next to the load that stays there. Consider the
i heaviest items, each at least as heavy as the i-th. With a load of at most L, a worker has room
for floor((L - fixed load) / cost of the i-th) of them; the smallest L with room for i items on all
workers is a lower bound. It covers an item that is heavier than the mean load, one that does not
fit next to the fixed load, and nine items on eight workers. Loads are in mean loads of a worker.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.model.arrays import Floats
from evenflow.planning.controller.config import Balancing

LOWER_BOUND_TOLERANCE = 1e-3  # plans may stay this far above: the rest moves hundreds of keys
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The bound, the item that causes it (None: fixed load), and the number of items as heavy."""

    load: float
    limiting_item: int | None = None
    limiting_count: int = 0

    def target_load(self, config: Balancing) -> float:
        """Return the load of the busiest worker that plans aim at."""
        return max(1 + config.target_imbalance, self.load * (1 + LOWER_BOUND_TOLERANCE))

    def reachable_load(self, config: Balancing) -> float:
        """Return the load that plans worth their moves reach."""
        return self.target_load(config) * (1 + config.min_gain)

    def describe_others(self, items: str) -> str:
        """Return a phrase for messages on the other items that are as heavy, if any."""
        others = self.limiting_count - 1
        return f", {others} other {items} at least as much" if others > 0 else ""


def max_load_lower_bound(cost: Floats, fixed: Floats, slack: float) -> LowerBound:
    """Return the lower bound for items next to the fixed load of each worker.

    Items of at most `slack` are left out: they cannot raise it above 1 + slack.

    >>> max_load_lower_bound(np.array([0.75, 0.5, 0.05]), np.array([0.25, 0.45]), 0.1)
    LowerBound(load=1.0, limiting_item=0, limiting_count=1)
    >>> max_load_lower_bound(np.full(3, 0.6), np.array([0.1, 0.1]), 0.1)
    LowerBound(load=1.3, limiting_item=2, limiting_count=3)
    """
    bound = LowerBound(float(fixed.max()))
    coarse = np.flatnonzero(cost > max(slack, LOWER_BOUND_TOLERANCE))
    if not len(coarse):
        return bound
    order = coarse[np.argsort(-cost[coarse], kind="stable")]
    number, each = np.arange(1, len(order) + 1), cost[order]
    # Divisible items would reach the water-filling level; whole items end at or above it.
    workers = np.arange(1, len(fixed) + 1)
    level = ((number * each)[:, None] + np.cumsum(np.sort(fixed))) / workers
    room = (level.min(axis=1)[:, None] - fixed) / each[:, None]
    below = np.maximum(np.ceil(room - ROUNDING) - 1, 0)
    nearest = np.sort(fixed + (below + 1) * each[:, None], axis=1)
    missing = number - below.sum(axis=1).astype(np.int64)
    load = nearest[np.arange(len(order)), missing - 1]
    worst = int(load.argmax())
    if load[worst] <= bound.load * (1 + ROUNDING):
        return bound
    return LowerBound(float(load[worst]), int(order[worst]), worst + 1)
