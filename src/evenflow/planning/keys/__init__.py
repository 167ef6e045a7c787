"""Which key of a heavy query goes to which worker (mixed-key-routing, HPDC 2017).

`ALGORITHMS` names every planner; each is a function (keys, config, rng) -> KeyPlan.
"""

from collections.abc import Callable

import numpy as np

from evenflow.model import KeyLoads
from evenflow.planning.keys.balance_goal import feasible
from evenflow.planning.keys.baselines import hash_only, shuffled_loads, simple
from evenflow.planning.keys.classic import llfd, minmig, mintable
from evenflow.planning.keys.compact import compact
from evenflow.planning.keys.cover import cover
from evenflow.planning.keys.exact import exact
from evenflow.planning.keys.mixed import mixed, mixedbf
from evenflow.planning.keys.pkg import pkg
from evenflow.planning.keys.problem import KeyConfig, KeyPlan
from evenflow.planning.keys.readj import readj

KeyPlanner = Callable[[KeyLoads, KeyConfig, np.random.Generator], KeyPlan]

ALGORITHMS: dict[str, KeyPlanner] = {
    "hash": hash_only,
    "simple": simple,
    "llfd": llfd,
    "mintable": mintable,
    "minmig": minmig,
    "mixed": mixed,
    "mixedbf": mixedbf,
    "compact": compact,
    "readj": readj,
    "pkg": pkg,
    "cover": cover,
    "exact": exact,
}


def warm_up(planner: KeyPlanner) -> None:
    """Plan two tiny cases, one of them with hardly a table, so that all kernels are compiled."""
    count, workers = 60, 3
    at = np.arange(count)
    cost = 1000.0 / (at + 1)
    keys = KeyLoads.from_arrays(cost, cost[::-1], (at % 7) % workers, (at % 5) % workers, workers)
    for max_table in (count, 2):
        planner(keys, KeyConfig(max_table=max_table), np.random.default_rng(0))


__all__ = [
    "ALGORITHMS",
    "KeyConfig",
    "KeyPlan",
    "KeyPlanner",
    "feasible",
    "shuffled_loads",
    "warm_up",
]
