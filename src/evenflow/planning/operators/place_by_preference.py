"""LLF-GLB and RAND-GLB: place operators by a fixed order of preference.

The rivals of COR-GLB in borealis-load-distribution, section 5.1.3: each time, the least loaded
worker receives the operator with the largest load (LLF) or one drawn by lot (RAND), whatever its
bursts; one round of one-way balancing by the same preference closes, as in COR-GLB.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers


def place_by_preference(
    preference: Floats, load: Floats, movable: Bools, placement: Workers, workers: int
) -> None:
    """Place movable operators, most preferred first; `placement` is changed in place."""
    place_in_order(
        np.argsort(-preference, kind="stable"), load, movable, placement, np.zeros(workers)
    )


@kernel
def place_in_order(
    order: Indices, load: Floats, movable: Bools, placement: Workers, loads: Floats
) -> None:
    """Place movable operators in order on the least loaded worker; `placement` changes."""
    for o in range(len(load)):
        if not movable[o]:
            loads[placement[o]] += load[o]
    for o in order:
        if movable[o]:
            receiver = np.argmin(loads)
            placement[o] = receiver
            loads[receiver] += load[o]


def place_by_preference_plain(
    preference: Floats, load: Floats, movable: Bools, placement: Workers, workers: int
) -> Workers:
    """Return the placement by preference in plain Python: the kernel's oracle."""
    placement = np.where(movable, -1, placement).astype(np.int32)
    for o in sorted(np.flatnonzero(movable).tolist(), key=lambda o: (-preference[o], o)):
        loads = [load[placement == worker].sum() for worker in range(workers)]
        placement[o] = loads.index(min(loads))
    return placement
