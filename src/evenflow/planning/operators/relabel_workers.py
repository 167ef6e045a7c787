"""Renumber the workers of a global plan so that the least load moves.

A global plan does not care which worker is which. Choosing the names is an assignment problem:
the load that plan's worker i shares with running worker j, to be kept in place, is maximised.
Workers with immovable operators keep their names. Solved exactly by shortest augmenting paths
(Jonker and Volgenant 1987), O(n^3).
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.operators.problem import OperatorSnapshot


def relabel_workers(snapshot: OperatorSnapshot, placement: Workers) -> Workers:
    """Return the same plan with its workers renumbered.

    >>> from evenflow.model import LoadSeries
    >>> series = LoadSeries(("a", "b"), [[1.0], [2.0]], [True, True])
    >>> running = OperatorSnapshot(series, 2, np.array([1, 0], dtype=np.int32))
    >>> relabel_workers(running, np.array([0, 1], dtype=np.int32)).tolist()
    [1, 0]
    """
    runs = np.flatnonzero(~snapshot.is_new)
    kept = np.zeros((snapshot.workers, snapshot.workers))
    np.add.at(kept, (placement[runs], snapshot.placement[runs]), snapshot.load[runs])
    bound = np.zeros(snapshot.workers, dtype=bool)
    bound[snapshot.placement[~snapshot.series.movable]] = True
    free = np.flatnonzero(~bound)
    names = np.arange(snapshot.workers, dtype=np.int32)
    if len(free) and kept.any():
        names[free] = free[min_cost_matching(-kept[np.ix_(free, free)])]
    return names[placement]


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
