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
from evenflow.model.arrays import Indices
from evenflow.planning.operators.cor_bal import (
    balance_one_way,
    balance_one_way_plain,
    move_best,
    pair_score_plain,
)
from evenflow.planning.operators.correlation_score import first_best, sum_by_worker
from evenflow.planning.operators.worker_lists import OperatorRows


@kernel
def exchange(rows: OperatorRows, side: Indices, delta: float) -> None:
    """Exchange operators of a pair with a score above delta; `side` is changed in place."""
    balance_one_way(rows, side)
    totals, loads = sum_by_worker(rows, side, 2, False)
    scores = np.empty(len(side))
    for _ in range(len(side)):
        full = 0 if loads[0] >= loads[1] else 1
        chosen = move_best(rows, side, totals, scores, full, (-np.inf, np.inf), delta)
        if chosen < 0:
            break
        loads[full] -= rows.load[chosen]
        loads[1 - full] += rows.load[chosen]
    balance_one_way(rows, side)


def exchange_plain(rows: OperatorRows, side: Indices, delta: float) -> Indices:
    """Return the sides after selective exchange, word for word as section 3.3.3 has it."""
    side = balance_one_way_plain(rows, side)
    for _ in range(len(side)):
        loads = [rows.load[side == 0].sum(), rows.load[side == 1].sum()]
        full = 0 if loads[0] >= loads[1] else 1
        candidates = np.flatnonzero((side == full) & rows.movable)
        scores = np.array([pair_score_plain(rows.deviations, side, int(o)) for o in candidates])
        if not len(scores) or scores.max() <= delta:
            break
        side[candidates[first_best(scores)]] = 1 - full
    return balance_one_way_plain(rows, side)
