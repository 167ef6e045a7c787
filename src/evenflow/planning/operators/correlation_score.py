"""Correlation of an operator with a worker, and the score built on it.

Borealis-load-distribution, sections 3.3.1 and 3.4. rho(o, N) is the correlation of operator o
with all other operators on N. The score of o with respect to N_i,

    S(o, N_i) = mean over j of rho(o, N_j)  -  rho(o, N_i),

is large where o is better off on N_i than elsewhere; for the pair (N_1, N_2) and an o on N_1 it is
(rho(o, N_1) - rho(o, N_2)) / 2.

Departures
- Ties: scores within 1e-9 count as equal and the lowest operator goes first (rounding must not
  decide); whole chains on one worker, and first picks on empty workers, do tie.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.operators.load_statistics import VARIANCE_TOLERANCE
from evenflow.planning.operators.worker_lists import OperatorRows

TIE_TOLERANCE = 1e-9


@kernel
def add_scaled(total: Floats, row: Floats, times: float) -> None:
    """Add a row to a total; a loop, since array expressions take long to compile."""
    for t in range(len(total)):
        total[t] += times * row[t]


@kernel
def sum_by_worker(
    rows: OperatorRows, worker_of: Workers | Indices, workers: int, only_fixed: bool
) -> tuple[Floats, Floats]:
    """Return the summed deviations and loads of each worker, of immovable operators or of all."""
    totals, loads = np.zeros((workers, rows.deviations.shape[1])), np.zeros(workers)
    for o in range(len(rows.load)):
        if not (only_fixed and rows.movable[o]):
            loads[worker_of[o]] += rows.load[o]
            add_scaled(totals[worker_of[o]], rows.deviations[o], 1.0)
    return totals, loads


@kernel
def sum_of_squares(row: Floats) -> float:
    """Return the sum of squares of a row."""
    result = 0.0
    for t in range(len(row)):
        result += row[t] * row[t]
    return result


@kernel
def correlation_coefficient(dot: float, one: float, two: float) -> float:
    """Return a correlation from a dot product and two sums of squares; 0 with a constant."""
    if min(one, two) <= VARIANCE_TOLERANCE * max(one, two):
        return 0.0
    return float(min(max(dot / (np.sqrt(one) * np.sqrt(two)), -1.0), 1.0))


def centred_correlation(one: Floats, two: Floats) -> float:
    """Return the correlation of two series whose means are already subtracted.

    >>> round(centred_correlation(np.array([-1.0, 1.0]), np.array([2.0, -2.0])), 9)
    -1.0
    >>> centred_correlation(np.array([-1.0, 1.0]), np.array([0.0, 0.0]))
    0.0
    """
    return correlation_coefficient(float(one @ two), float(one @ one), float(two @ two))


@kernel
def correlation_with(deviation: Floats, total: Floats) -> float:
    """Return rho(o, N) of an operator that is not on N."""
    dot, one, two = 0.0, 0.0, 0.0
    for t in range(len(total)):
        dot += deviation[t] * total[t]
        one += deviation[t] * deviation[t]
        two += total[t] * total[t]
    return correlation_coefficient(dot, one, two)


@kernel
def pair_score(deviation: Floats, here: Floats, there: Floats) -> float:
    """Return the score of moving an operator from the worker it is on to another."""
    dot_here, dot_there, one, two, three = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(len(here)):
        rest = here[t] - deviation[t]
        dot_here += deviation[t] * rest
        dot_there += deviation[t] * there[t]
        one += deviation[t] * deviation[t]
        two += rest * rest
        three += there[t] * there[t]
    return (
        correlation_coefficient(dot_here, one, two) - correlation_coefficient(dot_there, one, three)
    ) / 2


def first_best(scores: Floats) -> int:
    """Return the lowest index whose score is within a tie of the largest.

    >>> first_best(np.array([0.3, 0.5, 0.5 + 1e-12]))
    1
    """
    return int(np.flatnonzero(scores >= scores.max() - TIE_TOLERANCE)[0])


def place_next_plain(rows: OperatorRows, worker_of: Workers | Indices, workers: int) -> None:
    """Give the least loaded worker the unplaced operator with the largest score, in place."""
    loads = [rows.load[worker_of == worker].sum() for worker in range(workers)]
    totals = [rows.deviations[worker_of == worker].sum(axis=0) for worker in range(workers)]
    waiting = np.flatnonzero(worker_of < 0)
    rho = np.array([[centred_correlation(rows.deviations[o], x) for o in waiting] for x in totals])
    receiver = int(np.argmin(loads))
    worker_of[waiting[first_best(rho.mean(axis=0) - rho[receiver])]] = receiver
