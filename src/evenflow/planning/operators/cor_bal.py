"""COR-BAL: one-way correlation-based balancing of a pair of workers.

Borealis-load-distribution, section 3.3.1. N_1 is the more loaded worker with load L_1, N_2 the
other with L_2. Operators leave N_1 for N_2 one by one, the largest score first, as long as the
load sent stays below (L_1 - L_2)/2; scores are taken anew after each, on the workers as they then
stand. So the two never change order and as little load moves as balancing needs.

`balance_by_preference` is the same scheme with a fixed order of preference instead of the score: by load it
is LLF-BAL, by lot RAND-BAL.

Departures
- "Less than (L_1 - L_2)/2" is strict and uses the loads before the first move.
  Loads that only rounding puts below it are not, so that a tie is one in any order of summing.
- Operators without load stay where they are: moving them balances nothing.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    first_best,
    pair_score,
)
from evenflow.planning.operators.load_statistics import centred_correlation

ROUNDING = 1e-12


@kernel
def balance_one_way(deviations: Floats, load: Floats, movable: Bools, side: Indices) -> None:
    """Balance a pair; `side` (0 or 1 for each operator) is changed in place."""
    totals = np.zeros((2, deviations.shape[1]))
    loads = np.zeros(2)
    for o in range(len(load)):
        loads[side[o]] += load[o]
        add_scaled(totals[side[o]], deviations[o], 1.0)
    full = 0 if loads[0] >= loads[1] else 1
    room = (loads[full] - loads[1 - full]) / 2 - ROUNDING * loads[full]
    scores = np.empty(len(load))
    while True:
        best = -np.inf
        for o in range(len(load)):
            scores[o] = -np.inf
            if side[o] == full and movable[o] and 0.0 < load[o] < room:
                scores[o] = pair_score(deviations[o], totals[full], totals[1 - full])
                best = max(best, scores[o])
        if best == -np.inf:
            return
        chosen = 0
        while scores[chosen] < best - TIE_TOLERANCE:
            chosen += 1
        side[chosen] = 1 - full
        room -= load[chosen]
        add_scaled(totals[full], deviations[chosen], -1.0)
        add_scaled(totals[1 - full], deviations[chosen], 1.0)


@kernel
def balance_by_preference(preference: Floats, load: Floats, movable: Bools, side: Indices) -> None:
    """Balance a pair, most preferred operators first; `side` is changed in place."""
    loads = np.zeros(2)
    for o in range(len(load)):
        loads[side[o]] += load[o]
    full = 0 if loads[0] >= loads[1] else 1
    room = (loads[full] - loads[1 - full]) / 2 - ROUNDING * loads[full]
    while True:
        chosen = -1
        for o in range(len(load)):
            fits = side[o] == full and movable[o] and 0.0 < load[o] < room
            if fits and (chosen < 0 or preference[o] > preference[chosen]):
                chosen = o
        if chosen < 0:
            return
        side[chosen] = 1 - full
        room -= load[chosen]


def balance_one_way_plain(
    deviations: Floats, load: Floats, movable: Bools, side: Indices
) -> Indices:
    """Return the sides after one-way balancing, word for word as section 3.3.1 has it."""
    side = side.copy()
    loads = [load[side == 0].sum(), load[side == 1].sum()]
    full = 0 if loads[0] >= loads[1] else 1
    room = (loads[full] - loads[1 - full]) / 2 - ROUNDING * loads[full]
    while True:
        candidates = np.flatnonzero((side == full) & movable & (load > 0) & (load < room))
        if not len(candidates):
            return side
        scores = np.array([pair_score_plain(deviations, side, int(o)) for o in candidates])
        chosen = candidates[first_best(scores)]
        side[chosen] = 1 - full
        room -= load[chosen]


def pair_score_plain(deviations: Floats, side: Indices, operator: int) -> float:
    """Return (rho(o, N_1) - rho(o, N_2)) / 2 from the definition."""
    others = np.arange(len(side)) != operator
    here = deviations[others & (side == side[operator])].sum(axis=0)
    there = deviations[others & (side != side[operator])].sum(axis=0)
    own = deviations[operator]
    return (centred_correlation(own, here) - centred_correlation(own, there)) / 2
