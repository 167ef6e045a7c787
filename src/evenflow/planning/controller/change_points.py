"""When a noisy load series last changed.

A share series has a row per batch and a column per worker; 1 is the mean of the batch. Its noise is
the median difference between successive batches over all workers, so a sudden shift, which affects
few of them, does not count as noise. A batch that differs from the mean of the stable batches
before it by more than noise explains starts a new stable period.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices

MEDIAN_DIFF_TO_STDDEV = 1.4826 / np.sqrt(2)  # for normally distributed noise
CHANGE_THRESHOLD_STDERRS = 4.0  # exceeded by noise once in 16,000, as there are many columns
ROUNDING = 1e-9


def shares_of_mean(loads: Floats) -> Floats:
    """Return loads divided by the mean of their batch.

    >>> shares_of_mean(np.array([[1.0, 3.0]])).tolist()
    [[0.5, 1.5]]
    """
    result: Floats = loads / loads.mean(axis=1, keepdims=True)
    return result


def relative_noise(series: Floats) -> float:
    """Return the relative standard deviation of a column around its mean."""
    if len(series) < 2 or not series.shape[1]:
        return 0.0
    level = np.maximum(series.mean(axis=0), ROUNDING)
    return float(MEDIAN_DIFF_TO_STDDEV * np.median(np.abs(np.diff(series, axis=0)) / level))


def last_change_point(series: Floats) -> int:
    """Return the first row of the last stable period.

    >>> last_change_point(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.5, 0.5]]))
    3
    """
    noise, begin = relative_noise(series), 0
    for row in range(1, len(series)):
        mean = series[begin:row].mean(axis=0)
        spread = noise * np.sqrt(1 + 1 / (row - begin)) * np.maximum(mean, ROUNDING)
        if (np.abs(series[row] - mean) > CHANGE_THRESHOLD_STDERRS * spread + ROUNDING).any():
            begin = row
    return begin


def usable_rows(loads: Floats) -> Indices:
    """Return the batches with load, except those around a single stall of a worker.

    A worker that is idle in only one batch was stalled; it catches up in the next batch, which is
    not typical either. Idleness in several batches is normal load, and so are stalls that would
    exclude more than half of the batches.

    >>> usable_rows(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0]])).tolist()
    [0, 3, 4]
    >>> usable_rows(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])).tolist()
    [0, 1, 2, 3]
    """
    rows = np.flatnonzero(loads.sum(axis=1) > 0)
    idle = loads[rows] <= 0
    stalled: Bools = (idle & (idle.sum(axis=0) == 1)).any(axis=1)
    stalled[:1] = False  # the batch before is not known
    stalled[1:] |= stalled[:-1].copy()
    return rows[~stalled] if 2 * stalled.sum() <= len(rows) else rows
