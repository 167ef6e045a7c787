"""Synthetic subscriptions of herding-small-queries, section 6.1.

Letters: n queries, d sources per query, beta the exponent of source popularity.

The paper gives only the degree distribution. Here source degrees follow P(D = x) ~ x^-beta on 1..n
and are drawn until they sum to n d, so beta determines the number of sources; their stubs are
shuffled into queries of d, and duplicates within a query are swapped away.
"""

from typing import Literal

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices
from evenflow.model.subscriptions import Subscriptions

RateCorrelation = Literal["random", "positive", "negative"]


def random_subscriptions(
    queries: int, beta: float, sources_per_query: int, rng: np.random.Generator
) -> Subscriptions:
    """Draw a random bipartite graph with Zipf source degrees and unit rates and loads.

    >>> drawn = random_subscriptions(1000, 2.0, 2, np.random.default_rng(1))
    >>> len(drawn), int(np.diff(drawn.starts).max())
    (1000, 2)
    """
    if queries < 1 or sources_per_query < 1 or beta <= 0:
        raise InputError(
            "queries and sources_per_query must be 1 or more, beta above 0, "
            f"got {queries}, {sources_per_query}, {beta}"
        )
    stubs = queries * sources_per_query
    degrees = _zipf_degrees(queries, beta, stubs, sources_per_query, rng)
    flat = np.repeat(np.arange(len(degrees), dtype=np.int64), degrees)
    rng.shuffle(flat)
    _swap_duplicates(flat, sources_per_query, rng)
    rows = np.sort(flat.reshape(queries, sources_per_query), axis=1)
    starts = np.arange(queries + 1, dtype=np.int64) * sources_per_query
    return Subscriptions(
        starts, rows.ravel().astype(np.int32), np.ones(len(degrees)), np.ones(queries)
    )


def typed_subscriptions(
    queries: int, types: int, sources: int, sources_per_query: int, rng: np.random.Generator
) -> Subscriptions:
    """Draw queries of equally popular types; each type reads random sources.

    Types are dealt out so that sources are in about equally many.

    >>> drawn = typed_subscriptions(1000, 6, 4, 2, np.random.default_rng(1))
    >>> len(drawn), int(drawn.reader_counts().min()) > 0
    (1000, True)
    """
    if not 1 <= sources_per_query <= sources or types < 1 or queries < 1:
        raise InputError(
            "queries and types must be 1 or more, and sources as many as a query reads, "
            f"got {queries}, {types}, {sources}, {sources_per_query}"
        )
    order = np.concatenate(
        [rng.permutation(sources) for _ in range(-(-types * sources_per_query // sources))]
    )
    flat = order[: types * sources_per_query].astype(np.int64)
    _swap_duplicates(flat, sources_per_query, rng)
    reads = np.sort(flat.reshape(types, sources_per_query), axis=1)
    rows = reads[rng.integers(0, types, queries)]
    starts = np.arange(queries + 1, dtype=np.int64) * sources_per_query
    return Subscriptions(starts, rows.ravel().astype(np.int32), np.ones(sources), np.ones(queries))


def _zipf_degrees(
    queries: int, beta: float, stubs: int, at_least: int, rng: np.random.Generator
) -> Indices:
    """Draw Zipf degrees until they sum to `stubs`; the last one is cut."""
    weights = np.arange(1, queries + 1, dtype=np.float64) ** -beta
    cumulative = np.cumsum(weights)
    drawn: list[int] = []
    total = 0
    while total < stubs:
        more = np.searchsorted(cumulative, rng.random(4096) * cumulative[-1]) + 1
        fits = np.searchsorted(total + np.cumsum(more), stubs) + 1
        drawn.extend(more[:fits].tolist())
        total += int(more[:fits].sum())
    degrees = np.array(drawn, dtype=np.int64)
    degrees[-1] -= total - stubs
    if len(degrees) < at_least:  # too few distinct sources for a query: use equal degrees
        degrees = np.bincount(np.arange(stubs) % at_least).astype(np.int64)
    return degrees


@kernel
def _swap_duplicates(flat: Indices, width: int, rng: np.random.Generator) -> None:
    """Swap duplicates within a query with random stubs until none is left.

    A swap must not create a duplicate. In tiny instances that may be impossible: after many draws
    any stub is used, and all queries are checked again.
    """
    again = True
    while again:
        again = False
        for at in range(len(flat)):
            row = at // width * width
            twice = False
            for other in range(row, at):
                twice = twice or flat[other] == flat[at]
            draws = 0
            while twice:
                mate = int(rng.random() * len(flat))
                mate_row = mate // width * width
                clash = mate_row == row
                for k in range(width):
                    clash = clash or flat[mate_row + k] == flat[at] or flat[row + k] == flat[mate]
                draws += 1
                if not clash or draws > 1000 * width:
                    flat[at], flat[mate] = flat[mate], flat[at]
                    twice = False
                    again = again or clash


def with_source_rates(
    subscriptions: Subscriptions,
    exponent: float,
    correlation: RateCorrelation,
    rng: np.random.Generator,
) -> Subscriptions:
    """Return the subscriptions with power-law source rates (figure 8).

    `positive`: proportional to popularity; `negative`: inversely; `random`: independent,
    P(w > x) ~ x^-exponent.
    """
    if exponent <= 0:
        raise InputError(f"exponent must be above 0, got {exponent}")
    degrees = np.maximum(subscriptions.reader_counts(), 1).astype(np.float64)
    rates: Floats
    if correlation == "random":
        rates = 1.0 + rng.pareto(exponent, len(degrees))
    else:
        rates = degrees if correlation == "positive" else 1.0 / degrees
    return Subscriptions(subscriptions.starts, subscriptions.sources, rates, subscriptions.loads)
