"""The operators of each worker as linked lists, so that a pair of workers is read and written fast.

Reading a pair costs what the pair holds, whatever the number of workers.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers


class OperatorRows(NamedTuple):
    """Operators as the correlation kernels read them, one row each.

    deviations  load series less their means
    load        mean load
    movable     whether the operator may move
    preference  order of BY_PREFERENCE: larger first
    """

    deviations: Floats
    load: Floats
    movable: Bools
    preference: Floats


class WorkerLists(NamedTuple):
    """`heads[w]` is the lowest operator on worker w, `follows[o]` the next higher one or -1."""

    heads: Indices
    follows: Indices


@kernel
def worker_lists(placement: Workers, workers: int) -> WorkerLists:
    """Return the lists of a placement."""
    heads = np.full(workers, -1)
    follows = np.full(len(placement), -1)
    for o in range(len(placement) - 1, -1, -1):
        follows[o] = heads[placement[o]]
        heads[placement[o]] = o
    return WorkerLists(heads, follows)


@kernel
def operators_of_pair(lists: WorkerLists, first: int, second: int) -> tuple[Indices, Indices]:
    """Return the operators of two workers in ascending order, and the side each is on.

    Side 0 is the lower worker, so that ties between the two go to it.
    """
    heads, follows = lists
    low, high = min(first, second), max(first, second)
    size = 0
    for worker in (low, high):
        at = heads[worker]
        while at >= 0:
            size += 1
            at = follows[at]
    operators = np.empty(size, dtype=np.int64)
    side = np.empty(size, dtype=np.int64)
    one, two = heads[low], heads[high]
    for at in range(size):
        if two < 0 or 0 <= one < two:
            operators[at], side[at] = one, 0
            one = follows[one]
        else:
            operators[at], side[at] = two, 1
            two = follows[two]
    return operators, side


@kernel
def gather_rows(rows: OperatorRows, operators: Indices) -> OperatorRows:
    """Return the rows of some operators, side by side."""
    count, samples = len(operators), rows.deviations.shape[1]
    part = OperatorRows(
        np.empty((count, samples)), np.empty(count), np.empty(count, np.bool_), np.empty(count)
    )
    for at in range(count):
        o = operators[at]
        for t in range(samples):
            part.deviations[at, t] = rows.deviations[o, t]
        part.load[at], part.movable[at] = rows.load[o], rows.movable[o]
        part.preference[at] = rows.preference[o]
    return part


@kernel
def write_pair(
    lists: WorkerLists, placement: Workers, pair: tuple[int, int], operators: Indices, side: Indices
) -> None:
    """Write the sides of a pair back into lists and placement."""
    heads, follows = lists
    low, high = min(pair[0], pair[1]), max(pair[0], pair[1])
    heads[low], heads[high] = -1, -1
    for at in range(len(operators) - 1, -1, -1):
        o = operators[at]
        worker = high if side[at] else low
        placement[o] = worker
        follows[o] = heads[worker]
        heads[worker] = o
