"""The three phases that all planners of section III share, and their selection orders."""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Workers
from evenflow.planning.keys.bound import Bound
from evenflow.planning.keys.llfd import llfd


def gamma(keys: KeyLoads, beta: float) -> Floats:
    """Return the migration priority c^beta / S: much load off for little state moved.

    Keys without state come first (they cost nothing to move), idle ones last.

    >>> keys = KeyLoads([4.0, 4.0, 0.0], [8.0, 0.0, 0.0], [0, 0, 0], [0, 0, 0], workers=1)
    >>> gamma(keys, 1.5).tolist()
    [1.0, inf, 0.0]
    """
    worth = np.power(keys.cost, beta)
    return np.divide(
        worth, keys.state, out=np.where(worth > 0, np.inf, 0.0), where=keys.state > 0
    )


def smallest_state_first(keys: KeyLoads) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the keys of the routing table in force in Phase I's order eta."""
    listed = np.flatnonzero(keys.owner != keys.home)
    return listed[np.argsort(keys.state[listed], kind="stable")]


def relieve(keys: KeyLoads, owner: Workers, psi: Floats, aim: Bound) -> Workers:
    """Run Phases II and III from the owners that Phase I left."""
    return llfd(keys.cost, psi, owner, aim.fixed, keys.workers, aim.limit)
