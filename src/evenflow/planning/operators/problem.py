"""What an operator planner is given, and what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from evenflow.errors import InputError, require_non_negative
from evenflow.model import LoadSeries, Verdict
from evenflow.model.arrays import NOWHERE, Bools, Floats, Indices, Workers, frozen


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSnapshot:
    """Load series, and the worker of each operator: NOWHERE for those that do not run yet.

    >>> snapshot = OperatorSnapshot(LoadSeries(("a", "b"), [[1.0], [2.0]], [True, True]), 2)
    >>> snapshot.placement.tolist(), snapshot.load.tolist()
    ([-1, -1], [1.0, 2.0])
    """

    series: LoadSeries
    workers: int
    placement: Workers = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        count = len(self.series.operators)
        nowhere = np.full(count, NOWHERE)
        placement = frozen(nowhere if self.placement is None else self.placement, np.int32)
        object.__setattr__(self, "placement", placement)
        if self.workers < 1:
            raise InputError(f"at least one worker is needed, got {self.workers}")
        if placement.shape != (count,):
            raise InputError(f"a placement needs one worker for each of {count} operators")
        if count and not NOWHERE <= int(placement.min()) <= int(placement.max()) < self.workers:
            raise InputError(f"placement names a worker outside 0..{self.workers - 1}")
        unplaced = np.flatnonzero(~self.series.movable & (placement == NOWHERE))
        if len(unplaced):
            raise InputError(
                f"operator {self.series.operators[unplaced[0]]} is not movable and has no worker; "
                "give the worker it runs on"
            )
        if not self.series.samples.shape[1]:
            raise InputError("a load series needs at least one sample")

    @property
    def samples(self) -> Floats:
        """The load series, a row for each operator."""
        return self.series.samples

    @property
    def load(self) -> Floats:
        """Mean load of each operator."""
        load: Floats = self.series.samples.mean(axis=1)
        return load

    @property
    def is_new(self) -> Bools:
        """Which operators run nowhere yet."""
        new: Bools = self.placement == NOWHERE
        return new


@dataclass(frozen=True, slots=True, eq=False)
class SourceTraffic:
    """The sources each operator reads (rows of `reads` between `starts`), rates, and a price.

    The objective of herding-small-queries as a term next to load variance: a source is shipped once
    to every worker that hosts at least one of its readers. `price` is the variance (load squared)
    that one more unit of shipped rate is worth.

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
        require_non_negative("the price of traffic", self.price)

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


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Thresholds of the operator planners; loads and differences are in units of `capacity`.

    balance       epsilon: a pair of workers is balanced when their loads differ by more
    exchange      delta: score above which selective exchange moves an operator
    correlation   theta: pairs of workers less correlated than this are worth improving
    capacity      load that a worker can carry
    capacities    the same of each worker, if they differ; `capacity` is then the unit
    move_price    variance, dynamic: gain that a unit of moved load must bring
    max_moves     variance, dynamic: operators moved at most in one plan
    traffic       variance: sources of each operator and the price of shipping them
    """

    balance: float = 0.1
    exchange: float = 0.2
    correlation: float = 0.8
    capacity: float = 1.0
    move_price: float = 0.05
    max_moves: int = 60
    traffic: SourceTraffic | None = None
    capacities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        others = ("traffic", "correlation", "capacities")
        for name in (f.name for f in fields(self) if f.name not in others):
            require_non_negative(name, getattr(self, name))
        if self.capacities is not None and not all(0 < c < np.inf for c in self.capacities):
            raise InputError(f"capacities must be above 0, got {self.capacities}")
        if self.capacity == 0:
            raise InputError("capacity must be above 0, got 0")
        if not -1 <= self.correlation <= 1:
            raise InputError(f"correlation must lie in -1..1, got {self.correlation}")

    def worker_capacities(self, workers: int) -> Floats:
        """Return the capacity of each worker."""
        if self.capacities is None:
            return np.full(workers, self.capacity)
        if len(self.capacities) != workers:
            raise InputError(
                f"{workers} workers need as many capacities, got {len(self.capacities)}"
            )
        return np.array(self.capacities, dtype=np.float64)

    def for_operators(self, operators: Indices) -> "OperatorConfig":
        """Return the config for some operators, in the order given: their part of the traffic."""
        if self.traffic is None:
            return self
        return replace(self, traffic=self.traffic.for_operators(operators))


@dataclass(frozen=True, slots=True, eq=False)
class OperatorPlan:
    """The new worker of each operator, and a verdict for each limit the plan does not keep."""

    placement: Workers
    verdicts: tuple[Verdict, ...] = ()


OperatorPlanner = Callable[[OperatorSnapshot, OperatorConfig, np.random.Generator], OperatorPlan]
