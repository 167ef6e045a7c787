"""When a noisy load series last changed.

A share series has a row per batch and a column per worker; 1 is the mean of the batch. Its noise
has two parts. Rows arrive by chance: the fewer rows in a batch, the larger the variance of its
shares, and it is known from the counts. What differences between successive batches show beyond
that (`excess_noise`) is measured as their median over all workers, so a sudden shift, which affects
few of them, does not count as noise. A batch that differs from the stable batches before it by more
than noise explains starts a new stable period.

The shares of keys are compared by their square roots, whose variance does not depend on the share:
so a key that is listed because it was lucky is no change.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices

MEDIAN_DIFF_TO_STDDEV = 1.4826 / np.sqrt(2)  # for normally distributed noise
MEDIAN_ERROR = 1.17  # relative standard error of such an estimate, times the root of the samples
CHANGE_THRESHOLD_STDERRS = 5.0  # of few rows, noise exceeds even four now and then
KEY_THRESHOLD_STDERRS = 5.0  # there are hundreds of keys
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


def excess_noise(series: Floats, variances: Floats) -> float:
    """Return the relative standard deviation that the variances by row counts do not explain."""
    if len(series) < 2 or not series.shape[1]:
        return 0.0
    level = np.maximum(series.mean(axis=0), ROUNDING)
    counted = np.sqrt(np.maximum(variances[1:] + variances[:-1], 0.0) / 2) / level
    usual = float(np.median(counted))
    if usual <= ROUNDING:
        return relative_noise(series)
    ratios = np.abs(np.diff(series, axis=0)) / level / np.maximum(counted, ROUNDING)
    ratio = MEDIAN_DIFF_TO_STDDEV * float(np.median(ratios))
    by_chance = 1 + MEDIAN_ERROR / np.sqrt(ratios.size)
    return float(usual * np.sqrt(max(ratio**2 - by_chance**2, 0.0)))


def last_change_point(series: Floats, variances: Floats | None = None) -> int:
    """Return the first row of the last stable period; `variances` are those by row counts.

    >>> last_change_point(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.5, 0.5]]))
    3
    """
    counted = np.zeros_like(series) if variances is None else variances
    noise, begin = excess_noise(series, counted), 0
    for row in range(1, len(series)):
        mean = series[begin:row].mean(axis=0)
        batches = row - begin
        variance = (noise * np.maximum(mean, ROUNDING)) ** 2 * (1 + 1 / batches)
        variance += counted[row] + counted[begin:row].mean(axis=0) / batches
        if (
            np.abs(series[row] - mean) > CHANGE_THRESHOLD_STDERRS * np.sqrt(variance) + ROUNDING
        ).any():
            begin = row
    return begin


def last_key_change(shares: Floats, rows: Floats, noise: float, material: float) -> int:
    """Return the first row of the last period in which the shares of keys (columns) are stable.

    rows      rows behind the shares, as many as if every row of the query cost as much as the key's
    noise     relative standard deviation beyond that of counts
    material  change of a share that matters
    """
    begin = 0
    for row in range(1, len(shares)):
        count, now_count = rows[begin:row].sum(axis=0), rows[row]
        mean, now = (rows[begin:row] * shares[begin:row]).sum(axis=0) / count, shares[row]
        # 3/8 of a row makes the square root of a small count nearly normal (Anscombe 1948).
        steps = np.abs(np.sqrt(now + 0.375 / now_count) - np.sqrt(mean + 0.375 / count))
        variance = (1 / count + 1 / now_count) / 4 + noise**2 * np.maximum(now, mean) / 2
        changed = steps > KEY_THRESHOLD_STDERRS * np.sqrt(variance) + ROUNDING
        if (changed & (np.abs(now - mean) >= material)).any():
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
