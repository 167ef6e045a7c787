"""What a query planner is given and what it returns (herding-small-queries, section 2)."""

from dataclasses import dataclass, field

import numpy as np

from evenflow.errors import InputError, require_non_negative
from evenflow.model import Verdict
from evenflow.model.arrays import NOWHERE, Floats, Workers, frozen
from evenflow.model.subscriptions import Subscriptions

ROUNDING = 1e-9  # relative tolerance of load bounds, so that 1.05 * 100 holds 105


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The workers, and how far from even they may be loaded.

    capacities      relative strength of each worker; 0 takes nothing
    slack           nu, relative: (1 + nu) times the even share
    absolute_slack  alpha, in queries of mean load above the even share; governs arrivals only
    """

    capacities: Floats
    slack: float = 0.05
    absolute_slack: float = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacities", frozen(self.capacities, np.float64))
        if len(self.capacities) < 1:
            raise InputError("at least one worker is needed, got 0")
        if not np.isfinite(self.capacities).all() or self.capacities.min() < 0:
            raise InputError("worker capacities must be finite and not negative")
        if self.capacities.max() <= 0:
            raise InputError("at least one worker needs a positive capacity")
        for name in ("slack", "absolute_slack"):
            require_non_negative(name.replace("_", " "), getattr(self, name))

    @classmethod
    def of(cls, workers: int, slack: float = 0.05, absolute_slack: float = 10.0) -> "Fleet":
        """Return a fleet of equal workers."""
        if workers < 1:
            raise InputError(f"at least one worker is needed, got {workers}")
        return cls(np.ones(workers), slack, absolute_slack)

    def __len__(self) -> int:
        return len(self.capacities)

    @property
    def shares(self) -> Floats:
        """The part of the total load that would be even: 1/k for equal workers."""
        shares: Floats = self.capacities / self.capacities.sum()
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """Queries to place on a fleet.

    pinned   the worker a query must run on, or NOWHERE
    current  the worker a query runs on now, or NOWHERE if it arrives with this plan
    """

    subscriptions: Subscriptions
    fleet: Fleet
    pinned: Workers
    current: Workers

    def __post_init__(self) -> None:
        for name in ("pinned", "current"):
            workers = frozen(getattr(self, name), np.int32)
            object.__setattr__(self, name, workers)
            if len(workers) != len(self.subscriptions):
                raise InputError(f"{name} must hold one worker for each query")
            lowest, highest = workers.min(initial=NOWHERE), workers.max(initial=NOWHERE)
            if lowest < NOWHERE or highest >= len(self.fleet):
                raise InputError(f"{name} names a worker outside 0..{len(self.fleet) - 1}")
        total, count = float(self.subscriptions.loads.sum()), len(self.subscriptions)
        self.check_pins(relaxed_bound(total, count, self.fleet) * self.fleet.shares)

    @classmethod
    def of(
        cls,
        subscriptions: Subscriptions,
        fleet: Fleet | int,
        pinned: Workers | None = None,
        current: Workers | None = None,
    ) -> "PlacementProblem":
        """Build a problem; by default nothing is pinned and nothing runs."""
        nowhere = np.full(len(subscriptions), NOWHERE, dtype=np.int32)
        return cls(
            subscriptions,
            Fleet.of(fleet) if isinstance(fleet, int) else fleet,
            nowhere if pinned is None else pinned,
            nowhere if current is None else current,
        )

    def check_pins(self, room: Floats) -> None:
        """Refuse pins that a worker has no room for."""
        held = loads_by_worker(self.subscriptions, self.pinned, len(self.fleet))
        worst = int(np.argmax(held - room))
        if held[worst] > room[worst] * (1 + ROUNDING):
            raise InputError(
                f"worker {worst} holds a load of at most {room[worst]:.6g}, "
                f"its pinned queries need {held[worst]:.6g}; pin fewer or raise the slack"
            )

    def initial_workers(self) -> Workers:
        """Return where queries are before anything arrives: their pin, else where they run."""
        return np.where(self.pinned != NOWHERE, self.pinned, self.current).astype(np.int32)

    def count_moved(self, workers: Workers) -> int:
        """Return how many running queries change their worker under a placement."""
        return int(((self.current != NOWHERE) & (self.current != workers)).sum())

    def capacities(self) -> Floats:
        """Return the load each worker may take offline, (1 + nu) of its share (equation 1).

        With equal loads floor((1 + nu) n / k) queries; where these do not add up to all queries,
        ceil(n / k): no placement does better.
        """
        loads, shares = self.subscriptions.loads, self.fleet.shares
        room = (1 + self.fleet.slack) * float(loads.sum()) * shares * (1 + ROUNDING)
        if len(loads) and loads.min() == loads.max():
            queries = np.floor(room / loads[0])
            if queries.sum() < len(loads):
                queries = np.ceil(shares * len(loads) * (1 - ROUNDING))
            room = queries * loads[0] * (1 + ROUNDING)
        return np.asarray(room, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The worker of every query, how many running queries moved, and a verdict for each problem."""

    workers: Workers
    moved: int = 0
    verdicts: tuple[Verdict, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", frozen(self.workers, np.int32))


def loads_by_worker(subscriptions: Subscriptions, workers: Workers, count: int) -> Floats:
    """Return the load of each of `count` workers; queries that run nowhere count nowhere."""
    placed = workers != NOWHERE
    loads: Floats = np.bincount(
        workers[placed], weights=subscriptions.loads[placed], minlength=count
    ).astype(np.float64)
    return loads


def relaxed_bound(total: float, count: float, fleet: Fleet) -> float:
    """Return the bound of equation 4 as a total load, to be multiplied by a worker's share.

    With n queries of unit load on k equal workers: share times it is
    max(n / k + alpha, (1 + nu) n / k).

    >>> relaxed_bound(1000, 1000, Fleet.of(10)) / 10, relaxed_bound(10000, 10000, Fleet.of(10)) / 10
    (110.0, 1050.0)
    """
    mean = total / count if count else 0.0
    active = int((fleet.capacities > 0).sum())
    return max(total + fleet.absolute_slack * mean * active, (1 + fleet.slack) * total)


def recommended_absolute_slack(workers: int, slack: float, risk: float = 0.01) -> float:
    """Return the largest useful alpha (appendix D): k / (2 nu) log(k / epsilon).

    With it, balancing switches from absolute to relative no later than the moment from which
    random placement would break the relative bound with probability at most `risk`.

    Departures
        Equation 11 prints log(1 / epsilon) and loses the k of the union bound before it.

    >>> round(recommended_absolute_slack(100, 0.05))
    9210
    """
    if workers < 1 or slack <= 0 or not 0 < risk < 1:
        raise InputError(
            "appendix D needs a worker, a positive slack and a risk between 0 and 1, "
            f"got {workers}, {slack}, {risk}"
        )
    return float(workers / (2 * slack) * np.log(workers / risk))
