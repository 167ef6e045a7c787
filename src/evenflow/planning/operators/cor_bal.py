"""COR-BAL: one-way correlation-based balancing of a pair of workers.

Borealis-load-distribution, section 3.3.1. N_1 is the more loaded worker with load L_1, N_2 the
other with L_2. Operators leave N_1 for N_2 one by one, the largest score first, as long as the
load sent stays below (L_1 - L_2)/2; scores are computed again after each move. So the two never
change order and as little load moves as balancing needs.

`balance_by_preference` is the same scheme with a fixed order of preference instead of the score:
by load it is LLF-BAL, at random RAND-BAL.

Departures
- "Less than (L_1 - L_2)/2" is strict and uses the loads before the first move.
  Loads that only rounding puts below it are not, so that a tie is one in any order of summing.
- Operators without load stay where they are: moving them balances nothing.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    centred_correlation,
    first_best,
    pair_score,
    sum_by_worker,
)
from evenflow.planning.operators.worker_lists import OperatorRows

ROUNDING = 1e-12


@kernel
def load_to_send(loads: Floats) -> tuple[int, float]:
    """Return the fuller side of a pair, and the load it may send at most."""
    full = 0 if loads[0] >= loads[1] else 1
    return full, (loads[full] - loads[1 - full]) / 2 - ROUNDING * loads[full]


@kernel
def move_best(
    rows: OperatorRows,
    side: Indices,
    totals: Floats,
    scores: Floats,
    full: int,
    load_range: tuple[float, float],
    min_score: float,
) -> int:
    """Move the operator with the largest score off the fuller side; return it.

    Only loads strictly within `load_range` count; -1 if no score exceeds `min_score`.
    """
    best = -np.inf
    for o in range(len(side)):
        scores[o] = -np.inf
        if side[o] == full and rows.movable[o] and load_range[0] < rows.load[o] < load_range[1]:
            scores[o] = pair_score(rows.deviations[o], totals[full], totals[1 - full])
            best = max(best, scores[o])
    if best <= min_score:
        return -1
    chosen = 0
    while scores[chosen] < best - TIE_TOLERANCE:
        chosen += 1
    side[chosen] = 1 - full
    add_scaled(totals[full], rows.deviations[chosen], -1.0)
    add_scaled(totals[1 - full], rows.deviations[chosen], 1.0)
    return chosen


@kernel
def balance_one_way(rows: OperatorRows, side: Indices) -> None:
    """Balance a pair; `side` (0 or 1 for each operator) is changed in place."""
    totals, loads = sum_by_worker(rows, side, 2, False)
    full, room = load_to_send(loads)
    scores = np.empty(len(side))
    while True:
        chosen = move_best(rows, side, totals, scores, full, (0.0, room), -np.inf)
        if chosen < 0:
            return
        room -= rows.load[chosen]


@kernel
def balance_by_preference(rows: OperatorRows, side: Indices) -> None:
    """Balance a pair, most preferred operators first; `side` is changed in place."""
    load, preference = rows.load, rows.preference
    loads = np.zeros(2)
    for o in range(len(load)):
        loads[side[o]] += load[o]
    full, room = load_to_send(loads)
    while True:
        chosen = -1
        for o in range(len(load)):
            fits = side[o] == full and rows.movable[o] and 0.0 < load[o] < room
            if fits and (chosen < 0 or preference[o] > preference[chosen]):
                chosen = o
        if chosen < 0:
            return
        side[chosen] = 1 - full
        room -= load[chosen]


def balance_one_way_plain(rows: OperatorRows, side: Indices) -> Indices:
    """Return the sides after one-way balancing, word for word as section 3.3.1 has it."""
    side, load = side.copy(), rows.load
    loads = [load[side == 0].sum(), load[side == 1].sum()]
    full = 0 if loads[0] >= loads[1] else 1
    room = (loads[full] - loads[1 - full]) / 2 - ROUNDING * loads[full]
    while True:
        candidates = np.flatnonzero((side == full) & rows.movable & (load > 0) & (load < room))
        if not len(candidates):
            return side
        scores = np.array([pair_score_plain(rows.deviations, side, int(o)) for o in candidates])
        chosen = candidates[first_best(scores)]
        side[chosen] = 1 - full
        room -= load[chosen]


def pair_score_plain(deviations: Floats, side: Indices, operator: int) -> float:
    """Return (rho(o, N_1) - rho(o, N_2)) / 2 from the definition."""
    others = np.arange(len(side)) != operator
    here = deviations[others & (side == side[operator])].sum(axis=0)
    there = deviations[others & (side != side[operator])].sum(axis=0)
    deviation = deviations[operator]
    return (centred_correlation(deviation, here) - centred_correlation(deviation, there)) / 2
