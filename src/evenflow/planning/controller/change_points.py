"""What is really known about a load that is measured with noise, and may have changed.

A share series has a row for each batch and a column for each worker, 1 being the mean of the
batch. Its noise is read off the differences between neighbouring batches, pooled over the workers
by their median, so that a sudden shift, which concerns few of them, is not taken for noise. A
batch that is farther from the mean of those before it than noise explains begins a new estimate:
a shift is seen at once, and what holds is averaged.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices

MEDIAN_DIFF_TO_STDDEV = 1.4826 / np.sqrt(
    2
)  # from the median absolute difference to a standard deviation
CHANGE_THRESHOLD_STDERRS = 4.0  # standard errors: one in 16,000, for there are many columns
ROUNDING = 1e-9


def shares_of_mean(loads: Floats) -> Floats:
    """Return loads over the mean of their batch.

    >>> shares_of_mean(np.array([[1.0, 3.0]])).tolist()
    [[0.5, 1.5]]
    """
    result: Floats = loads / loads.mean(axis=1, keepdims=True)
    return result


def relative_noise(series: Floats) -> float:
    """Return the relative standard deviation of a column around its level."""
    if len(series) < 2 or not series.shape[1]:
        return 0.0
    level = np.maximum(series.mean(axis=0), ROUNDING)
    return float(MEDIAN_DIFF_TO_STDDEV * np.median(np.abs(np.diff(series, axis=0)) / level))


def last_change_point(series: Floats) -> int:
    """Return the row since which a series holds, as far as its noise can tell.

    >>> last_change_point(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.5, 0.5]]))
    3
    """
    deviation, begin = relative_noise(series), 0
    for row in range(1, len(series)):
        held = series[begin:row].mean(axis=0)
        spread = deviation * np.sqrt(1 + 1 / (row - begin)) * np.maximum(held, ROUNDING)
        if (np.abs(series[row] - held) > CHANGE_THRESHOLD_STDERRS * spread + ROUNDING).any():
            begin = row
    return begin


def usable_rows(loads: Floats) -> Indices:
    """Return the rows to judge by: those with load, without a worker's single stalled batch.

    A worker that is idle in one batch of all was held up; its rows come with the next batch, which
    is no more typical. One that is idle more often is so by its nature, and where more than half
    of the batches would have to go, that is how they are.

    >>> usable_rows(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0]])).tolist()
    [0, 3, 4]
    >>> usable_rows(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])).tolist()
    [0, 1, 2, 3]
    """
    rows = np.flatnonzero(loads.sum(axis=1) > 0)
    idle = loads[rows] <= 0
    held_up: Bools = (idle & (idle.sum(axis=0) == 1)).any(axis=1)
    held_up[:1] = False  # what was before is not known
    held_up[1:] |= held_up[:-1].copy()
    return rows[~held_up] if 2 * held_up.sum() <= len(rows) else rows
