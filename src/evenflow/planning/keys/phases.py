"""The three phases that all planners of section III share, and their selection orders."""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal
from evenflow.planning.keys.llfd import llfd_owners


def migration_priority(cost: Floats, state: Floats, beta: float) -> Floats:
    """Return the migration priority c^beta / S: much load off for little state moved.

    Keys without state come first (they cost nothing to move), idle ones last.

    >>> migration_priority(np.array([4.0, 1.0, 1.0, 0.0]), np.array([8.0, 2.0, 0.0, 0.0]), 2.0).round(3).tolist()
    [0.889, 0.222, inf, 0.0]
    """
    mean = float(cost.mean()) if len(cost) else 0.0
    worth = np.power(cost / mean, beta) if mean > 0 else cost  # of the mean: no overflow
    free = np.where(worth > 0, np.inf, 0.0)
    priority: Floats = np.divide(worth, state, out=free, where=state > 0)
    return priority


def table_keys_by_state(keys: KeyLoads, aim: BalanceGoal) -> Indices:
    """Return the keys of the routing table in force in Phase I's order eta."""
    listed = np.flatnonzero((keys.owner != keys.home) & ~aim.fixed_keys)
    return listed[np.argsort(keys.state[listed], kind="stable")]


def relieve_overload(keys: KeyLoads, owner: Workers, psi: Floats, aim: BalanceGoal) -> Workers:
    """Run Phases II and III from the owners Phase I left; idle keys relieve nobody and stay."""
    stays = aim.fixed_keys | (keys.cost == 0)
    return llfd_owners(keys.cost, psi, owner, stays, keys.workers, aim.max_load)
