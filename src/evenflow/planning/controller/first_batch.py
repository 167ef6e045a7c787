"""What the first batch of a query costs: its step also compiles, and loads what it needs.

That can take a hundred times what its rows cost. Averaged over the window it would outweigh all
other batches for as long as it is among them: keys would look light beside it, and a query that has
just arrived would look heavy. So a first batch that is much dearer than the second one, by the row
and in all, counts at the second one's prices.

Example: 1,000 rows for 5.6 s, then 1,000 rows for 15 ms. The first batch counts as 15 ms too.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from evenflow.model import KeyStats, QueryLoad, Snapshot
from evenflow.model.arrays import Floats

DEARER = 2.0  # ratio of costs: a first batch up to so dear counts as measured
TINY = 1e-300


def reprice_first_batches(
    window: Sequence[Snapshot], before: Snapshot | None
) -> tuple[Snapshot, ...]:
    """Return a window in which no query's first batch counts what it took to start.

    `before` is the batch before the window: its queries began earlier.
    """
    began = before.queries.keys() if before is not None else set()
    repriced: dict[int, dict[str, QueryLoad]] = {}
    for name in window[-1].queries.keys() - began:
        measured = ((row, s.queries.get(name)) for row, s in enumerate(window))
        with_load = ((row, query) for row, query in measured if query is not None and _busy(query))
        pair = list(islice(with_load, 2))
        if len(pair) == 2 and _is_dearer(pair[0][1], pair[1][1]):
            (row, first), (_, second) = pair
            repriced.setdefault(row, {})[name] = _at_prices_of(second, first)
    return tuple(
        replace(snapshot, queries={**snapshot.queries, **repriced[row]})
        if row in repriced
        else snapshot
        for row, snapshot in enumerate(window)
    )


def _busy(query: QueryLoad) -> bool:
    return bool(query.load.any() and query.rows_in.any())


def _is_dearer(first: QueryLoad, second: QueryLoad) -> bool:
    rows = float(first.rows_in.sum()) / float(second.rows_in.sum())
    return float(first.load.sum()) > DEARER * float(second.load.sum()) * max(rows, 1.0)


def _at_prices_of(second: QueryLoad, first: QueryLoad) -> QueryLoad:
    """Return the first batch with what a row, and a step without rows, cost in the second."""
    fixed_then, fixed_now = _fixed_cost(first), _fixed_cost(second)
    rows = float(first.rows_in.sum()) / float(second.rows_in.sum())
    of_rows_then, of_rows_now = first.load - fixed_then, second.load - fixed_now
    ratio = rows * float(of_rows_now.sum()) / max(float(of_rows_then.sum()), TINY)
    fixed = fixed_now.max() * (first.load > 0)  # each worker that had work
    keys = None if first.keys is None else _scaled(first.keys, ratio, fixed)
    return replace(first, load=of_rows_then * ratio + fixed, keys=keys)


def _fixed_cost(query: QueryLoad) -> Floats:
    return np.zeros_like(query.load) if query.keys is None else query.keys.rest_fixed_cost


def _scaled(keys: KeyStats, ratio: float, fixed: Floats) -> KeyStats:
    return replace(
        keys,
        cost=keys.cost * ratio,
        shared_cost=keys.shared_cost * ratio,
        rest_cost=(keys.rest_cost - keys.rest_fixed_cost) * ratio + fixed,
        rest_fixed_cost=fixed,
    )
