"""Compare two ways to run the same batches: hash only, and balanced. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.model.arrays import Floats, Rng

_REDRAWS = 2_000


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One batch: its rows, its time, CPU seconds of its busiest worker, largest over mean load."""

    rows: int
    seconds: float
    busiest_seconds: float
    imbalance: float


@dataclass(frozen=True, slots=True)
class Side:
    """The batches of one way, in the order of their rows."""

    batches: Sequence[MeasuredBatch]

    def seconds(self) -> Floats:
        """Return the time of each batch."""
        return np.array([batch.seconds for batch in self.batches])

    def to_json(self) -> dict[str, float]:
        """Return medians over batches; rows per second over all of them."""
        seconds, rows = self.seconds(), sum(batch.rows for batch in self.batches)
        busiest = np.array([batch.busiest_seconds for batch in self.batches])
        return {
            "rows_per_second": round(rows / float(seconds.sum())),
            "batch_seconds": round(float(np.median(seconds)), 3),
            "busiest_worker_seconds": round(float(np.median(busiest)), 3),
            "other_share": round(1 - float((busiest / seconds).mean()), 3),
            "imbalance": round(float(np.median([b.imbalance for b in self.batches])), 3),
        }


def compare_sides(hash_only: Side, balanced: Side, rng: Rng) -> dict[str, Any]:
    """Return both sides and the gain: time of hash only over time of balanced, for equal rows.

    `gain_low` and `gain_high` hold nine in ten gains of batches drawn again in pairs.

    >>> def side(*seconds):
    ...     return Side([MeasuredBatch(100, s, s / 2, 1.0) for s in seconds])
    >>> found = compare_sides(side(2.0, 4.0), side(1.0, 2.0), np.random.default_rng(0))
    >>> found["gain"], found["gain_low"], found["gain_high"]
    (2.0, 2.0, 2.0)
    """
    before, after = hash_only.seconds(), balanced.seconds()
    drawn = rng.integers(0, len(before), (_REDRAWS, len(before)))
    gains = before[drawn].sum(axis=1) / after[drawn].sum(axis=1)
    low, high = np.percentile(gains, (5, 95))
    return {
        "hash": hash_only.to_json(),
        "balanced": balanced.to_json(),
        "gain": round(float(before.sum() / after.sum()), 3),
        "gain_low": round(float(low), 3),
        "gain_high": round(float(high), 3),
    }
