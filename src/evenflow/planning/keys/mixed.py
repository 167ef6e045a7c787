"""LLFD, MinTable, MinMig, Mixed and MixedBF (mixed-key-routing, section III, algorithms 1 to 4).

Phase I sends some entries of the routing table home, Phases II and III are LLFD. The planners
differ in two choices: which entries Phase I sends home, and which keys LLFD takes first.

    llfd      none                                       the heaviest
    mintable  all                                        the heaviest
    minmig    none                                       most load per state (psi)
    mixed     the n with the least state, n as needed    psi
    mixedbf   the n with the least state, every n tried  psi

Mixed starts with n = 0 and raises n by the entries that were too many.

Departures
- The listing of Mixed sets n to the excess of the last try, which can alternate for ever between
  two values. Here the excess is added to n, up to the size of the table.
- If even the full clean-up leaves too many entries, Mixed degenerates to MinTable (section V.B);
  the full clean-up itself wins if its table is smaller, or as small and better balanced.

Ties
    Phase I takes entries of equal state by their number, LLFD keys of equal psi or cost too.
    MixedBF tries n = 0 to N_A. Its best plan has the fewest entries beyond the bound, of equals the
    least load beyond the limit, then the least state moved, then the smallest n.
"""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, best_owners, plan_owners
from evenflow.planning.keys.llfd import llfd_owners
from evenflow.planning.keys.problem import KeyConfig, KeyPlan


def llfd(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Keep the table, move the heaviest keys first."""
    return plan_owners(
        keys, config, lambda goal: relieve_overload(keys, keys.owner, keys.cost, goal)
    )


def mintable(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Empty the table, then move the heaviest keys: few entries, much state moved."""
    return plan_owners(keys, config, lambda goal: _mintable_owners(keys, goal))


def minmig(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Keep the table, move the keys with most load per state: it grows without bound."""
    psi = migration_priority(keys.cost, keys.state, config.beta)
    return plan_owners(keys, config, lambda goal: relieve_overload(keys, keys.owner, psi, goal))


def mixed(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Move the keys with most load per state, sending home as many entries as the bound needs."""
    return plan_owners(keys, config, lambda goal: mixed_owners(keys, config, goal))


def mixedbf(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Try every number of entries to send home and keep the best plan."""
    psi = migration_priority(keys.cost, keys.state, config.beta)

    def owners(goal: BalanceGoal) -> Workers:
        table_keys = table_keys_by_state(keys, goal)
        counts = range(len(table_keys) + 1)
        candidates = (_owners_after_sending_home(keys, table_keys[:n], psi, goal) for n in counts)
        return best_owners(keys, config, goal, candidates)

    return plan_owners(keys, config, owners)


def mixed_owners(keys: KeyLoads, config: KeyConfig, goal: BalanceGoal) -> Workers:
    """Return Mixed's owners for a limit given by the caller."""
    psi = migration_priority(keys.cost, keys.state, config.beta)
    table_keys = table_keys_by_state(keys, goal)
    sent_home = 0
    while True:
        owner = _owners_after_sending_home(keys, table_keys[:sent_home], psi, goal)
        excess = int(np.count_nonzero(owner != keys.home)) - config.max_table
        if excess <= 0:
            return owner
        if sent_home == len(table_keys):
            break
        sent_home = min(sent_home + excess, len(table_keys))
    candidates = (_mintable_owners(keys, goal), owner)
    return best_owners(keys, config, goal, candidates)


def migration_priority(cost: Floats, state: Floats, beta: float) -> Floats:
    """Return the migration priority psi = c^beta / S: much load off for little state moved.

    Keys without state come first (they cost nothing to move), idle ones last.

    >>> cost, state = np.array([4.0, 1.0, 1.0, 0.0]), np.array([8.0, 2.0, 0.0, 0.0])
    >>> migration_priority(cost, state, 2.0).round(3).tolist()
    [0.889, 0.222, inf, 0.0]
    """
    mean = float(cost.mean()) if len(cost) else 0.0
    worth = np.power(cost / mean, beta) if mean > 0 else cost  # of the mean: no overflow
    free = np.where(worth > 0, np.inf, 0.0)
    priority: Floats = np.divide(worth, state, out=free, where=state > 0)
    return priority


def table_keys_by_state(keys: KeyLoads, goal: BalanceGoal) -> Indices:
    """Return the keys of the current routing table in Phase I's order eta: least state first."""
    table_keys = np.flatnonzero((keys.owner != keys.home) & ~goal.fixed_keys)
    return table_keys[np.argsort(keys.state[table_keys], kind="stable")]


def relieve_overload(keys: KeyLoads, owner: Workers, psi: Floats, goal: BalanceGoal) -> Workers:
    """Run Phases II and III from the owners Phase I left; idle keys relieve nobody and stay."""
    stays = goal.fixed_keys | (keys.cost == 0)
    return llfd_owners(keys.cost, psi, owner, stays, keys.workers, goal.max_load)


def _mintable_owners(keys: KeyLoads, goal: BalanceGoal) -> Workers:
    """Return MinTable's owners; fixed keys keep their entries."""
    start = np.where(goal.fixed_keys, keys.owner, keys.home)
    return relieve_overload(keys, start, keys.cost, goal)


def _owners_after_sending_home(
    keys: KeyLoads, sent: Indices, psi: Floats, goal: BalanceGoal
) -> Workers:
    owner = keys.owner.copy()
    owner[sent] = keys.home[sent]
    return relieve_overload(keys, owner, psi, goal)
