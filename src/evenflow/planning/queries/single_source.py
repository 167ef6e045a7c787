"""The 2-approximation for single-source queries (herding-small-queries, section 4.2, figure 2).

The source of the largest rate that still has unplaced queries goes to the worker with the most
free capacity, as many queries as fit, and so on. Theorem 3: at most 1 + k/m times the optimum for
equal rates of m sources on k workers, at most twice the optimum for any rates.

Departures
    The proof first gives full workers to sources that can fill one, "which is optimal"; figure 2
    leaves that out. It is done here, roomiest workers first, because the ratio rests on it.
"""

import heapq

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.offline import (
    OfflineFill,
    assign_queries,
    finish_placement,
    fitting_count,
    start_fill,
)
from evenflow.planning.queries.problem import Placement, PlacementProblem


def single_source(problem: PlacementProblem, rng: np.random.Generator) -> Placement:
    """Place queries of one source each."""
    sizes = np.diff(problem.subscriptions.starts)
    if len(sizes) and sizes.max() > 1:
        raise InputError(
            f"single-source places queries of one source each, query {int(sizes.argmax())} has "
            f"{int(sizes.max())}; use another algorithm"
        )
    fill = start_fill(problem)
    order = np.lexsort((-fill.groups.load, -fill.group_traffic))
    _fill_single_source(fill, order)
    return finish_placement(fill, problem)


@kernel
def _fill_single_source(fill: OfflineFill, order: Indices) -> None:
    groups = fill.groups
    free = [(-fill.free_capacity[worker], worker) for worker in range(len(fill.free_capacity))]
    heapq.heapify(free)
    for item in order:
        while len(free) > 0 and fill.unplaced[item] > fitting_count(fill, item, free[0][1]) > 0:
            _, worker = heapq.heappop(free)
            assign_queries(fill, item, worker, fitting_count(fill, item, worker))
            heapq.heappush(free, (-fill.free_capacity[worker], worker))
            if fill.free_capacity[worker] >= groups.load[item]:
                break
    for item in order:
        while fill.unplaced[item] > 0 and len(free) > 0:
            worker = free[0][1]
            count = fitting_count(fill, item, worker)
            if count == 0:
                break
            heapq.heappop(free)
            assign_queries(fill, item, worker, count)
            heapq.heappush(free, (-fill.free_capacity[worker], worker))
