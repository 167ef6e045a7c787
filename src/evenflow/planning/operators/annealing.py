"""Simulated annealing of a balanced partition of vectors, for `variance`.

Kirkpatrick, Gelatt and Vecchi 1983: random moves and swaps are accepted when they gain, and with
probability exp(-loss / heat) when they do not, while the heat falls geometrically.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Hashes, Indices, Rng, Workers
from evenflow.planning.operators.descent import (
    SourceReads,
    move_reads,
    shipping_change,
    swap_shipping_change,
)
from evenflow.planning.operators.kernel_rng import random_below, random_unit, seed_state

FEW_OPERATORS = 600  # up to here annealing runs 600 / operators times and the best plan is used
# Hottest and coldest temperature, in mean squared lengths of an operator's vector: many operators
# leave finer differences to settle, and less time for each at high temperatures.
HEAT_OF_FEW, HEAT_OF_MANY = (1e-1, 1e-3), (3e-2, 3e-5)


def anneal_placement(
    proposals: int,
    vectors: Floats,
    free: Indices,
    placement: Workers,
    shares: Floats,
    rng: Rng,
    reads: SourceReads,
) -> None:
    """Anneal at temperatures that suit the operators; `placement` is changed in place.

    `proposals` is for each operator.
    """
    movable = (vectors[free] ** 2).sum(axis=1)  # pinned operators must not heat the search
    scale = float(movable.mean() * shares.mean()) or 1.0 if len(free) else 1.0
    hot, cold = HEAT_OF_FEW if len(free) <= FEW_OPERATORS else HEAT_OF_MANY
    state = seed_state(rng)
    heat = (hot * scale, cold * scale)
    anneal(proposals * len(free), *heat, state, vectors, free, placement, shares, reads)


@kernel
def anneal(
    proposals: int,
    hot: float,
    cold: float,
    state: Hashes,
    vectors: Floats,
    free: Indices,
    placement: Workers,
    shares: Floats,
    reads: SourceReads,
) -> None:
    """Propose random moves (one in four) and swaps while the heat falls; `placement` changes.

    The objective is sum_i shares[i] |V_i|^2: a group of two workers has a share of a half.
    """
    width, workers = vectors.shape[1], len(shares)
    totals = np.zeros((workers, width))
    for o in range(len(placement)):
        totals[placement[o]] += vectors[o]
    step = np.empty(width)
    heat, cooling = hot, (cold / hot) ** (1.0 / proposals)
    for turn in range(proposals):
        heat *= cooling
        o, p = free[random_below(state, len(free))], -1
        here = placement[o]
        if turn % 4 == 0:
            to = random_below(state, workers)
        else:
            p = free[random_below(state, len(free))]
            to = placement[p]
        if to == here:
            continue
        change = 0.0
        for t in range(width):
            step[t] = vectors[o, t] - (vectors[p, t] if p >= 0 else 0.0)
            change += shares[to] * step[t] * (2 * totals[to, t] + step[t])
            change -= shares[here] * step[t] * (2 * totals[here, t] - step[t])
        if reads.price > 0.0 and p >= 0:
            change += reads.price * swap_shipping_change(o, p, here, to, reads)
        elif reads.price > 0.0:
            change += reads.price * shipping_change(o, here, to, reads)
        if change > 0.0 and random_unit(state) >= np.exp(-change / heat):
            continue
        placement[o] = to
        move_reads(o, here, to, reads)
        if p >= 0:
            placement[p] = here
            move_reads(p, to, here, reads)
        for t in range(width):
            totals[here, t] -= step[t]
            totals[to, t] += step[t]
