"""Pairwise balancing and correlation improvement (borealis-load-distribution, section 3.3).

Balancing: workers are put in order of load and the i-th is paired with the (n-i+1)-th: the fullest
with the emptiest. A pair whose loads differ by more than epsilon is balanced by a pairwise step.

Improvement (section 3.3.4, COR-RE-IMP and COR-SE-IMP): balancing alone does nothing for workers
that are even but bursty. So every worker whose divergent load level (mean load plus deviation)
exceeds its capacity is paired with the worker it is least correlated with; if that correlation is
below theta, the pair's two-way step is tried, and kept only if the correlation grew.

Departures
- Equal loads are ordered by worker; with an odd number the middle worker rests.
- Improvement visits workers in index order, each on the plan as the earlier ones left it.
- "Grew" means by more than rounding (1e-9).
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    centred_correlation,
    correlation_with,
    sum_by_worker,
    sum_of_squares,
)
from evenflow.planning.operators.pairwise_steps import (
    balance_by_preference,
    balance_one_way,
    balance_one_way_plain,
    exchange,
    exchange_plain,
    redistribute,
    redistribute_plain,
)
from evenflow.planning.operators.worker_lists import (
    OperatorRows,
    WorkerLists,
    gather_rows,
    operators_of_pair,
    worker_lists,
    write_pair,
)

# The pairwise steps as integers, which kernels can compare.
ONE_WAY, REDISTRIBUTE, EXCHANGE, BY_PREFERENCE = 0, 1, 2, 3


@kernel
def apply_step(step: int, delta: float, rows: OperatorRows, side: Indices) -> None:
    """Apply a pairwise step; `side` is changed in place."""
    if step == ONE_WAY:
        balance_one_way(rows, side)
    elif step == REDISTRIBUTE:
        redistribute(rows, side)
    elif step == EXCHANGE:
        exchange(rows, side, delta)
    else:
        balance_by_preference(rows, side)


@kernel
def balance_round(
    step: int, epsilon: float, delta: float, rows: OperatorRows, placement: Workers, workers: int
) -> None:
    """Balance every pair that differs by more than epsilon; `placement` is changed in place."""
    lists, loads = worker_lists(placement, workers), np.zeros(workers)
    for o in range(len(placement)):
        loads[placement[o]] += rows.load[o]
    order = np.argsort(-loads, kind="mergesort")
    for at in range(workers // 2):
        full, empty = order[at], order[workers - 1 - at]
        if loads[full] - loads[empty] > epsilon:
            operators, side = operators_of_pair(lists, full, empty)
            apply_step(step, delta, gather_rows(rows, operators), side)
            write_pair(lists, placement, (full, empty), operators, side)


@kernel
def try_pair(
    step: int,
    delta: float,
    rows: OperatorRows,
    lists: WorkerLists,
    placement: Workers,
    pair: tuple[int, int],
    rho: float,
    totals: Floats,
    loads: Floats,
) -> bool:
    """Apply a step to a pair of correlation `rho`; keep and return whether that grew."""
    operators, side = operators_of_pair(lists, pair[0], pair[1])
    part = gather_rows(rows, operators)
    apply_step(step, delta, part, side)
    after, after_loads = sum_by_worker(part, side, 2, False)
    if correlation_with(after[0], after[1]) <= rho + TIE_TOLERANCE:
        return False
    write_pair(lists, placement, pair, operators, side)
    low, high = min(pair[0], pair[1]), max(pair[0], pair[1])
    totals[low], totals[high] = after[0], after[1]
    loads[low], loads[high] = after_loads[0], after_loads[1]
    return True


@kernel
def correlation_round(
    step: int,
    theta: float,
    capacity: Floats,
    delta: float,
    rows: OperatorRows,
    placement: Workers,
    workers: int,
) -> None:
    """Try to correlate each worker that is likely to be overloaded; `placement` changes."""
    lists = worker_lists(placement, workers)
    totals, loads = sum_by_worker(rows, placement, workers, False)
    for worker in range(workers):
        level = loads[worker] + np.sqrt(sum_of_squares(totals[worker]) / totals.shape[1])
        if level <= capacity[worker]:
            continue
        partner, least = -1, np.inf
        for other in range(workers):
            if other != worker:
                rho = correlation_with(totals[worker], totals[other])
                if rho < least - TIE_TOLERANCE:
                    partner, least = other, rho
        if partner >= 0 and least < theta:
            pair = (worker, partner)
            try_pair(step, delta, rows, lists, placement, pair, least, totals, loads)


def apply_step_plain(step: int, delta: float, rows: OperatorRows, side: Indices) -> Indices:
    """Return the sides after a correlation-based pairwise step."""
    if step == ONE_WAY:
        return balance_one_way_plain(rows, side)
    if step == REDISTRIBUTE:
        return redistribute_plain(rows, side)
    return exchange_plain(rows, side, delta)


def pair_by_load(loads: Floats) -> list[tuple[int, int]]:
    """Return (fuller, emptier) pairs, fullest first.

    >>> pair_by_load(np.array([0.2, 0.9, 0.5, 0.7]))
    [(1, 0), (3, 2)]
    """
    order = np.argsort(-loads, kind="stable").tolist()
    return [(order[at], order[-1 - at]) for at in range(len(order) // 2)]


def balance_round_plain(
    step: int, epsilon: float, delta: float, rows: OperatorRows, placement: Workers, workers: int
) -> Workers:
    """Return the placement after one round, without lists or compiled code."""
    loads: Floats = np.bincount(placement, weights=rows.load, minlength=workers).astype(float)
    for pair in pair_by_load(loads):
        if loads[pair[0]] - loads[pair[1]] > epsilon:
            placement = balance_pair_plain(step, delta, rows, placement, pair)
    return placement


def balance_pair_plain(
    step: int, delta: float, rows: OperatorRows, placement: Workers, pair: tuple[int, int]
) -> Workers:
    """Return the placement after a pairwise step on two workers."""
    low, high = min(pair), max(pair)
    at = np.flatnonzero((placement == low) | (placement == high))
    part = OperatorRows(rows.deviations[at], rows.load[at], rows.movable[at], rows.preference[at])
    side = apply_step_plain(step, delta, part, (placement[at] == high).astype(np.int64))
    after = placement.copy()
    after[at] = np.where(side == 1, high, low)
    return after


def try_pair_plain(
    step: int,
    delta: float,
    rows: OperatorRows,
    placement: Workers,
    pair: tuple[int, int],
    rho: float,
) -> Workers | None:
    """Return the placement after a step on a pair of correlation `rho`, None if that fell."""
    after = balance_pair_plain(step, delta, rows, placement, pair)
    totals = [rows.deviations[after == worker].sum(axis=0) for worker in pair]
    return after if centred_correlation(totals[0], totals[1]) > rho + TIE_TOLERANCE else None


def correlation_round_plain(
    step: int,
    theta: float,
    capacity: Floats,
    delta: float,
    rows: OperatorRows,
    placement: Workers,
    workers: int,
) -> Workers:
    """Return the placement after the improvement step of section 3.3.4, word for word."""
    for worker in range(workers):
        totals = [rows.deviations[placement == other].sum(axis=0) for other in range(workers)]
        level = rows.load[placement == worker].sum() + totals[worker].std()
        if level <= capacity[worker] or workers < 2:
            continue
        rho = [centred_correlation(totals[worker], total) for total in totals]
        rho[worker] = np.inf
        least = min(rho)
        partner = next(other for other in range(workers) if rho[other] <= least + TIE_TOLERANCE)
        if least < theta:
            after = try_pair_plain(step, delta, rows, placement, (worker, partner), least)
            placement = placement if after is None else after
    return placement
