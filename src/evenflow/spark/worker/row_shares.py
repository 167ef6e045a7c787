"""Divide rows by worker."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from evenflow.model.arrays import Indices, Workers


def shares_by_worker(
    rows: pa.Table, worker_of_row: Workers, workers: int, at: Indices | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each worker that has some, in their order.

    With `at`, the workers are those of the rows at these positions, which may occur several times.

    >>> rows = pa.table({"x": [10, 20, 30]})
    >>> shares = shares_by_worker(rows, np.array([1, 0, 1]), workers=3)
    >>> [(worker, share["x"].to_pylist()) for worker, share in shares]
    [(0, [20]), (1, [10, 30])]
    """
    # Sixteen bits make NumPy sort by radix: one pass over the rows.
    order = np.argsort(worker_of_row.astype(np.uint16), kind="stable")
    by_worker = rows.take(order if at is None else at[order])
    ends = np.bincount(worker_of_row, minlength=workers).cumsum()
    for worker in range(workers):
        begin = int(ends[worker - 1]) if worker else 0
        if ends[worker] > begin:
            yield worker, by_worker.slice(begin, int(ends[worker]) - begin)
