"""OffRand (herding-small-queries, section 6.1): whole query types to random workers.

A random group of equal queries goes to a random worker with room until the worker is full or the
group is placed; a group of which some are left is drawn again later.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.planning.queries.offline import Pour, assign, fitting, pour, poured_placement
from evenflow.planning.queries.problem import Placement, Problem


def offrand(problem: Problem, rng: np.random.Generator) -> Placement:
    """Place all queries by OffRand."""
    poured = pour(problem)
    _pour_offrand(poured, rng)
    return poured_placement(poured, problem)


@kernel
def _pour_offrand(poured: Pour, rng: np.random.Generator) -> None:
    workers = len(poured.room)
    pool = np.arange(len(poured.left))
    open_groups = len(pool)
    with_room = np.empty(workers, dtype=np.int64)
    while open_groups > 0:
        drawn = int(rng.random() * open_groups)
        item = pool[drawn]
        worker = int(rng.random() * workers)
        if fitting(poured, item, worker) == 0:
            seen = 0
            for other in range(workers):
                if fitting(poured, item, other) > 0:
                    with_room[seen] = other
                    seen += 1
            worker = with_room[int(rng.random() * seen)] if seen else -1
        if worker >= 0:
            assign(poured, item, worker, fitting(poured, item, worker))
        if worker < 0 or poured.left[item] == 0:
            open_groups -= 1
            pool[drawn] = pool[open_groups]
