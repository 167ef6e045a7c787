"""Mixed and MixedBF, algorithm 4 of mixed-key-routing, section III-C.

MinMig, after n entries of the routing table, those with the least state, have been sent home.
Mixed starts with n = 0 and raises n by the entries that were too many; MixedBF tries every n.

Departures
- The listing sets n to the excess of the last try, which can alternate for ever between two
  values. Here the excess is added to n, up to the size of the table.
- If even the full clean-up leaves too many entries, the smaller table of that and MinTable wins.
- MixedBF includes n = 0, and prefers a plan that keeps the bounds, then little state, then small n.
"""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.bound import Bound, bound, close
from evenflow.planning.keys.config import KeyConfig, KeyPlan
from evenflow.planning.keys.phases import gamma, relieve, smallest_state_first
from evenflow.planning.keys.statistics import moved_state


def mixed(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Move the keys with most load per state, sending home as many entries as the bound asks."""
    aim = bound(keys, config)
    return close(keys, config, mixed_owners(keys, config, aim), aim)


def mixed_owners(keys: KeyLoads, config: KeyConfig, aim: Bound) -> Workers:
    """Return Mixed's owners for a limit given by the caller."""
    psi, listed = gamma(keys.cost, keys.state, config.beta), smallest_state_first(keys, aim)
    sent_home = 0
    while True:
        owner = _with_sent_home(keys, listed[:sent_home], psi, aim)
        excess = int(np.count_nonzero(owner != keys.home)) - config.max_table
        if excess <= 0:
            return owner
        if sent_home == len(listed):
            break
        sent_home = min(sent_home + excess, len(listed))
    cleaned = np.where(aim.fixed, keys.owner, keys.home)
    table_first = relieve(keys, cleaned, keys.cost, aim)
    return min((owner, table_first), key=lambda new: int(np.count_nonzero(new != keys.home)))


def mixedbf(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Try every number of entries to send home and keep the best plan."""
    aim = bound(keys, config)
    psi, listed = gamma(keys.cost, keys.state, config.beta), smallest_state_first(keys, aim)
    best: tuple[tuple[bool, float, float], Workers] | None = None
    for sent_home in range(len(listed) + 1):
        owner = _with_sent_home(keys, listed[:sent_home], psi, aim)
        entries = int(np.count_nonzero(owner != keys.home))
        over = float(max(entries - config.max_table, 0))
        rank = (not aim.kept(keys.loads(owner)), over, moved_state(keys, owner))
        if best is None or rank < best[0]:
            best = (rank, owner)
    assert best is not None  # noqa: S101 - the loop runs at least once
    return close(keys, config, best[1], aim)


def _with_sent_home(keys: KeyLoads, home: Indices, psi: Floats, aim: Bound) -> Workers:
    owner = keys.owner.copy()
    owner[home] = keys.home[home]
    return relieve(keys, owner, psi, aim)
