"""The pairwise steps COR-BAL, COR-RE and COR-SE on two workers N_1 and N_2, loads L_1 >= L_2.

Borealis-load-distribution, section 3.3.

COR-BAL, one-way balancing (3.3.1): operators leave N_1 for N_2 one by one, the largest score first,
as long as the load sent stays below (L_1 - L_2)/2; scores are computed again after each move. So
the two never change order and as little load moves as balancing needs. `balance_by_preference` is
the same scheme with a fixed order instead of the score: by load it is LLF-BAL, at random RAND-BAL.

COR-RE, two-way redistribution (3.3.2): both workers start with their immovable operators only. Each
time, the less loaded one receives the operator that has the largest score with respect to it, until
all are placed; COR-BAL closes. Where operators ran before plays no part, so the plan is the best of
the pairwise ones and moves the most.

COR-SE, two-way selective exchange (3.3.3): COR-BAL first; then, as often as there are operators on
the two workers, the operator of the currently more loaded worker that has the largest score moves
to the other, if that score exceeds delta; COR-BAL closes. Only operators that are clearly better
off elsewhere move, so plans come close to COR-RE's for less load moved.

Departures
- "Less than (L_1 - L_2)/2" is strict and uses the loads before the first move.
  Loads that only rounding puts below it are not, so that a tie is one in any order of summing.
- One-way balancing leaves operators without load where they are: moving them balances nothing.
- The closing one-way step has no threshold; at equal loads the lower worker receives.
- COR-SE ends as soon as the more loaded worker has no operator above delta. The paper counts its
  steps 1, 2, 3, 5; nothing is missing.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    centred_correlation,
    correlation_with,
    first_best,
    pair_score,
    place_next_plain,
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
