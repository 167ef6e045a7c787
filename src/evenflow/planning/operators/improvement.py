"""Correlation improvement of the pairwise algorithms: COR-RE-IMP and COR-SE-IMP.

Borealis-load-distribution, section 3.3.4. Balancing alone does nothing for workers that are even
but bursty. So after each balancing round, every worker whose divergent load level (mean load plus
deviation) exceeds its capacity looks for the worker it is least correlated with; if that is
below theta, the pair's two-way step is tried, and kept only if the pair's correlation grew.

Departures
- Workers are visited in index order, each on the plan as the earlier ones left it.
- "Grew" means by more than rounding (1e-9).
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    correlation_with,
    sum_of_squares,
)
from evenflow.planning.operators.load_statistics import centred_correlation
from evenflow.planning.operators.pairwise import apply_step, balance_pair_plain
from evenflow.planning.operators.worker_lists import (
    gather_rows,
    operators_of_pair,
    worker_lists,
    write_pair,
)


@kernel
def correlation_round(
    step: int,
    theta: float,
    capacity: float,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> None:
    """Try to correlate each worker that is likely to be overloaded; `placement` changes."""
    heads, follows = worker_lists(placement, workers)
    samples = deviations.shape[1]
    totals = np.zeros((workers, samples))
    loads = np.zeros(workers)
    for o in range(len(load)):
        add_scaled(totals[placement[o]], deviations[o], 1.0)
        loads[placement[o]] += load[o]
    for worker in range(workers):
        level = loads[worker] + np.sqrt(sum_of_squares(totals[worker]) / samples)
        if level <= capacity:
            continue
        partner, least = -1, np.inf
        for other in range(workers):
            if other != worker:
                rho = correlation_with(totals[worker], totals[other])
                if rho < least - TIE_TOLERANCE:
                    partner, least = other, rho
        if partner < 0 or least >= theta:
            continue
        operators, side = operators_of_pair(heads, follows, worker, partner)
        rows, row_load, row_movable = gather_rows(operators, deviations, load, movable)
        apply_step(step, delta, rows, row_load, row_movable, row_load, side)
        after, after_load = np.zeros((2, samples)), np.zeros(2)
        for at in range(len(side)):
            add_scaled(after[side[at]], rows[at], 1.0)
            after_load[side[at]] += row_load[at]
        if correlation_with(after[0], after[1]) > least + TIE_TOLERANCE:
            write_pair(heads, follows, placement, (worker, partner), operators, side)
            low, high = min(worker, partner), max(worker, partner)
            totals[low], totals[high] = after[0], after[1]
            loads[low], loads[high] = after_load[0], after_load[1]


def correlation_round_plain(
    step: int,
    theta: float,
    capacity: float,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> Workers:
    """Return the placement after the improvement step of section 3.3.4, word for word."""
    placement = placement.copy()
    for worker in range(workers):
        totals = [deviations[placement == other].sum(axis=0) for other in range(workers)]
        level = load[placement == worker].sum() + totals[worker].std()
        if level <= capacity or workers < 2:
            continue
        rho = [centred_correlation(totals[worker], total) for total in totals]
        rho[worker] = np.inf
        least = min(rho)
        partner = next(other for other in range(workers) if rho[other] <= least + TIE_TOLERANCE)
        if least >= theta:
            continue
        tried = placement.copy()
        balance_pair_plain(step, delta, deviations, load, movable, tried, (worker, partner))
        ends = [deviations[tried == end].sum(axis=0) for end in (worker, partner)]
        if centred_correlation(ends[0], ends[1]) > least + TIE_TOLERANCE:
            placement = tried
    return placement
