"""MQP, minimum query type packing (herding-small-queries, section 4.1.1).

Workers are filled one after another: each takes the largest remaining groups of equal queries
until it has theta load; what exceeds its capacity goes back to the pool.

Departures
    Equation 3's theta is negative for nu > 1/(k-1). Appendix B's proof uses what must be taken now
    because the later workers cannot hold it, theta_j = remaining - capacity of the workers after j,
    and so does this. Early workers may stay empty, the others are filled to capacity.
    Lemma 3 does not hold when types overlap, so theorem 2's ratio is not claimed.
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.planning.queries.offline import (
    OfflineFill,
    assign_queries,
    finish_placement,
    fitting_count,
    start_fill,
)
from evenflow.planning.queries.problem import ROUNDING, Placement, PlacementProblem


def mqp(problem: PlacementProblem, rng: np.random.Generator) -> Placement:
    """Place all queries by MQP."""
    fill = start_fill(problem)
    _fill_mqp(fill)
    return finish_placement(fill, problem)


@kernel
def _fill_mqp(fill: OfflineFill) -> None:
    groups, workers = fill.groups, len(fill.free_capacity)
    heap = [(-groups.load[item] * groups.size[item], item) for item in range(len(groups.size))]
    heapq.heapify(heap)
    remaining = (groups.load * groups.size).sum()
    later = fill.free_capacity.sum()
    for worker in range(workers):
        later -= fill.free_capacity[worker]
        theta = remaining - later
        passed = [(0.0, 0) for _ in range(0)]
        while theta > ROUNDING * remaining and len(heap) > 0:
            mass, item = heapq.heappop(heap)
            count = fitting_count(fill, item, worker)
            if count > 0:
                assign_queries(fill, item, worker, count)
                theta -= count * groups.load[item]
                remaining -= count * groups.load[item]
                mass = -groups.load[item] * fill.unplaced[item]
            if fill.unplaced[item] > 0:
                passed.append((mass, item))
        for entry in passed:
            heapq.heappush(heap, entry)
