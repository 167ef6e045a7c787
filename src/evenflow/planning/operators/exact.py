"""`exact`: the plan of least variance and imbalance, proved by branch and bound; small cases.

The objective is that of `variance`: sum_i |X_i|^2 / k, the squared lengths of the workers' load
series (variance plus squared mean). Operators are placed in order of length, longest first. A
partial plan is dropped when even its water-filling bound does not beat the best plan so far: in
each sample the load still to be placed may be split at will over the emptiest workers, which bounds
every completion because loads are not negative. The first plan is `variance`'s, and of several
workers that are still empty only the first is tried.
"""

from itertools import product

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Rng, Workers
from evenflow.planning.operators.load_statistics import worker_series
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.variance import plan_static

MAX_STEPS = 2_000_000  # partial plans examined before the proof is given up: seconds
OPTIMALITY_GAP = 1e-9  # of the objective: plans this close are equally good


def least_variance_placement(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng
) -> tuple[Workers, bool]:
    """Return the best plan found, and whether it is proved to be the optimum."""
    placement = plan_static(snapshot, OperatorConfig(capacity=config.capacity), rng)
    rows = snapshot.samples / np.sqrt(snapshot.samples.shape[1])
    free = np.flatnonzero(snapshot.series.movable)
    order = free[np.argsort(-(rows[free] ** 2).sum(axis=1), kind="stable")]
    if not len(order):
        return placement, True
    pinned = np.flatnonzero(~snapshot.series.movable)
    fixed = worker_series(rows[pinned], snapshot.placement[pinned], snapshot.workers)
    occupied = np.bincount(snapshot.placement[pinned], minlength=snapshot.workers)
    best = placement[order].astype(np.int64)
    proved = branch_and_bound(np.ascontiguousarray(rows[order]), fixed, occupied, best, MAX_STEPS)
    placement[order] = best
    return placement, bool(proved)


@kernel
def branch_and_bound(
    rows: Floats, totals: Floats, occupied: Indices, best: Indices, steps: int
) -> bool:
    """Search depth first; `best` is improved in place. Return whether all was searched."""
    count, workers = len(rows), len(totals)
    left = np.zeros((count + 1, rows.shape[1]))  # load still to be placed, by depth
    for depth in range(count - 1, -1, -1):
        left[depth] = left[depth + 1] + rows[depth]
    value = _placement_objective(rows, totals, best)
    base = water_filling_bound(totals, left[0])  # no plan avoids this; compare only the rest
    at = np.full(count, -1)
    depth = 0
    while depth >= 0:
        if steps == 0:
            return False
        steps -= 1
        here = at[depth]
        if here >= 0:  # take it back, then try the next worker
            totals[here] -= rows[depth]
            occupied[here] -= 1
        was_empty = here >= 0 and occupied[here] == 0
        here += 1
        while here < workers and was_empty and occupied[here] == 0:
            here += 1
        if here == workers:
            at[depth] = -1
            depth -= 1
            continue
        at[depth] = here
        totals[here] += rows[depth]
        occupied[here] += 1
        bound = water_filling_bound(totals, left[depth + 1])
        if bound - base >= (value - base) * (1 - OPTIMALITY_GAP) - 1e-15 * value:
            continue
        if depth == count - 1:
            value = bound
            best[:] = at
        else:
            depth += 1
    return True


@kernel
def _placement_objective(rows: Floats, totals: Floats, placement: Indices) -> float:
    sums = totals.copy()
    for o in range(len(rows)):
        sums[placement[o]] += rows[o]
    return float((sums**2).sum())


@kernel
def water_filling_bound(totals: Floats, left: Floats) -> float:
    """Return the least sum of squares when `left` is split over the workers at will.

    >>> float(water_filling_bound(np.array([[3.0], [0.0], [1.0]]), np.array([2.0])))
    13.5
    """
    workers, samples = totals.shape
    result = 0.0
    levels = np.empty(workers)
    for t in range(samples):
        for worker in range(workers):  # insertion sort: workers are few
            at = worker
            while at > 0 and levels[at - 1] > totals[worker, t]:
                levels[at] = levels[at - 1]
                at -= 1
            levels[at] = totals[worker, t]
        below, water, share = 0.0, left[t], 0
        while share < workers and (share == 0 or levels[share] * share - below <= water):
            below += levels[share]
            share += 1
        surface = (below + water) / share
        result += share * surface * surface
        for worker in range(share, workers):
            result += levels[worker] * levels[worker]
    return result


def least_variance_plain(
    rows: Floats, totals: Floats, workers: int
) -> tuple[float, tuple[int, ...]]:
    """Return the least sum of squares over all placements, by trying every one."""
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    for placement in product(range(workers), repeat=len(rows)):
        sums = totals + worker_series(rows, np.array(placement, dtype=np.int32), workers)
        best = min(best, (float((sums**2).sum()), placement))
    return best
