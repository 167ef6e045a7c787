"""COR-SE: two-way correlation-based selective exchange between a pair of workers.

Borealis-load-distribution, section 3.3.3. One-way balancing first; then, as often as there are
operators on the two workers, the operator of the currently more loaded worker that has the largest
score moves to the other, if that score exceeds delta; one-way balancing closes. Only operators
that are clearly better off elsewhere move, so plans come close to COR-RE's for less load moved.

Departures
- The paper counts steps 1, 2, 3, 5; nothing is missing. The exchange ends as soon as the more
  loaded worker has no operator above delta. Among several above it the largest score is taken.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.operators.cor_bal import (
    balance_one_way,
    balance_one_way_plain,
    pair_score_plain,
)
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    first_best,
    pair_score,
)


@kernel
def exchange(deviations: Floats, load: Floats, movable: Bools, side: Indices, delta: float) -> None:
    """Exchange operators of a pair with a score above delta; `side` is changed in place."""
    balance_one_way(deviations, load, movable, side)
    size = len(load)
    totals = np.zeros((2, deviations.shape[1]))
    loads = np.zeros(2)
    for o in range(size):
        loads[side[o]] += load[o]
        add_scaled(totals[side[o]], deviations[o], 1.0)
    scores = np.empty(size)
    for _ in range(size):
        full = 0 if loads[0] >= loads[1] else 1
        best = -np.inf
        for o in range(size):
            scores[o] = -np.inf
            if side[o] == full and movable[o]:
                scores[o] = pair_score(deviations[o], totals[full], totals[1 - full])
                best = max(best, scores[o])
        if best <= delta:
            break
        chosen = 0
        while scores[chosen] < best - TIE_TOLERANCE:
            chosen += 1
        side[chosen] = 1 - full
        loads[full] -= load[chosen]
        loads[1 - full] += load[chosen]
        add_scaled(totals[full], deviations[chosen], -1.0)
        add_scaled(totals[1 - full], deviations[chosen], 1.0)
    balance_one_way(deviations, load, movable, side)


def exchange_plain(
    deviations: Floats, load: Floats, movable: Bools, side: Indices, delta: float
) -> Indices:
    """Return the sides after selective exchange, word for word as section 3.3.3 has it."""
    side = balance_one_way_plain(deviations, load, movable, side)
    for _ in range(len(side)):
        loads = [load[side == 0].sum(), load[side == 1].sum()]
        full = 0 if loads[0] >= loads[1] else 1
        candidates = np.flatnonzero((side == full) & movable)
        scores = np.array([pair_score_plain(deviations, side, int(o)) for o in candidates])
        if not len(scores) or scores.max() <= delta:
            break
        side[candidates[first_best(scores)]] = 1 - full
    return balance_one_way_plain(deviations, load, movable, side)
