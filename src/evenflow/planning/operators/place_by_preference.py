"""LLF-GLB and RAND-GLB: place operators by a fixed order of preference.

The baselines of COR-GLB in borealis-load-distribution, section 5.1.3: each time, the least loaded
worker receives the operator with the largest load (LLF) or a random one (RAND), whatever its
bursts; one round of one-way balancing by the same preference closes, as in COR-GLB.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.least_loaded import place_on_least_loaded


def place_by_preference(
    preference: Floats, load: Floats, movable: Bools, placement: Workers, workers: int
) -> None:
    """Place movable operators, most preferred first; `placement` is changed in place."""
    loads = np.bincount(placement[~movable], load[~movable], workers).astype(float)
    order = np.argsort(-preference, kind="stable")
    order = order[movable[order]]
    placement[order] = place_on_least_loaded(load[order], loads)
