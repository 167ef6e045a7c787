"""Placement of items one by one, each on the worker that is least loaded then.

Heaviest item first, this is LPT (longest processing time): `simple` of the key planners, and the
first plan of the operator planners LLF-GLB and variance. In random order it is RAND-GLB
(borealis-load-distribution, section 5.1.3).
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Workers


@kernel
def place_on_least_loaded(cost: Floats, loads: Floats) -> Workers:
    """Return the worker of each item in turn, given the loads before; ties go to the lowest.

    >>> place_on_least_loaded(np.array([3.0, 2.0, 2.0]), np.zeros(2)).tolist()
    [0, 1, 1]
    """
    worker_of = np.empty(len(cost), dtype=np.int32)
    heap = [(loads[worker], worker) for worker in range(len(loads))]
    heapq.heapify(heap)
    for item in range(len(cost)):
        load, worker = heap[0]
        heapq.heapreplace(heap, (load + cost[item], worker))
        worker_of[item] = worker
    return worker_of


def place_on_least_loaded_plain(cost: Floats, loads: Floats) -> Workers:
    """Return the same by looking at every worker for every item: the kernel's oracle."""
    load, worker_of = loads.tolist(), []
    for item in range(len(cost)):
        worker = load.index(min(load))
        load[worker] += cost[item]
        worker_of.append(worker)
    return np.array(worker_of, dtype=np.int32)


def place_by_preference(
    preference: Floats, load: Floats, movable: Bools, placement: Workers, workers: int
) -> None:
    """Place movable items, most preferred first, next to the fixed ones; `placement` changes."""
    loads = np.bincount(placement[~movable], load[~movable], workers).astype(float)
    order = np.argsort(-preference, kind="stable")
    order = order[movable[order]]
    placement[order] = place_on_least_loaded(load[order], loads)
