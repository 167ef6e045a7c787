"""OffRand (herding-small-queries, section 6.1): whole query types to random workers.

A random group of equal queries goes to a random worker with room until the worker is full or the
group is placed; a group of which some are left is drawn again later.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.planning.queries.offline import (
    OfflineFill,
    assign_queries,
    finish_placement,
    fitting_count,
    start_fill,
)
from evenflow.planning.queries.problem import Placement, PlacementProblem


def offrand(problem: PlacementProblem, rng: np.random.Generator) -> Placement:
    """Place all queries by OffRand."""
    fill = start_fill(problem)
    _fill_offrand(fill, rng)
    return finish_placement(fill, problem)


@kernel
def _fill_offrand(fill: OfflineFill, rng: np.random.Generator) -> None:
    workers = len(fill.free_capacity)
    pool = np.arange(len(fill.unplaced))
    open_groups = len(pool)
    with_room = np.empty(workers, dtype=np.int64)
    while open_groups > 0:
        drawn = int(rng.random() * open_groups)
        item = pool[drawn]
        worker = int(rng.random() * workers)
        if fitting_count(fill, item, worker) == 0:
            seen = 0
            for other in range(workers):
                if fitting_count(fill, item, other) > 0:
                    with_room[seen] = other
                    seen += 1
            worker = with_room[int(rng.random() * seen)] if seen else -1
        if worker >= 0:
            assign_queries(fill, item, worker, fitting_count(fill, item, worker))
        if worker < 0 or fill.unplaced[item] == 0:
            open_groups -= 1
            pool[drawn] = pool[open_groups]
