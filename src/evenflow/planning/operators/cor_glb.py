"""COR-GLB: correlation-based placement of all operators on all workers.

Borealis-load-distribution, section 3.4. n workers start with their immovable operators only. Each
time, the least loaded worker N_i receives the operator with the largest score

    S(o, N_i) = (1/n) sum_j rho(o, N_j)  -  rho(o, N_i),

and one round of one-way balancing follows. Then, as long as the mean correlation of all pairs of
workers is at most theta, the least correlated pair is redistributed (COR-RE), which is kept only if
its correlation grew. A tried pair is not tried again until one of its workers has changed; there
are at most n(n-1)/2 tries.

A pick recomputes only the receiver's correlations: O(operators x k) instead of
O(operators x n x k). The least correlated untried pair follows from the least one of each row, so a
try costs O(n k) besides its redistribution, where the paper has O(n^2).

Departures
- The one-way round has no threshold.
- An accepted pair may be tried again like any other pair that changed.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.operators.correlation_score import (
    TIE_TOLERANCE,
    add_scaled,
    centred_correlation,
    correlation_coefficient,
    correlation_with,
    place_next_plain,
    sum_by_worker,
    sum_of_squares,
)
from evenflow.planning.operators.pairwise import (
    ONE_WAY,
    REDISTRIBUTE,
    balance_round,
    balance_round_plain,
    try_pair,
    try_pair_plain,
)
from evenflow.planning.operators.worker_lists import OperatorRows, worker_lists


def cor_glb(theta: float, rows: OperatorRows, placement: Workers, workers: int) -> None:
    """Place all movable operators; `placement` (read where immovable) is changed in place."""
    place_by_correlation(rows, placement, workers)
    balance_round(ONE_WAY, 0.0, 0.0, rows, placement, workers)
    improve_global(theta, rows, placement, workers)


@kernel
def place_by_correlation(rows: OperatorRows, placement: Workers, workers: int) -> None:
    """Place movable operators one by one, the greedy step; `placement` is changed in place."""
    deviations = rows.deviations
    samples = deviations.shape[1]
    totals, loads = sum_by_worker(rows, placement, workers, True)
    waiting = np.flatnonzero(rows.movable)
    left = len(waiting)
    # By sample, so that the inner loops run over operators; compacted as operators are placed.
    columns = np.empty((samples, left))
    squares, sums, score = np.zeros(left), np.zeros(left), np.empty(left)
    for at in range(left):
        for t in range(samples):
            columns[t, at] = deviations[waiting[at], t]
        squares[at] = sum_of_squares(deviations[waiting[at]])
    rho = np.zeros((workers, left))
    for worker in range(workers):
        if sum_of_squares(totals[worker]) > 0.0:
            _update_correlations(columns, squares, totals[worker], rho[worker], sums, score, left)
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
        loads[receiver] += rows.load[o]
        add_scaled(totals[receiver], deviations[o], 1.0)
        left -= 1
        waiting[chosen], squares[chosen], sums[chosen] = waiting[left], squares[left], sums[left]
        for t in range(samples):
            columns[t, chosen] = columns[t, left]
        for worker in range(workers):
            rho[worker, chosen] = rho[worker, left]
        _update_correlations(columns, squares, totals[receiver], rho[receiver], sums, score, left)


@kernel
def _update_correlations(
    columns: Floats,
    squares: Floats,
    total: Floats,
    rho: Floats,
    sums: Floats,
    dots: Floats,
    left: int,
) -> None:
    """Recompute one worker's correlations with all waiting operators, and their sums."""
    for at in range(left):
        dots[at] = 0.0
    for t in range(len(total)):
        for at in range(left):
            dots[at] += columns[t, at] * total[t]
    square = sum_of_squares(total)
    for at in range(left):
        new = correlation_coefficient(dots[at], squares[at], square)
        sums[at] += new - rho[at]
        rho[at] = new


@kernel
def improve_global(theta: float, rows: OperatorRows, placement: Workers, workers: int) -> None:
    """Redistribute least correlated pairs, the improvement step; `placement` changes in place."""
    if workers < 2:
        return
    lists = worker_lists(placement, workers)
    totals, loads = sum_by_worker(rows, placement, workers, False)
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
        pair = (first, second)
        if not try_pair(
            REDISTRIBUTE, 0.0, rows, lists, placement, pair, rho[first, second], totals, loads
        ):
            tried[first, second] = tried[second, first] = True
            least[first] = _least_correlated(rho, tried, first)
            least[second] = _least_correlated(rho, tried, second)
            continue
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
    """Return whether pair (worker, one) is tried before (worker, two)."""
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
        untried = other != worker and not tried[worker, other]
        if untried and rho[worker, other] <= best + TIE_TOLERANCE:
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
    """Recompute a changed worker's correlations, forget its tries, return the sum's change."""
    change = 0.0
    for other in range(len(rho)):
        tried[changed, other] = tried[other, changed] = False
        if other != changed:
            new = correlation_with(totals[changed], totals[other])
            change += new - rho[changed, other]
            rho[changed, other] = rho[other, changed] = new
    return change


def cor_glb_plain(theta: float, rows: OperatorRows, placement: Workers, workers: int) -> Workers:
    """Return the placement of COR-GLB, word for word as section 3.4 has it."""
    placement = np.where(rows.movable, -1, placement).astype(np.int32)
    while (placement < 0).any():
        place_next_plain(rows, placement, workers)
    placement = balance_round_plain(ONE_WAY, 0.0, 0.0, rows, placement, workers)
    pairs = [(one, two) for one in range(workers) for two in range(one + 1, workers)]
    tried: set[tuple[int, int]] = set()
    for _ in pairs:
        totals = [rows.deviations[placement == worker].sum(axis=0) for worker in range(workers)]
        rho = {(a, b): centred_correlation(totals[a], totals[b]) for a, b in pairs}
        untried = [pair for pair in pairs if pair not in tried]
        if sum(rho.values()) / len(pairs) > theta or not untried:
            break
        least = min(rho[pair] for pair in untried)
        pair = next(pair for pair in untried if rho[pair] <= least + TIE_TOLERANCE)
        after = try_pair_plain(REDISTRIBUTE, 0.0, rows, placement, pair, rho[pair])
        if after is None:
            tried.add(pair)
        else:
            placement = after
            tried = {other for other in tried if not set(other) & set(pair)}
    return placement
