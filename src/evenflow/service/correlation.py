"""Which workers burst together: correlation of their shares of the load. Pure."""

from collections.abc import Sequence

import numpy as np

from evenflow.model.arrays import Floats
from evenflow.service.course_schema import BatchPoint, CorrelationMatrix, WorkerPair

WINDOW_BATCHES = 60
_MATRIX_WORKERS, _PAIRS = 16, 6


def correlation_matrix(points: Sequence[BatchPoint], active: Sequence[int]) -> CorrelationMatrix:
    """Correlate the shares of each two active workers over the last batches with load."""
    workers = np.array(sorted(active), int)
    window = [point for point in points if any(point.loads)][-WINDOW_BATCHES:]
    if len(window) < 3 or not len(workers):
        return CorrelationMatrix(workers=workers.tolist()[:16], batches=len(window), values=[])
    loads = np.array([point.loads for point in window])[:, workers]
    total = loads.sum(axis=1, keepdims=True)
    shares = np.divide(loads, total, out=np.zeros_like(loads), where=total > 0)
    varies = np.ptp(shares, axis=0) > 1e-9
    centred = shares - shares.mean(axis=0)
    norms = np.where(varies, np.sqrt((centred**2).sum(axis=0)), 1.0)
    values = np.clip((centred.T @ centred) / np.outer(norms, norms), -1.0, 1.0)
    values[~np.outer(varies, varies)] = np.nan
    busiest = np.sort(np.argsort(-loads.mean(axis=0), kind="stable")[:_MATRIX_WORKERS])
    return CorrelationMatrix(
        workers=workers[busiest].tolist(),
        batches=len(window),
        values=[
            [None if np.isnan(value) else round(float(value), 3) for value in row]
            for row in values[np.ix_(busiest, busiest)]
        ],
        together=_extreme_pairs(values, workers.tolist(), sign=1),
        apart=_extreme_pairs(values, workers.tolist(), sign=-1),
    )


def _extreme_pairs(values: Floats, workers: list[int], sign: int) -> list[WorkerPair]:
    """Return the pairs with the highest values, or with `sign` -1 the lowest."""
    first, second = np.triu_indices(len(workers), k=1)
    found = values[first, second] * sign
    known = np.flatnonzero(found > 0)  # not NaN
    best = known[np.argsort(-found[known], kind="stable")[:_PAIRS]]
    return [
        WorkerPair(
            first=workers[first[at]], second=workers[second[at]], value=round(found[at] * sign, 3)
        )
        for at in best.tolist()
    ]
