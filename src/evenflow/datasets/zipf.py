"""Zipf-distributed choices."""

import numpy as np

from evenflow.model.arrays import Indices


def draw_zipf(rng: np.random.Generator, skew: float, items: int, count: int) -> Indices:
    """Draw `count` ranks below `items`; rank r has a weight of (r + 1) ** -skew."""
    weights = np.arange(1, items + 1, dtype=np.float64) ** -skew
    return np.asarray(rng.choice(items, count, p=weights / weights.sum()), dtype=np.int64)
