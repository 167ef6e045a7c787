"""Statistics of section II: windowed state, imbalance, migration cost."""

from collections.abc import Sequence

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Workers


def windowed_state(sizes: Sequence[Floats], window: int) -> Floats:
    """Return S(k, w): what each key keeps of the last w intervals, newest last.

    >>> windowed_state([np.array([9.0]), np.array([1.0]), np.array([2.0])], window=2).tolist()
    [3.0]
    """
    total: Floats = np.sum(np.stack(sizes[-window:]), axis=0)
    return total


def max_relative_deviation(loads: Floats) -> float:
    """Return the largest theta(d) = |L(d) - mean| / mean; 0 when nothing runs.

    >>> max_relative_deviation(np.array([16.0, 4.0]))
    0.6
    """
    mean = float(loads.mean())
    return float(np.abs(loads - mean).max() / mean) if mean > 0 else 0.0


def max_over_mean(loads: Floats) -> float:
    """Return the load of the fullest worker in units of the mean: what bounds throughput.

    >>> max_over_mean(np.array([16.0, 4.0]))
    1.6
    """
    mean = float(loads.mean())
    return float(loads.max() / mean) if mean > 0 else 1.0


def moved_state(keys: KeyLoads, owner: Workers) -> float:
    """Return M(w, F, F'): the state of all keys that change their worker."""
    return float(keys.state[owner != keys.owner].sum())
