"""MinTable, MinMig and plain LLFD: algorithms 2, 3 and 1 of mixed-key-routing, section III.

They differ in two choices only: whether Phase I empties the routing table, and which keys go first.
"""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, balance_goal, finish_plan
from evenflow.planning.keys.phases import migration_priority, relieve_overload
from evenflow.planning.keys.problem import KeyConfig, KeyPlan


def llfd(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Keep the table, move the heaviest keys first."""
    aim = balance_goal(keys, config)
    return finish_plan(keys, config, relieve_overload(keys, keys.owner, keys.cost, aim), aim)


def mintable(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Empty the table, then move the heaviest keys: few entries, much state moved."""
    aim = balance_goal(keys, config)
    return finish_plan(keys, config, mintable_owners(keys, aim), aim)


def mintable_owners(keys: KeyLoads, aim: BalanceGoal) -> Workers:
    """Return MinTable's owners for a limit given by the caller; fixed keys keep their entries."""
    return relieve_overload(keys, np.where(aim.fixed_keys, keys.owner, keys.home), keys.cost, aim)


def minmig(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Keep the table, move the keys with most load per state: it grows without bound."""
    aim = balance_goal(keys, config)
    psi = migration_priority(keys.cost, keys.state, config.beta)
    return finish_plan(keys, config, relieve_overload(keys, keys.owner, psi, aim), aim)
