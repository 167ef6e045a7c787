"""MinTable, MinMig and plain LLFD: algorithms 2, 3 and 1 of mixed-key-routing, section III.

They differ in two choices only: whether Phase I empties the routing table, and which keys go first.
"""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Workers
from evenflow.planning.keys.bound import Bound, bound, close
from evenflow.planning.keys.config import KeyConfig, KeyPlan
from evenflow.planning.keys.phases import gamma, relieve


def llfd(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Keep the table, move the heaviest keys first."""
    aim = bound(keys, config)
    return close(keys, config, relieve(keys, keys.owner, keys.cost, aim), aim)


def mintable(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Empty the table, then move the heaviest keys: few entries, much state moved."""
    aim = bound(keys, config)
    return close(keys, config, mintable_owners(keys, aim), aim)


def mintable_owners(keys: KeyLoads, aim: Bound) -> Workers:
    """Return MinTable's owners for a limit given by the caller; fixed keys keep their entries."""
    return relieve(keys, np.where(aim.fixed, keys.owner, keys.home), keys.cost, aim)


def minmig(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Keep the table, move the keys with most load per state: it grows without bound."""
    aim = bound(keys, config)
    psi = gamma(keys.cost, keys.state, config.beta)
    return close(keys, config, relieve(keys, keys.owner, psi, aim), aim)
