"""One round of pairwise balancing (borealis-load-distribution, section 3.3).

Workers are put in order of load and the i-th is paired with the (n-i+1)-th: the fullest with the
emptiest. A pair whose loads differ by more than epsilon is balanced by one of the pairwise steps.

Departures
- Equal loads are ordered by worker; with an odd number the middle worker rests.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.operators.cor_bal import (
    balance_by_preference,
    balance_one_way,
    balance_one_way_plain,
)
from evenflow.planning.operators.cor_re import redistribute, redistribute_plain
from evenflow.planning.operators.cor_se import exchange, exchange_plain
from evenflow.planning.operators.worker_lists import (
    gather_rows,
    operators_of_pair,
    worker_lists,
    write_pair,
)

# The pairwise steps, as kernels know them.
ONE_WAY, REDISTRIBUTE, EXCHANGE, BY_PREFERENCE = 0, 1, 2, 3


@kernel
def apply_step(
    step: int,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    preference: Floats,
    side: Indices,
) -> None:
    """Apply a pairwise step; `side` is changed in place."""
    if step == ONE_WAY:
        balance_one_way(deviations, load, movable, side)
    elif step == REDISTRIBUTE:
        redistribute(deviations, load, movable, side)
    elif step == EXCHANGE:
        exchange(deviations, load, movable, side, delta)
    else:
        balance_by_preference(preference, load, movable, side)


def balance_round(
    step: int,
    epsilon: float,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    preference: Floats,
    placement: Workers,
    workers: int,
) -> None:
    """Balance every pair that differs by more than epsilon; `placement` is changed in place."""
    loads = np.bincount(placement, weights=load, minlength=workers).astype(float)
    order = np.argsort(-loads, kind="stable")
    balance_pairs(
        step, epsilon, delta, deviations, load, movable, preference, placement, loads, order
    )


@kernel
def balance_pairs(
    step: int,
    epsilon: float,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    preference: Floats,
    placement: Workers,
    loads: Floats,
    order: Indices,
) -> None:
    """Balance the pairs of workers given in order of load; `placement` is changed in place."""
    workers = len(loads)
    heads, follows = worker_lists(placement, workers)
    for at in range(workers // 2):
        full, empty = order[at], order[workers - 1 - at]
        if loads[full] - loads[empty] <= epsilon:
            continue
        operators, side = operators_of_pair(heads, follows, full, empty)
        rows, row_load, row_movable = gather_rows(operators, deviations, load, movable)
        wishes = np.empty(len(operators))
        for row in range(len(operators)):
            wishes[row] = preference[operators[row]]
        apply_step(step, delta, rows, row_load, row_movable, wishes, side)
        write_pair(heads, follows, placement, (full, empty), operators, side)


def apply_step_plain(
    step: int, delta: float, deviations: Floats, load: Floats, movable: Bools, side: Indices
) -> Indices:
    """Return the sides after a correlation-based pairwise step."""
    if step == ONE_WAY:
        return balance_one_way_plain(deviations, load, movable, side)
    if step == REDISTRIBUTE:
        return redistribute_plain(deviations, load, movable, side)
    return exchange_plain(deviations, load, movable, side, delta)


def pair_by_load(loads: Floats) -> list[tuple[int, int]]:
    """Return (fuller, emptier) pairs, fullest first.

    >>> pair_by_load(np.array([0.2, 0.9, 0.5, 0.7]))
    [(1, 0), (3, 2)]
    """
    order = np.argsort(-loads, kind="stable").tolist()
    return [(order[at], order[-1 - at]) for at in range(len(order) // 2)]


def balance_round_plain(
    step: int,
    epsilon: float,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> Workers:
    """Return the placement after one round, without lists or compiled code."""
    placement = placement.copy()
    loads: Floats = np.bincount(placement, weights=load, minlength=workers).astype(float)
    for pair in pair_by_load(loads):
        if loads[pair[0]] - loads[pair[1]] > epsilon:
            balance_pair_plain(step, delta, deviations, load, movable, placement, pair)
    return placement


def balance_pair_plain(
    step: int,
    delta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    pair: tuple[int, int],
) -> None:
    """Apply a pairwise step to two workers of a placement, in place."""
    low, high = min(pair), max(pair)
    at = np.flatnonzero((placement == low) | (placement == high))
    side = (placement[at] == high).astype(np.int64)
    side = apply_step_plain(step, delta, deviations[at], load[at], movable[at], side)
    placement[at] = np.where(side == 1, high, low)
