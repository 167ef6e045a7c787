"""The correlation improvement step of COR-GLB (borealis-load-distribution, section 3.4).

As long as the mean correlation of all pairs of workers is at most theta, the least correlated pair
is redistributed (COR-RE), which is kept only if its correlation grew. A tried pair is not tried
again until one of its workers has changed; there are at most n(n-1)/2 tries.

The least correlated untried pair is found from the least one of each row, so that a try costs
O(n k) beside its redistribution, where the paper has O(n^2).

Departures
- An accepted pair may be tried again like any other pair that changed.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.operators.cor_re import redistribute
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    correlation_with,
)
from evenflow.planning.operators.load_statistics import centred_correlation
from evenflow.planning.operators.pairwise import REDISTRIBUTE, balance_pair_plain
from evenflow.planning.operators.worker_lists import (
    gather_rows,
    operators_of_pair,
    worker_lists,
    write_pair,
)


@kernel
def improve_global(
    theta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> None:
    """Redistribute least correlated pairs, the improvement step; `placement` changes in place."""
    if workers < 2:
        return
    heads, follows = worker_lists(placement, workers)
    totals = np.zeros((workers, deviations.shape[1]))
    for o in range(len(load)):
        add_scaled(totals[placement[o]], deviations[o], 1.0)
    rho = np.zeros((workers, workers))
    for one in range(workers):
        for two in range(one):
            rho[one, two] = rho[two, one] = correlation_with(totals[one], totals[two])
    total, pairs = rho.sum() / 2, workers * (workers - 1) // 2
    tried = np.zeros((workers, workers), dtype=np.bool_)
    least = np.empty(workers, dtype=np.int64)
    for worker in range(workers):
        least[worker] = _least_correlated(rho, tried, worker)
    for _ in range(pairs):
        if total / pairs > theta:
            return
        first = _first_of_least_pair(rho, least)
        if first < 0:
            return
        second = least[first]
        operators, side = operators_of_pair(heads, follows, first, second)
        part, part_load, part_movable = gather_rows(operators, deviations, load, movable)
        redistribute(part, part_load, part_movable, side)
        after = np.zeros((2, deviations.shape[1]))
        for at in range(len(side)):
            add_scaled(after[side[at]], part[at], 1.0)
        if correlation_with(after[0], after[1]) <= rho[first, second] + TIE_TOLERANCE:
            tried[first, second] = tried[second, first] = True
            least[first] = _least_correlated(rho, tried, first)
            least[second] = _least_correlated(rho, tried, second)
            continue
        write_pair(heads, follows, placement, (first, second), operators, side)
        totals[min(first, second)], totals[max(first, second)] = after[0], after[1]
        for changed in (first, second):
            total += _refresh_worker(rho, tried, totals, changed)
        for worker in range(workers):
            moved = worker in (first, second)
            if moved or least[worker] in (first, second):
                least[worker] = _least_correlated(rho, tried, worker)
            else:
                for changed in (first, second):
                    if least[worker] < 0 or _precedes(rho, worker, changed, least[worker]):
                        least[worker] = changed


@kernel
def _precedes(rho: Floats, worker: int, one: int, two: int) -> bool:
    """Tell whether pair (worker, one) is tried before (worker, two)."""
    if abs(rho[worker, one] - rho[worker, two]) <= TIE_TOLERANCE:
        return one < two
    return bool(rho[worker, one] < rho[worker, two])


@kernel
def _least_correlated(rho: Floats, tried: Bools, worker: int) -> int:
    """Return the untried worker least correlated with this one, -1 if none is left."""
    best = np.inf
    for other in range(len(rho)):
        if other != worker and not tried[worker, other]:
            best = min(best, rho[worker, other])
    for other in range(len(rho)):
        if (
            other != worker
            and not tried[worker, other]
            and rho[worker, other] <= best + TIE_TOLERANCE
        ):
            return other
    return -1


@kernel
def _first_of_least_pair(rho: Floats, least: Indices) -> int:
    """Return the first worker of the least correlated untried pair, -1 if none is left."""
    best = np.inf
    for worker in range(len(least)):
        if least[worker] >= 0:
            best = min(best, rho[worker, least[worker]])
    for worker in range(len(least)):
        if least[worker] >= 0 and rho[worker, least[worker]] <= best + TIE_TOLERANCE:
            return worker
    return -1


@kernel
def _refresh_worker(rho: Floats, tried: Bools, totals: Floats, changed: int) -> float:
    """Take a changed worker's correlations anew, forget its tries, return the sum's change."""
    change = 0.0
    for other in range(len(rho)):
        tried[changed, other] = tried[other, changed] = False
        if other != changed:
            new = correlation_with(totals[changed], totals[other])
            change += new - rho[changed, other]
            rho[changed, other] = rho[other, changed] = new
    return change


def improve_global_plain(
    theta: float,
    deviations: Floats,
    load: Floats,
    movable: Bools,
    placement: Workers,
    workers: int,
) -> Workers:
    """Return the placement after the improvement step, word for word as section 3.4 has it."""
    pairs = [(one, two) for one in range(workers) for two in range(one + 1, workers)]
    tried: set[tuple[int, int]] = set()
    for _ in pairs:
        totals = [deviations[placement == worker].sum(axis=0) for worker in range(workers)]
        rho = {(a, b): centred_correlation(totals[a], totals[b]) for a, b in pairs}
        untried = [pair for pair in pairs if pair not in tried]
        if sum(rho.values()) / len(pairs) > theta or not untried:
            break
        least = min(rho[pair] for pair in untried)
        pair = next(pair for pair in untried if rho[pair] <= least + TIE_TOLERANCE)
        after = placement.copy()
        balance_pair_plain(REDISTRIBUTE, 0.0, deviations, load, movable, after, pair)
        ends = [deviations[after == end].sum(axis=0) for end in pair]
        if centred_correlation(ends[0], ends[1]) > rho[pair] + TIE_TOLERANCE:
            placement = after
            tried = {other for other in tried if not set(other) & set(pair)}
        else:
            tried.add(pair)
    return placement
