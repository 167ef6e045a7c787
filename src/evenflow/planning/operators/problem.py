"""What an operator planner is told, and its thresholds."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import LoadSeries
from evenflow.model.arrays import Bools, Floats, Indices, Workers, frozen
from evenflow.planning.operators.traffic import SourceTraffic

NOWHERE = -1  # the placement of an operator that runs nowhere yet


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSnapshot:
    """Load series, and where the operators run: `placement` is NEW for those that do not yet.

    >>> snapshot = OperatorSnapshot(LoadSeries(("a", "b"), [[1.0], [2.0]], [True, True]), 2)
    >>> snapshot.placement.tolist(), snapshot.load.tolist()
    ([-1, -1], [1.0, 2.0])
    """

    series: LoadSeries
    workers: int
    placement: Workers = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        count = len(self.series.operators)
        given = np.full(count, NOWHERE) if self.placement is None else self.placement
        placement = frozen(given, np.int32)
        object.__setattr__(self, "placement", placement)
        if self.workers < 1:
            raise InputError(f"at least one worker is needed, got {self.workers}")
        if placement.shape != (count,):
            raise InputError(f"a placement needs one worker for each of {count} operators")
        if count and not NOWHERE <= int(placement.min()) <= int(placement.max()) < self.workers:
            raise InputError(f"placement names a worker outside 0..{self.workers - 1}")
        homeless = np.flatnonzero(~self.series.movable & (placement == NOWHERE))
        if len(homeless):
            raise InputError(
                f"operator {self.series.operators[homeless[0]]} is not movable and has no worker; "
                "say where it runs"
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


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Thresholds of the operator planners; loads and differences are in units of `capacity`.

    balance       epsilon: a pair of workers is balanced when their loads differ by more
    exchange      delta: score above which selective exchange moves an operator
    correlation   theta: pairs of workers less correlated than this are worth improving
    capacity      load that a worker can carry
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

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self) if f.name not in ("traffic", "correlation")):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise InputError(f"{name} must be a number of at least 0, got {value}")
        if self.capacity == 0:
            raise InputError("capacity must be above 0, got 0")
        if not -1 <= self.correlation <= 1:
            raise InputError(f"correlation must lie in -1..1, got {self.correlation}")

    def for_operators(self, operators: Indices) -> "OperatorConfig":
        """Return the same for some operators, in the order given: their part of the traffic."""
        if self.traffic is None:
            return self
        return replace(self, traffic=self.traffic.for_operators(operators))


OperatorPlanner = Callable[[OperatorSnapshot, OperatorConfig, np.random.Generator], Workers]
