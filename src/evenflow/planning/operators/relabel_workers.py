"""Renumber the workers of a global plan so that the least load moves.

To a global plan all workers are alike, so any numbering is as good. This one maximises the load
that stays where it runs: an assignment problem between workers of the plan and running workers,
solved exactly by shortest augmenting paths (Jonker and Volgenant 1987), O(n^3). Workers with
immovable operators keep their number.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.operators.problem import OperatorSnapshot


def relabel_workers(snapshot: OperatorSnapshot, placement: Workers) -> Workers:
    """Return the same plan with its workers renumbered.

    >>> from evenflow.model import LoadSeries
    >>> series = LoadSeries(("a", "b"), [[1.0], [2.0]], [True, True])
    >>> snapshot = OperatorSnapshot(series, 2, np.array([1, 0], dtype=np.int32))
    >>> relabel_workers(snapshot, np.array([0, 1], dtype=np.int32)).tolist()
    [1, 0]
    """
    running = np.flatnonzero(~snapshot.is_new)
    shared = np.zeros((snapshot.workers, snapshot.workers))
    np.add.at(shared, (placement[running], snapshot.placement[running]), snapshot.load[running])
    has_immovable = np.zeros(snapshot.workers, dtype=bool)
    has_immovable[snapshot.placement[~snapshot.series.movable]] = True
    free = np.flatnonzero(~has_immovable)
    new_number = np.arange(snapshot.workers, dtype=np.int32)
    if len(free) and shared.any():
        new_number[free] = free[min_cost_matching(-shared[np.ix_(free, free)])]
    return new_number[placement]


@kernel
def min_cost_matching(cost: Floats) -> Indices:
    """Return the column of each row in the cheapest perfect matching of a square matrix."""
    size = len(cost)
    row_of = np.full(size + 1, -1)  # column `size` is where each search starts
    row_price, column_price = np.zeros(size), np.zeros(size + 1)
    for row in range(size):
        row_of[size] = row
        column = size
        distance = np.full(size, np.inf)
        came_from = np.full(size, size)
        done = np.zeros(size + 1, dtype=np.bool_)
        while row_of[column] >= 0:
            done[column] = True
            at, step, next_column = row_of[column], np.inf, -1
            for other in range(size):
                if done[other]:
                    continue
                reduced = cost[at, other] - row_price[at] - column_price[other]
                if reduced < distance[other]:
                    distance[other], came_from[other] = reduced, column
                if distance[other] < step:
                    step, next_column = distance[other], other
            for other in range(size + 1):
                if done[other]:
                    row_price[row_of[other]] += step
                    column_price[other] -= step
                elif other < size:
                    distance[other] -= step
            column = next_column
        while column != size:  # turn the path into matches
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
        row_of[size] = -1
    columns = np.empty(size, dtype=np.int64)
    for column in range(size):
        columns[row_of[column]] = column
    return columns
