"""Statistics of load series (borealis-load-distribution, sections 2.3, 3.1 and 3.3.4).

S, a load series of k samples, is a row of `samples`; X_i, the series of worker i, is the sum of
its operators' rows; X is their total over n workers. All deviations divide by k.

Departures
- Correlation with a constant series is undefined in the paper; here it is 0, and a series counts
  as constant next to another when its variance is below 1e-12 of the other's.
"""

import numpy as np

from evenflow.model.arrays import Floats, Indices, Workers

CONSTANT_TOLERANCE = 1e-9  # of the mean: a deviation below it is rounding
VARIANCE_TOLERANCE = 1e-12  # of the other variance


def centred(samples: Floats) -> Floats:
    """Return the series less their means; rounding of constant series becomes exact zeros.

    >>> centred(np.array([[1.0, 3.0], [0.1, 0.1]])).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    means = samples.mean(axis=1, keepdims=True)
    deviations: Floats = samples - means
    rounding = CONSTANT_TOLERANCE * np.abs(means[:, 0])
    deviations[np.abs(deviations).max(axis=1, initial=0.0) <= rounding] = 0.0
    return deviations


def series_variance(samples: Floats) -> Floats:
    """Return var S of each row."""
    result: Floats = (centred(samples) ** 2).mean(axis=1)
    return result


def worker_series(samples: Floats, placement: Workers | Indices, workers: int) -> Floats:
    """Return X_i of every worker, a row each: the sum of its operators' rows."""
    series = np.zeros((workers, samples.shape[1]))
    np.add.at(series, placement, samples)
    return series


def divergent_level(series: Floats) -> Floats:
    """Return mean load plus deviation: above its capacity a worker is overloaded now and then."""
    level: Floats = series.mean(axis=1) + np.sqrt(series_variance(series))
    return level


def correlations(series: Floats) -> Floats:
    """Return the correlation coefficients of all pairs of rows, a square matrix."""
    deviations = centred(series)
    gram = deviations @ deviations.T
    squares = np.diag(gram)
    low, high = np.minimum.outer(squares, squares), np.maximum.outer(squares, squares)
    defined = low > VARIANCE_TOLERANCE * high
    scale = np.sqrt(squares)
    ratio: Floats = np.divide(
        gram, np.multiply.outer(scale, scale), out=np.zeros_like(gram), where=defined
    )
    return np.clip(ratio, -1.0, 1.0)


def mean_correlation(series: Floats) -> float:
    """Return the mean correlation over all pairs of workers; 0 for a single worker."""
    workers = len(series)
    if workers < 2:
        return 0.0
    return float(correlations(series)[np.triu_indices(workers, 1)].mean())


def std_lower_bound(samples: Floats, workers: int) -> float:
    """Return Theorem 1's bound: no even plan has a lower mean deviation than that of X/n.

    >>> std_lower_bound(np.array([[1.0, 3.0], [1.0, 3.0]]), 2)
    1.0
    """
    return float(np.sqrt(series_variance(samples.sum(axis=0, keepdims=True))[0]) / workers)
