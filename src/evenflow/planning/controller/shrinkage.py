"""Counts of few rows, corrected for chance (empirical Bayes).

Of many keys with the same rate, some have more rows than others by chance. Whoever plans with the
counts moves those that were lucky. So a count is replaced by the rate that keys with such a count
have on average: the rates of all keys are estimated as a mixture of Poisson distributions by
maximum likelihood (Kiefer and Wolfowitz 1956, by EM on a grid), and the mean rate given the count
follows. Equal keys get equal rates; the hot keys of a skewed stream keep what was counted.
"""

import numpy as np

from evenflow.model.arrays import Floats

CERTAIN_COUNT = 400  # from here on, chance is 5 % of a count at most: it is kept
GRID_POINTS = 80
EM_ROUNDS = 30


def expected_counts(counts: Floats) -> Floats:
    """Return for each count the mean rate of all items with such a count.

    >>> expected_counts(np.array([8.0, 10.0, 12.0, 300.0])).round().tolist()
    [10.0, 10.0, 10.0, 300.0]
    """
    result = counts.astype(np.float64)
    few = np.flatnonzero((counts > 0) & (counts < CERTAIN_COUNT))
    if len(few) < 2:
        return result
    values, at, times = np.unique(counts[few], return_inverse=True, return_counts=True)
    rates = np.geomspace(max(values[0] / 2, 0.1), 1.5 * values[-1], GRID_POINTS)
    log_likelihood = values[:, None] * np.log(rates) - rates
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    weights = np.full(GRID_POINTS, 1 / GRID_POINTS)
    for _ in range(EM_ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = times @ posterior / len(few)
    posterior = likelihood * weights
    means = posterior @ rates / posterior.sum(axis=1)
    result[few] = (means * (values @ times) / (means @ times))[at]
    return result


def shrink_to_mean(values: Floats, variances: Floats) -> Floats:
    """Return values moved towards their mean as far as their variances explain the differences.

    >>> shrink_to_mean(np.array([9.0, 11.0]), np.array([10.0, 10.0])).tolist()
    [10.0, 10.0]
    """
    mean, spread = values.mean(), float(((values - values.mean()) ** 2).sum())
    if spread <= 0:
        return values
    kept = max(1 - (len(values) - 1) * float(variances.mean()) / spread, 0.0)
    result: Floats = mean + kept * (values - mean)
    return result
