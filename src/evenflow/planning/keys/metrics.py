"""How good a key plan is: windowed state, deviation from the mean, migration cost (section II)."""

from collections.abc import Sequence

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Workers


def windowed_state(sizes: Sequence[Floats], window: int) -> Floats:
    """Return S(k, w): the state of each key from the last w intervals, newest last.

    >>> windowed_state([np.array([9.0]), np.array([1.0]), np.array([2.0])], window=2).tolist()
    [3.0]
    """
    total: Floats = np.sum(np.stack(sizes[-window:]), axis=0)
    return total


def max_relative_deviation(loads: Floats) -> float:
    """Return the largest theta(d) = |L(d) - mean| / mean; 0 without load.

    >>> max_relative_deviation(np.array([16.0, 4.0]))
    0.6
    """
    mean = float(loads.mean())
    return float(np.abs(loads - mean).max() / mean) if mean > 0 else 0.0


def moved_state(keys: KeyLoads, owner: Workers) -> float:
    """Return M(w, F, F'): the state of all keys that change worker."""
    return float(keys.state[owner != keys.owner].sum())
