"""Mixed and MixedBF, algorithm 4 of mixed-key-routing, section III-C.

MinMig, after n entries of the routing table, those with the least state, have been sent home.
Mixed starts with n = 0 and raises n by the entries that were too many; MixedBF tries every n.

Departures
- The listing sets n to the excess of the last try, which can alternate for ever between two
  values. Here the excess is added to n, up to the size of the table.
- If even the full clean-up leaves too many entries, the smallest table of that, MinTable and the
  present owners wins, of equals the better balance, then the least state moved.
- MixedBF includes n = 0; plans are ordered in the same way, then by small n.
"""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, balance_goal, finish_plan, plan_rank
from evenflow.planning.keys.classic import mintable_owners
from evenflow.planning.keys.phases import migration_priority, relieve_overload, table_keys_by_state
from evenflow.planning.keys.problem import KeyConfig, KeyPlan


def mixed(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Move the keys with most load per state, sending home as many entries as the bound asks."""
    aim = balance_goal(keys, config)
    return finish_plan(keys, config, mixed_owners(keys, config, aim), aim)


def mixed_owners(keys: KeyLoads, config: KeyConfig, aim: BalanceGoal) -> Workers:
    """Return Mixed's owners for a limit given by the caller."""
    psi, listed = (
        migration_priority(keys.cost, keys.state, config.beta),
        table_keys_by_state(keys, aim),
    )
    sent_home = 0
    while True:
        owner = _owners_after_sending_home(keys, listed[:sent_home], psi, aim)
        excess = int(np.count_nonzero(owner != keys.home)) - config.max_table
        if excess <= 0:
            return owner
        if sent_home == len(listed):
            break
        sent_home = min(sent_home + excess, len(listed))
    plans = (keys.owner, owner, mintable_owners(keys, aim))
    return min(plans, key=lambda new: plan_rank(keys, config, aim, new))


def mixedbf(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Try every number of entries to send home and keep the best plan."""
    aim = balance_goal(keys, config)
    psi, listed = (
        migration_priority(keys.cost, keys.state, config.beta),
        table_keys_by_state(keys, aim),
    )
    plans = (
        _owners_after_sending_home(keys, listed[:sent_home], psi, aim)
        for sent_home in range(len(listed) + 1)
    )
    return finish_plan(
        keys, config, min(plans, key=lambda new: plan_rank(keys, config, aim, new)), aim
    )


def _owners_after_sending_home(
    keys: KeyLoads, home: Indices, psi: Floats, aim: BalanceGoal
) -> Workers:
    owner = keys.owner.copy()
    owner[home] = keys.home[home]
    return relieve_overload(keys, owner, psi, aim)
