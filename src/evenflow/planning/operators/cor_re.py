"""COR-RE: two-way correlation-based redistribution of a pair of workers.

Borealis-load-distribution, section 3.3.2. Both workers start with their immovable operators only.
Each time, the less loaded one receives the operator that has the largest score with respect to it,
until all are placed; one-way balancing (COR-BAL) closes. Where operators ran before plays no part,
so the plan is the best of the pairwise ones and moves the most.

Departures
- The closing one-way step has no threshold; at equal loads the lower worker receives.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.operators.cor_bal import balance_one_way, balance_one_way_plain
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    correlation_with,
    place_next_plain,
    sum_by_worker,
)
from evenflow.planning.operators.worker_lists import OperatorRows


@kernel
def redistribute(rows: OperatorRows, side: Indices) -> None:
    """Place all movable operators of a pair again; `side` is changed in place."""
    deviations = rows.deviations
    totals, loads = sum_by_worker(rows, side, 2, True)
    waiting = np.flatnonzero(rows.movable)
    left = len(waiting)
    rho = np.empty((2, len(side)))
    for at in range(left):
        rho[0, waiting[at]] = correlation_with(deviations[waiting[at]], totals[0])
        rho[1, waiting[at]] = correlation_with(deviations[waiting[at]], totals[1])
    while left:
        receiver = 0 if loads[0] <= loads[1] else 1
        best = -np.inf
        for at in range(left):
            o = waiting[at]
            best = max(best, (rho[0, o] + rho[1, o]) / 2 - rho[receiver, o])
        chosen = 0
        o = waiting[0]
        while (rho[0, o] + rho[1, o]) / 2 - rho[receiver, o] < best - TIE_TOLERANCE:
            chosen += 1
            o = waiting[chosen]
        side[o] = receiver
        loads[receiver] += rows.load[o]
        add_scaled(totals[receiver], deviations[o], 1.0)
        left -= 1
        for at in range(chosen, left):
            waiting[at] = waiting[at + 1]
        for at in range(left):  # only the receiver's correlations have changed
            rho[receiver, waiting[at]] = correlation_with(deviations[waiting[at]], totals[receiver])
    balance_one_way(rows, side)


def redistribute_plain(rows: OperatorRows, side: Indices) -> Indices:
    """Return the sides after redistribution, word for word as section 3.3.2 has it."""
    side = np.where(rows.movable, -1, side)
    while (side < 0).any():
        place_next_plain(rows, side, 2)
    return balance_one_way_plain(rows, side)
