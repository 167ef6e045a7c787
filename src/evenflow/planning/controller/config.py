"""The settings of the controller, validated on construction."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from evenflow.errors import InputError, require_non_negative
from evenflow.model import BalancingMode, MoveOrder
from evenflow.planning.controller.time_windows import parse_window
from evenflow.planning.keys import ALGORITHMS as KEY_ALGORITHMS
from evenflow.planning.operators import ALGORITHMS as OPERATOR_ALGORITHMS
from evenflow.planning.operators import LARGE_CLUSTER_WAYS
from evenflow.planning.queries import OFFLINE, ONLINE

OFF = "off"
GLOBAL_PLANNERS = ("cor-glb", "llf-glb", "rand-glb", "variance")
PLANNER_SETTINGS = ("keys", "queries", "operators", "repair")
CHOICES = {
    "mode": tuple(BalancingMode),
    "keys": (*KEY_ALGORITHMS, OFF),
    "queries": (*ONLINE, OFF),
    "operators": (*OPERATOR_ALGORITHMS, OFF),
    "repair": (*OFFLINE, OFF),
    "initial": (*GLOBAL_PLANNERS, OFF),
    "large_cluster": LARGE_CLUSTER_WAYS,
    "order": tuple(MoveOrder),
}


@dataclass(frozen=True, slots=True)
class Autoscale:
    """Limits within which workers are activated and drained by the load.

    min, max  active workers; max None: all
    target    part of the time that a worker may be busy

    >>> Autoscale(min=2, max=8).target
    0.7
    """

    min: int = 1
    max: int | None = None
    target: float = 0.7
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.min < 1 or (self.max is not None and self.max < self.min):
            raise InputError(
                f"autoscale needs 1 <= min <= max, got min {self.min} and max {self.max}"
            )
        if not 0 < self.target <= 1:
            raise InputError(f"autoscale needs a target above 0, at most 1, got {self.target}")


@dataclass(frozen=True, slots=True)
class Balancing:
    """Which planners to use, and how certain they must be before anything moves.

    mode             `auto` follows plans, `propose` lets them wait for approval, `off`: no plans
    allow            times of day, in UTC, in which plans may be followed: `22:00-05:00`,
                     `Mon-Fri 22:00-05:00`, or a list of them; default: always
    autoscale        `{min, max, target}`: activate and drain workers by the load; default: never
    keys, queries, operators  planners of keyed queries, arrivals, and running whole queries
    repair           slow planner of source traffic, run in the background
    max_imbalance    load above the mean that a worker may carry
    hysteresis       part of `max_imbalance` that a plan leaves free, so that it lasts
    max_table        entries of a routing table
    max_owners       workers that may share a hot key; 1: no key is split, None: all
    window           recent batches that decisions are based on
    samples          batches needed before the first decision
    confidence       standard errors by which a bound must be exceeded
    cooldown         batches in which nothing moves back to a worker it left
    min_excess       load of the busiest worker above the mean worth a plan, in batch intervals
    min_gain         excess load that a plan must remove, in mean loads (keys: in target loads)
    move_seconds_per_mb  cost of moving state, until it is learnt from measured pauses
    payback          batches in which that cost must pay off
    budget_bytes, budget_items    state and items moved at most per batch boundary; None: no limit
    order            `hot` moves the most load first, `small` the least state
    promote          spread a whole query that outgrows a worker over all of them, if it has a key
    promote_share    share of the batch interval that such a query needs at least
    traffic_price    variance, in squared mean loads, worth shipping every stream once more
    slack, absolute_slack         balance bound of arrivals: relative, and in queries
    combine          sum up the rows of a windowed aggregate before they are sent to its workers,
                     where that makes them fewer
    beta             of the planners mixed and minmig: weight of cost against state
    delta, theta     of the planners cor-*: score above which an operator is exchanged, and
                     correlation below which a pair of workers is improved
    capacity         of the planners cor-*: load that a worker can carry, in batch intervals; None:
                     what max_imbalance allows above the mean
    initial, warm_up planner that places all whole queries afresh, once, after so many busy batches
    large_cluster    how whole queries are planned on more than `large_workers` workers: in
                     `domains` of `domain_size`, `overlapping` ones, `pairs` that workers form
                     themselves, or all together (`central`)
    large_queries    with more, light whole queries of a worker are planned together
    seed             of the random choices of planners

    >>> Balancing(max_imbalance=0.1).keys
    'cover'
    """

    mode: str = BalancingMode.AUTO
    allow: str | tuple[str, ...] = ()
    autoscale: Autoscale | None = None
    keys: str = "cover"
    queries: str = "herd"
    operators: str = "variance"
    repair: str = OFF
    max_imbalance: float = 0.08
    hysteresis: float = 0.75
    max_table: int = 3000
    max_owners: int | None = None
    window: int = 16
    samples: int = 3
    confidence: float = 3.0
    cooldown: int = 10
    min_excess: float = 0.02
    min_gain: float = 0.02
    move_seconds_per_mb: float = 0.02
    payback: int = 20
    budget_bytes: float | None = None
    budget_items: int | None = None
    order: str = "hot"
    promote: bool = True
    promote_share: float = 0.5
    traffic_price: float = 0.01
    slack: float = 0.05
    absolute_slack: float = 10.0
    combine: bool = True
    beta: float = 1.5
    delta: float = 0.2
    theta: float = 0.8
    capacity: float | None = None
    initial: str = OFF
    warm_up: int = 10
    large_cluster: str = "domains"
    large_workers: int = 50
    large_queries: int = 1000
    domain_size: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name in (f.name for f in fields(self) if f.type in (float, int) and f.name != "theta"):
            require_non_negative(name, getattr(self, name))
        for window in self.windows:
            parse_window(window)
        if not -1 <= self.theta <= 1:
            raise InputError(f"theta must lie in -1..1, got {self.theta}")
        if self.hysteresis > 1:
            raise InputError(f"hysteresis must lie in 0..1, got {self.hysteresis}")
        if not 1 <= self.samples <= self.window:
            raise InputError(
                f"samples must be between 1 and window = {self.window}, got {self.samples}"
            )
        if self.warm_up < 1 or (self.initial != OFF and self.warm_up > self.window):
            raise InputError(
                f"warm_up must be between 1 and window = {self.window}, got {self.warm_up}"
            )
        if self.domain_size < 2 or self.large_queries < 1:
            raise InputError(
                "domain_size must be 2 or more and large_queries 1 or more, "
                f"got {self.domain_size} and {self.large_queries}"
            )
        for name in ("budget_bytes", "budget_items", "max_owners", "capacity"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, or None for no limit, got {value}")

    @classmethod
    def off(cls) -> "Balancing":
        """Return settings with all planners off: only drains, activations and manual plans move."""
        return cls(keys=OFF, queries=OFF, operators=OFF, promote=False)

    @property
    def scaling(self) -> Autoscale:
        """The limits of advice on the number of workers, whether or not it is followed."""
        return self.autoscale or Autoscale()

    @property
    def windows(self) -> tuple[str, ...]:
        """The maintenance windows; none: always."""
        return (self.allow,) if isinstance(self.allow, str) else tuple(self.allow)

    def allows(self, at: float) -> bool:
        """Tell whether a plan may be followed at a time, in seconds since the epoch."""
        return not self.windows or any(parse_window(one).contains(at) for one in self.windows)

    def effective(self) -> "Balancing":
        """Return the settings that plans are made with: none in mode `off`."""
        if self.mode != BalancingMode.OFF:
            return self
        return replace(
            self,
            keys=OFF,
            operators=OFF,
            repair=OFF,
            initial=OFF,
            promote=False,
            autoscale=None,
        )

    @property
    def target_imbalance(self) -> float:
        """The imbalance that plans aim at; below the bound, so that they last."""
        return self.max_imbalance * (1 - self.hysteresis)

    @property
    def most_owners(self) -> int:
        """`max_owners` as a number in any case."""
        return 1 << 30 if self.max_owners is None else self.max_owners

    def new_rng(self) -> np.random.Generator:
        """Return a new generator; equal inputs give equal decisions."""
        return np.random.default_rng(self.seed)
