"""The cost model: what a row of a query costs in CPU seconds, the same on all workers.

One measurement on one worker is noisy, because other processes disturb it, and a disturbed worker
must not look loaded. So the seconds of a query are fitted over workers and recent batches as

    seconds = fixed + per_row_in * rows in + per_row_produced * rows produced     (all >= 0)

by least squares, and the load of a worker is what its rows cost by that fit. The sums behind the
fit decay by `DECAY_PER_BATCH`. A prior pulls every weight towards the simplest model, in which a
row in and a row produced cost the same and nothing is fixed; it has the weight of one measurement
with `MEASUREMENT_VARIANCE`. So the prior decides where the data cannot tell costs apart, and loads
do not jump when the data can. If noise hides the cost of rows, `MIN_ROW_COST_SHARE` of the seconds
still count as theirs, so that keys keep their order.
"""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices

DECAY_PER_BATCH = 0.9
MEASUREMENT_VARIANCE = 0.02  # of one measurement, relative to 1 for an unknown weight
MIN_ROW_COST_SHARE = 0.01
TINY = 1e-300
_PRIOR_SHAPE = np.array([0.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """One running fit per query: X'X, X'y and the number of batches in them."""

    uids: tuple[str, ...] = ()
    xtx: Floats = field(default_factory=lambda: np.zeros((0, 3, 3)))
    xty: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    batches: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def for_queries(self, uids: tuple[str, ...]) -> "CostModel":
        """Return the model for these queries: known fits continue, new ones start empty."""
        if uids == self.uids:
            return self
        known = {uid: at for at, uid in enumerate(self.uids)}
        old = np.array([known.get(uid, -1) for uid in uids], dtype=np.int64)
        xtx, xty = np.zeros((len(uids), 3, 3)), np.zeros((len(uids), 3))
        batches = np.zeros(len(uids), dtype=np.int64)
        for new, before in ((xtx, self.xtx), (xty, self.xty), (batches, self.batches)):
            new[old >= 0] = before[old[old >= 0]]
        return CostModel(uids, xtx, xty, batches)

    def update(
        self, rows_in: Floats, produced: Floats, seconds: Floats, stepped: Bools
    ) -> "CostModel":
        """Add a batch, given as arrays of (query, worker); only stepped cells count."""
        samples = np.stack([stepped, rows_in, produced], axis=-1, dtype=np.float64)
        samples[~stepped] = 0.0
        xtx = np.einsum("qwi,qwj->qij", samples, samples)
        xty = np.einsum("qwi,qw->qi", samples, seconds)
        seen = stepped.any(axis=1)
        # The first batch of a query also compiles and loads, so the second one replaces it.
        decay = np.where(self.batches == 1, 0.0, DECAY_PER_BATCH)
        decay[~seen] = 1.0
        return CostModel(
            self.uids,
            self.xtx * decay[:, None, None] + xtx,
            self.xty * decay[:, None] + xty,
            self.batches + seen,
        )

    def weights(self) -> Floats:
        """Return (fixed, per row in, per row produced) of each query, in seconds."""
        spread = np.maximum(self.xtx @ _PRIOR_SHAPE @ _PRIOR_SHAPE, TINY)
        prior = (self.xty @ _PRIOR_SHAPE / spread)[:, None] * _PRIOR_SHAPE
        samples = np.maximum(self.xtx[:, 0, 0], 1.0)
        once = MEASUREMENT_VARIANCE * np.einsum("qii->qi", self.xtx) / samples[:, None]
        result = nonnegative_least_squares(
            self.xtx + once[:, :, None] * np.eye(3), self.xty + once * prior
        )
        seconds, rows = self.xty[:, 0], self.xtx[:, 0, 1]
        free = (result[:, 1] * rows < MIN_ROW_COST_SHARE * seconds) & (rows > 0)
        result[free] *= 1 - MIN_ROW_COST_SHARE
        result[free, 1] = MIN_ROW_COST_SHARE * seconds[free] / rows[free]
        return result


def nonnegative_least_squares(squares: Floats, products: Floats) -> Floats:
    """Solve many small non-negative least-squares problems, given X'X and X'y of each.

    The best solution has some weights at zero and solves the rest without the constraint; with at
    most three weights, all choices of zeros are tried.

    >>> squares, products = np.array([[[2.0, 0.0], [0.0, 1.0]]]), np.array([[4.0, -1.0]])
    >>> nonnegative_least_squares(squares, products).round(6).tolist()
    [[2.0, 0.0]]
    """
    number, size = products.shape
    best, least = np.zeros((number, size)), np.zeros(number)
    scale = np.sqrt(np.einsum("qii->qi", squares))
    scale[scale == 0] = 1.0
    squares, products = squares / (scale[:, :, None] * scale[:, None, :]), products / scale
    for count in range(1, size + 1):
        for chosen in map(list, combinations(range(size), count)):
            part = squares[:, chosen][:, :, chosen] + 1e-12 * np.eye(count)
            solved = np.zeros((number, size))
            solved[:, chosen] = np.linalg.solve(part, products[:, chosen, None])[..., 0]
            error = np.einsum("qi,qij,qj->q", solved, squares, solved)
            error -= 2 * np.einsum("qi,qi->q", solved, products)
            better = (solved >= 0).all(axis=1) & (error < least)
            best[better], least[better] = solved[better], error[better]
    weights: Floats = best / scale
    return weights
