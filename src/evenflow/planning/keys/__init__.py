"""Which key of a heavy query goes to which worker (mixed-key-routing, HPDC 2017).

`ALGORITHMS` names every planner; each is a function (keys, config, rng) -> KeyPlan.
"""

from collections.abc import Callable

import numpy as np

from evenflow.model import KeyLoads
from evenflow.planning.keys.bound import feasible
from evenflow.planning.keys.classic import llfd, minmig, mintable
from evenflow.planning.keys.config import KeyConfig, KeyPlan
from evenflow.planning.keys.cover import cover
from evenflow.planning.keys.exact import exact
from evenflow.planning.keys.mixed import mixed, mixedbf
from evenflow.planning.keys.simple import hash_only, ideal, simple

KeyPlanner = Callable[[KeyLoads, KeyConfig, np.random.Generator], KeyPlan]

ALGORITHMS: dict[str, KeyPlanner] = {
    "hash": hash_only,
    "simple": simple,
    "llfd": llfd,
    "mintable": mintable,
    "minmig": minmig,
    "mixed": mixed,
    "mixedbf": mixedbf,
    "cover": cover,
    "exact": exact,
}

__all__ = ["ALGORITHMS", "KeyConfig", "KeyPlan", "KeyPlanner", "feasible", "ideal"]
