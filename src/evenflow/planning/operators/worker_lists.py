"""Which operators run on which worker, kept so that a pair can be taken out and put back quickly.

`heads[w]` is the lowest operator on worker w and `follows[o]` the next higher one on the same
worker, -1 at the end. Taking a pair out costs what the pair holds, whatever the number of workers.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers


@kernel
def worker_lists(placement: Workers, workers: int) -> tuple[Indices, Indices]:
    """Return heads and follows of a placement."""
    heads = np.full(workers, -1)
    follows = np.full(len(placement), -1)
    for o in range(len(placement) - 1, -1, -1):
        follows[o] = heads[placement[o]]
        heads[placement[o]] = o
    return heads, follows


@kernel
def operators_of_pair(
    heads: Indices, follows: Indices, first: int, second: int
) -> tuple[Indices, Indices]:
    """Return the operators of two workers in ascending order, and the side each is on.

    Side 0 is the lower worker, so that ties between the two go to it.
    """
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
def gather_rows(
    operators: Indices, deviations: Floats, load: Floats, movable: Bools
) -> tuple[Floats, Floats, Bools]:
    """Return the rows of some operators, side by side."""
    rows = np.empty((len(operators), deviations.shape[1]))
    loads = np.empty(len(operators))
    moves = np.empty(len(operators), dtype=np.bool_)
    for at in range(len(operators)):
        for t in range(deviations.shape[1]):
            rows[at, t] = deviations[operators[at], t]
        loads[at] = load[operators[at]]
        moves[at] = movable[operators[at]]
    return rows, loads, moves


@kernel
def write_pair(
    heads: Indices,
    follows: Indices,
    placement: Workers,
    pair: tuple[int, int],
    operators: Indices,
    side: Indices,
) -> None:
    """Write the sides of a pair back into lists and placement."""
    low, high = min(pair[0], pair[1]), max(pair[0], pair[1])
    heads[low], heads[high] = -1, -1
    for at in range(len(operators) - 1, -1, -1):
        o = operators[at]
        worker = high if side[at] else low
        placement[o] = worker
        follows[o] = heads[worker]
        heads[worker] = o
