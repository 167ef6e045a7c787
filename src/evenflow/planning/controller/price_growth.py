"""Past batches at the prices of the batch in which the next plan comes into force.

In a join a row of a key costs more, the more rows of the key are stored. So after a shift the cost
of a new hot key grows in every batch until the join's time bound has passed, though it always has
the same rows. Batches at their own prices would look like one shift after the other, and a plan
made from the last one would be late when it comes into force. At equal prices they agree, and all
batches since the shift can be averaged.

A row of a key costs `p = a + slope x rows of the key` in a batch. Slopes that rise show growth; the
next ones are expected to rise alike.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.model import KeyStats, Snapshot
from evenflow.model.arrays import Bools, Floats, Indices

BATCHES_AHEAD = 3  # a plan made now is in force from the second batch on
LEAST_GROWTH = 1.1  # ratio of prices: less is left as it is
LEAST_ROWS = 10  # of a key in a batch, to know its price
SLOPE_DROP = 0.7  # ratio of slopes of successive batches: below, other keys became hot


def with_grown_prices(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the batches with the keys of joins at the prices that are expected next."""
    result = list(snapshots)
    for name in snapshots[-1].plan.tables if len(snapshots) > 1 else ():
        seen = [
            (at, keys)
            for at, snapshot in enumerate(snapshots)
            if name in snapshot.queries and (keys := snapshot.queries[name].keys) is not None
        ]
        for (at, before), after in zip(seen, grown_keys([keys for _, keys in seen]), strict=True):
            if after is not before:
                query = replace(result[at].queries[name], keys=after)
                result[at] = replace(result[at], queries={**result[at].queries, name: query})
    return tuple(result)


def grown_keys(stats: Sequence[KeyStats]) -> list[KeyStats]:
    """Return the keys of successive batches at the prices that are expected after the last one."""
    slopes = np.array([price_slope(keys) for keys in stats])
    begin = _growth_began(slopes)
    least = max(LEAST_GROWTH * float(slopes[begin]), 0.0) if len(stats) else 0.0
    if len(stats) - begin < 2 or slopes[-1] <= least:
        return list(stats)
    if _price_share(stats[-1], float(slopes[-1] - slopes[begin])) < LEAST_GROWTH - 1:
        return list(stats)  # slopes near 0 that differ by chance
    last, rise = stats[-1], float(slopes[-1] - slopes[-2])
    now, rises = _prices(last), rise >= (LEAST_GROWTH - 1) * slopes[-1] / 2
    if rises:
        rows = np.mean([_taken(keys.rows, keys, last) for keys in stats[begin:]], axis=0)
        known = np.isfinite(now)
        grown = now[known] - np.minimum(_prices_of(stats[-2], last), now)[known]
        now[known] += BATCHES_AHEAD * np.minimum(rise * rows[known], grown)
    expected = float(slopes[-1]) + BATCHES_AHEAD * rise * rises
    return [
        keys if at < begin or expected < LEAST_GROWTH * slopes[at] else _at_prices(keys, last, now)
        for at, keys in enumerate(stats)
    ]


def price_slope(stats: KeyStats) -> float:
    """Return how much more a row costs per row that its key has in the batch.

    The line fits the rows, so that keys with few of them hardly count.
    """
    rows, cost = stats.rows.astype(np.float64), stats.cost
    total = float(rows.sum())
    if total <= 0:
        return 0.0
    centre = float(rows @ rows) / total
    spread = float(rows**2 @ rows) / total - centre**2
    if spread <= 1e-9 * centre**2:
        return 0.0
    return (float(rows @ cost) / total - centre * float(cost.sum()) / total) / spread


def _price_share(stats: KeyStats, slope: float) -> float:
    """Return which part of the price of a usual row a slope is."""
    rows, cost = stats.rows.astype(np.float64), float(stats.cost.sum())
    return slope * float(rows @ rows) / cost if cost > 0 else 0.0


def _growth_began(slopes: Floats) -> int:
    """Return the first batch since the slope fell the last time."""
    fell = np.flatnonzero(slopes[1:] < SLOPE_DROP * slopes[:-1])
    return int(fell[-1]) + 1 if len(fell) else 0


def _prices(stats: KeyStats) -> Floats:
    """Return the cost of a row of each key; infinite if it has too few rows to tell."""
    enough = stats.rows >= LEAST_ROWS
    return np.where(enough, stats.cost / np.maximum(stats.rows, 1), np.inf)


def _positions(stats: KeyStats, of: KeyStats) -> tuple[Indices, Bools]:
    """Return where the keys `of` another batch are listed, and which of them are."""
    if not len(stats.hashes):
        return np.zeros(len(of.hashes), np.int64), np.zeros(len(of.hashes), np.bool_)
    at = np.minimum(np.searchsorted(stats.hashes, of.hashes), len(stats.hashes) - 1)
    return at, stats.hashes[at] == of.hashes


def _taken(values: Floats | Indices, stats: KeyStats, of: KeyStats) -> Floats:
    """Return values of a batch's keys for the keys `of` another one; 0 if they are not listed."""
    at, listed = _positions(stats, of)
    padded = np.append(values, 0.0)
    result: Floats = padded[np.where(listed, at, len(values))]
    return result


def _prices_of(stats: KeyStats, of: KeyStats) -> Floats:
    at, listed = _positions(stats, of)
    padded = np.append(_prices(stats), np.inf)
    result: Floats = padded[np.where(listed, at, len(stats.hashes))]
    return result


def _at_prices(stats: KeyStats, last: KeyStats, expected: Floats) -> KeyStats:
    """Return the keys of a batch at the prices expected for those of the last one."""
    prices = _taken(np.where(np.isfinite(expected), expected, 0.0), last, stats)
    known = (prices > 0) & (stats.rows >= LEAST_ROWS)
    return replace(stats, cost=np.where(known, stats.rows * prices, stats.cost))
