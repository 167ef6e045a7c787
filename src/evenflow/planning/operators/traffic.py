"""Source traffic: what it costs to ship streams to the workers that read them.

The objective of herding-small-queries, as a term beside load variance: a source is shipped once
to every worker that hosts at least one of its readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices, Workers, frozen


@dataclass(frozen=True, slots=True, eq=False)
class SourceTraffic:
    """The sources each operator reads (rows of `reads` between `starts`), rates, and a price.

    `price` is the variance (load squared) that one more unit of shipped rate is worth.

    >>> traffic = SourceTraffic.of([[0], [0, 1]], rates=[5.0, 1.0], price=0.1)
    >>> traffic.shipped_rate(np.array([0, 1], dtype=np.int32), workers=2)
    11.0
    """

    starts: Indices
    reads: Indices
    rates: Floats
    price: float

    def __post_init__(self) -> None:
        for name, dtype in (("starts", np.int64), ("reads", np.int64), ("rates", np.float64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        if len(self.reads) and not 0 <= self.reads.min() <= self.reads.max() < len(self.rates):
            raise InputError(f"an operator reads a source outside 0..{len(self.rates) - 1}")
        steps = np.diff(self.starts)
        if not len(self.starts) or self.starts[0] != 0 or self.starts[-1] != len(self.reads):
            raise InputError("starts must begin at 0 and end at the number of reads")
        if len(steps) and steps.min() < 0:
            raise InputError("starts must not fall")
        if not bool(np.isfinite(self.rates).all()) or bool((self.rates < 0).any()):
            raise InputError("source rates must be finite and not negative")
        if not np.isfinite(self.price) or self.price < 0:
            raise InputError(f"the price of traffic must be at least 0, got {self.price}")

    @classmethod
    def of(
        cls, reads: Sequence[Sequence[int]], rates: Sequence[float] | Floats, price: float
    ) -> "SourceTraffic":
        """Build from the list of sources of each operator."""
        sets = [sorted(set(sources)) for sources in reads]
        starts = np.cumsum([0, *(len(sources) for sources in sets)])
        flat = np.array([source for sources in sets for source in sources], dtype=np.int64)
        return cls(starts, flat, np.asarray(rates, dtype=np.float64), price)

    def for_operators(self, operators: Indices) -> "SourceTraffic":
        """Return the traffic of some operators, in the order given."""
        reads = [self.reads[self.starts[o] : self.starts[o + 1]].tolist() for o in operators]
        return SourceTraffic.of(reads, self.rates, self.price)

    def merge_operators(self, member_of: Indices) -> "SourceTraffic":
        """Return the traffic of groups of operators: each reads what its members read."""
        reads: list[list[int]] = [[] for _ in range(int(member_of.max()) + 1)]
        for operator, group in enumerate(member_of.tolist()):
            reads[group] += self.reads[self.starts[operator] : self.starts[operator + 1]].tolist()
        return SourceTraffic.of(reads, self.rates, self.price)

    def reader_counts(self, placement: Workers, workers: int) -> Indices:
        """Return how many operators on each worker (row) read each source (column)."""
        counts = np.zeros((workers, len(self.rates)), dtype=np.int64)
        owners = np.repeat(placement, np.diff(self.starts))
        np.add.at(counts, (owners, self.reads), 1)
        return counts

    def shipped_rate(self, placement: Workers, workers: int) -> float:
        """Return the rate shipped to all workers together."""
        return float(((self.reader_counts(placement, workers) > 0) * self.rates).sum())
