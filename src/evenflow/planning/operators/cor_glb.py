"""COR-GLB: correlation-based placement of all operators on all workers.

Borealis-load-distribution, section 3.4. n workers start with their immovable operators only. Each
time, the least loaded worker N_i receives the operator with the largest score

    S(o, N_i) = (1/n) sum_j rho(o, N_j)  -  rho(o, N_i),

one round of one-way balancing follows, and then the correlation improvement step.

The scores need only the receiver's correlations anew, so that a pick costs O(operators x k)
instead of O(operators x n x k).

Departures
- The one-way round has no threshold.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.operators.cor_glb_improve import improve_global, improve_global_plain
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    correlation_coefficient,
    first_best,
    sum_of_squares,
)
from evenflow.planning.operators.load_statistics import centred_correlation
from evenflow.planning.operators.pairwise import ONE_WAY, balance_round, balance_round_plain


@kernel
def place_by_correlation(
    deviations: Floats, load: Floats, movable: Bools, placement: Workers, workers: int
) -> None:
    """Place movable operators one by one, the greedy step; `placement` is changed in place."""
    samples = deviations.shape[1]
    totals = np.zeros((workers, samples))
    loads = np.zeros(workers)
    waiting = np.empty(len(load), dtype=np.int64)
    left = 0
    for o in range(len(load)):
        if movable[o]:
            waiting[left] = o
            left += 1
        else:
            loads[placement[o]] += load[o]
            add_scaled(totals[placement[o]], deviations[o], 1.0)
    # By sample, so that the inner loops run over operators; compacted as operators are placed.
    rows = np.empty((samples, left))
    squares, sums, score = np.zeros(left), np.zeros(left), np.empty(left)
    for at in range(left):
        for t in range(samples):
            rows[t, at] = deviations[waiting[at], t]
        squares[at] = sum_of_squares(deviations[waiting[at]])
    rho = np.zeros((workers, left))
    for worker in range(workers):
        if sum_of_squares(totals[worker]) > 0.0:
            _update_correlations(rows, squares, totals[worker], rho[worker], sums, score, left)
    while left:
        receiver = np.argmin(loads)
        best = -np.inf
        for at in range(left):
            score[at] = sums[at] / workers - rho[receiver, at]
            best = max(best, score[at])
        chosen = -1
        for at in range(left):
            if score[at] >= best - TIE_TOLERANCE and (chosen < 0 or waiting[at] < waiting[chosen]):
                chosen = at
        o = waiting[chosen]
        placement[o] = receiver
        loads[receiver] += load[o]
        add_scaled(totals[receiver], deviations[o], 1.0)
        left -= 1
        waiting[chosen], squares[chosen], sums[chosen] = waiting[left], squares[left], sums[left]
        for t in range(samples):
            rows[t, chosen] = rows[t, left]
        for worker in range(workers):
            rho[worker, chosen] = rho[worker, left]
        _update_correlations(rows, squares, totals[receiver], rho[receiver], sums, score, left)


@kernel
def _update_correlations(
    rows: Floats,
    squares: Floats,
    total: Floats,
    rho: Floats,
    sums: Floats,
    dots: Floats,
    left: int,
) -> None:
    """Take one worker's correlations with all waiting operators anew, and their sums."""
    for at in range(left):
        dots[at] = 0.0
    for t in range(len(total)):
        for at in range(left):
            dots[at] += rows[t, at] * total[t]
    own = sum_of_squares(total)
    for at in range(left):
        new = correlation_coefficient(dots[at], squares[at], own)
        sums[at] += new - rho[at]
        rho[at] = new


def cor_glb(
    theta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> None:
    """Place all movable operators; `placement` (read where immovable) is changed in place."""
    place_by_correlation(deviations, load, movable, placement, workers)
    balance_round(ONE_WAY, 0.0, 0.0, deviations, load, movable, load, placement, workers)
    improve_global(theta, deviations, load, movable, placement, workers)


def cor_glb_plain(
    theta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> Workers:
    """Return the placement of COR-GLB, word for word as section 3.4 has it."""
    placement = np.where(movable, -1, placement).astype(np.int32)
    while (placement < 0).any():
        loads = np.array([load[placement == worker].sum() for worker in range(workers)])
        totals = [deviations[placement == worker].sum(axis=0) for worker in range(workers)]
        waiting = np.flatnonzero(placement < 0)
        rho = np.array([[centred_correlation(deviations[o], x) for o in waiting] for x in totals])
        receiver = int(np.argmin(loads))
        placement[waiting[first_best(rho.mean(axis=0) - rho[receiver])]] = receiver
    placement = balance_round_plain(
        ONE_WAY, 0.0, 0.0, deviations, load, movable, placement, workers
    )
    return improve_global_plain(theta, deviations, load, movable, placement, workers)
