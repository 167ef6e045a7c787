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
from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.operators.cor_bal import balance_one_way, balance_one_way_plain
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    correlation_with,
    first_best,
)
from evenflow.planning.operators.load_statistics import centred_correlation


@kernel
def redistribute(deviations: Floats, load: Floats, movable: Bools, side: Indices) -> None:
    """Place all movable operators of a pair anew; `side` is changed in place."""
    size, samples = deviations.shape
    totals = np.zeros((2, samples))
    loads = np.zeros(2)
    waiting = np.empty(size, dtype=np.int64)
    left = 0
    for o in range(size):
        if movable[o]:
            waiting[left] = o
            left += 1
        else:
            loads[side[o]] += load[o]
            add_scaled(totals[side[o]], deviations[o], 1.0)
    rho = np.empty((2, size))
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
        loads[receiver] += load[o]
        add_scaled(totals[receiver], deviations[o], 1.0)
        left -= 1
        for at in range(chosen, left):
            waiting[at] = waiting[at + 1]
        for at in range(left):  # only the receiver's correlations have changed
            rho[receiver, waiting[at]] = correlation_with(deviations[waiting[at]], totals[receiver])
    balance_one_way(deviations, load, movable, side)


def redistribute_plain(deviations: Floats, load: Floats, movable: Bools, side: Indices) -> Indices:
    """Return the sides after redistribution, word for word as section 3.3.2 has it."""
    side = np.where(movable, -1, side)
    while (side < 0).any():
        loads = [load[side == 0].sum(), load[side == 1].sum()]
        receiver = 0 if loads[0] <= loads[1] else 1
        waiting = np.flatnonzero(side < 0)
        totals = [deviations[side == worker].sum(axis=0) for worker in (0, 1)]
        rho = np.array([[centred_correlation(deviations[o], x) for o in waiting] for x in totals])
        side[waiting[first_best(rho.mean(axis=0) - rho[receiver])]] = receiver
    return balance_one_way_plain(deviations, load, movable, side)
