"""Queries with their sources and loads (herding-small-queries, section 2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices, Workers, freeze_arrays


@dataclass(frozen=True, slots=True, eq=False)
class Subscriptions:
    """Queries in order of arrival, each with its set of sources.

    starts   index in `sources` of the first source of each query, and the end of the last query
    sources  S_q, ascending and distinct within a query
    rates    w(s), events per second of each source
    loads    load of each query, 1 by default

    >>> Subscriptions.from_source_sets([[2, 0], [1]]).sources_of_query(0).tolist()
    [0, 2]
    """

    starts: Indices
    sources: Workers
    rates: Floats
    loads: Floats

    def __post_init__(self) -> None:
        freeze_arrays(self)
        if len(self.starts) != len(self.loads) + 1 or self.starts[-1] != len(self.sources):
            raise InputError("starts must hold one entry for each query and the end of the last")
        sizes = np.diff(self.starts)
        if len(sizes) and sizes.min() < 1:
            raise InputError(f"query {int(sizes.argmin())} subscribes to no source")
        if len(self.sources):
            if not 0 <= int(self.sources.min()) <= int(self.sources.max()) < len(self.rates):
                raise InputError(f"a source lies outside 0..{len(self.rates) - 1}")
            rising = np.diff(self.sources) > 0
            rising[self.starts[1:-1] - 1] = True
            if not bool(rising.all()):
                raise InputError("the sources of a query must be ascending and distinct")
        for name, values in (("rates", self.rates), ("loads", self.loads)):
            if not bool(np.isfinite(values).all()) or bool((values <= 0).any()):
                raise InputError(f"{name} must be positive and finite")
            most = float(values.max()) if len(values) else 0.0
            if most > np.finfo(np.float64).max / 1e12 / max(len(values), 1):
                raise InputError(f"{name} of up to {most:g} add up to more than a double holds")

    @classmethod
    def from_source_sets(
        cls,
        queries: Iterable[Iterable[int]],
        rates: Sequence[float] | Floats | None = None,
        loads: Sequence[float] | Floats | None = None,
    ) -> "Subscriptions":
        """Build from the sources of each query; rates and loads default to 1."""
        sets = [sorted(set(query)) for query in queries]
        flat = np.array([source for query in sets for source in query], dtype=np.int32)
        starts = np.cumsum([0, *map(len, sets)])
        count = int(flat.max()) + 1 if len(flat) else 0
        return cls(
            starts,
            flat,
            np.ones(count) if rates is None else np.asarray(rates, dtype=np.float64),
            np.ones(len(sets)) if loads is None else np.asarray(loads, dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.loads)

    def sources_of_query(self, query: int) -> Workers:
        """Return S_q."""
        return self.sources[self.starts[query] : self.starts[query + 1]]

    def reader_counts(self) -> Indices:
        """Return |N(s)|, the number of queries that read each source."""
        return np.bincount(self.sources, minlength=len(self.rates)).astype(np.int64)

    def query_of_entry(self) -> Indices:
        """Return, for each entry of `sources`, the query it belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))

    def select_queries(self, queries: Indices) -> "Subscriptions":
        """Return some of the queries, in the given order, over the same sources."""
        sizes = np.diff(self.starts)[queries]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        offsets = np.repeat(self.starts[queries] - starts[:-1], sizes)
        flat = self.sources[np.arange(starts[-1]) + offsets]
        return Subscriptions(starts, flat, self.rates, self.loads[queries])
