"""What a row costs: CPU seconds of a query explained by its rows, the same on all workers.

One measurement on one worker is noisy: other processes disturb it, and a noisy worker must not be
taken for a loaded one. So the seconds of a query are fitted over workers and the last batches as

    seconds = fixed + per_row_in * rows in + per_row_made * rows made        (nothing negative)

by least squares, and a worker's load is what its rows cost by that. The sums behind the fit fade
by `DECAY_PER_BATCH` a batch. Where rows in, rows made and the constant do not vary enough to tell their costs
apart, the plainest model decides: a row in and a row made cost the same, and nothing is fixed. It
pulls every weight as weakly as `MEASUREMENT_VARIANCE` of one measurement would, which is the less the more there
are; so no model is left for another, and loads do not jump. Where rows are so few that noise hides
their cost, `MIN_ROW_COST_SHARE` of the seconds are theirs all the same: no row is free, and keys keep their
order.
"""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices

DECAY_PER_BATCH = 0.9
MEASUREMENT_VARIANCE = (
    0.02  # relative variance of one measurement, against that of a weight not yet known: 1
)
MIN_ROW_COST_SHARE = 0.01
TINY = 1e-300
_PRIOR_SHAPE = np.array([0.0, 1.0, 1.0])


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """The running sums of one fit for each query: X'X, X'y and how many batches they hold."""

    uids: tuple[str, ...] = ()
    xtx: Floats = field(default_factory=lambda: np.zeros((0, 3, 3)))
    xty: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    batches: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def for_queries(self, uids: tuple[str, ...]) -> "CostModel":
        """Return the fits of other queries: those known go on, the others begin."""
        if uids == self.uids:
            return self
        known = {uid: at for at, uid in enumerate(self.uids)}
        old = np.array([known.get(uid, -1) for uid in uids], dtype=np.int64)
        squares, products = np.zeros((len(uids), 3, 3)), np.zeros((len(uids), 3))
        batches = np.zeros(len(uids), dtype=np.int64)
        for new, before in (
            (squares, self.xtx),
            (products, self.xty),
            (batches, self.batches),
        ):
            new[old >= 0] = before[old[old >= 0]]
        return CostModel(uids, squares, products, batches)

    def update(self, rows_in: Floats, made: Floats, seconds: Floats, stepped: Bools) -> "CostModel":
        """Add a batch: arrays of (query, worker); only where a query was stepped counts."""
        samples = np.stack([stepped, rows_in, made], axis=-1, dtype=np.float64)
        samples[~stepped] = 0.0
        squares = np.einsum("qwi,qwj->qij", samples, samples)
        products = np.einsum("qwi,qw->qi", samples, seconds)
        seen = stepped.any(axis=1)
        # The first batch of a query compiles and loads what the others find ready.
        fade = np.where(self.batches == 1, 0.0, DECAY_PER_BATCH)
        fade[~seen] = 1.0
        return CostModel(
            self.uids,
            self.xtx * fade[:, None, None] + squares,
            self.xty * fade[:, None] + products,
            self.batches + seen,
        )

    def weights(self) -> Floats:
        """Return (fixed, per row in, per row made) of each query, in seconds."""
        spread = np.maximum(self.xtx @ _PRIOR_SHAPE @ _PRIOR_SHAPE, TINY)
        plain = (self.xty @ _PRIOR_SHAPE / spread)[:, None] * _PRIOR_SHAPE
        samples = np.maximum(self.xtx[:, 0, 0], 1.0)
        once = MEASUREMENT_VARIANCE * np.einsum("qii->qi", self.xtx) / samples[:, None]
        result = nonnegative_least_squares(
            self.xtx + once[:, :, None] * np.eye(3), self.xty + once * plain
        )
        seconds, rows = self.xty[:, 0], self.xtx[:, 0, 1]
        free = (result[:, 1] * rows < MIN_ROW_COST_SHARE * seconds) & (rows > 0)
        result[free] *= 1 - MIN_ROW_COST_SHARE
        result[free, 1] = MIN_ROW_COST_SHARE * seconds[free] / rows[free]
        return result


def nonnegative_least_squares(squares: Floats, products: Floats) -> Floats:
    """Solve many small non-negative least squares, given X'X and X'y of each.

    The best solution has some weights at zero and is the plain solution for the others. With at
    most three weights all choices are tried.

    >>> squares, products = np.array([[[2.0, 0.0], [0.0, 1.0]]]), np.array([[4.0, -1.0]])
    >>> nonnegative_least_squares(squares, products).round(6).tolist()
    [[2.0, 0.0]]
    """
    number, size = products.shape
    best, least = np.zeros((number, size)), np.zeros(number)
    scale = np.sqrt(np.einsum("qii->qi", squares))
    scale[scale == 0] = 1.0
    squares, products = squares / (scale[:, :, None] * scale[:, None, :]), products / scale
    for taken in range(1, size + 1):
        for chosen in combinations(range(size), taken):
            some = list(chosen)
            part = squares[:, some][:, :, some] + 1e-12 * np.eye(taken)
            solved = np.zeros((number, size))
            solved[:, some] = np.linalg.solve(part, products[:, some, None])[..., 0]
            error = np.einsum("qi,qij,qj->q", solved, squares, solved)
            error -= 2 * np.einsum("qi,qi->q", solved, products)
            better = (solved >= 0).all(axis=1) & (error < least)
            best[better], least[better] = solved[better], error[better]
    weights: Floats = best / scale
    return weights
