"""Simulates arriving and departing queries and workers (herding-small-queries, section 6.1.2).

Each step: queries at the end of their lifetime depart; every gamma steps a worker is added or a
random one is lost, with equal probability, and the queries of a lost worker are placed again as if
they arrived; then a Poisson number of queries arrives, with exponential or Pareto lifetimes. The
replication factor covers the sources of live queries. Arrivals can follow a daily sine, with its
minimum at the start of each day.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import (
    NOWHERE,
    Fleet,
    OnlinePlacer,
    PlacementProblem,
    departure_events,
)

PlacementRule = Callable[[PlacementProblem, np.random.Generator], OnlinePlacer]
PARETO_SHAPE = 2.0


@dataclass(frozen=True, slots=True)
class Churn:
    """Arrivals, lifetimes and fleet changes; times in steps.

    fleet_change_steps  gamma: steps between fleet changes; None for a fixed fleet
    day_steps           length of a day; 0 for no daily rhythm
    daily_swing         0.8: arrivals vary from 0.2 to 1.8 times their mean
    """

    mean_lifetime_steps: float
    lifetime_distribution: Literal["exponential", "pareto"] = "exponential"
    arrivals_per_step: float = 1.0
    fleet_change_steps: int | None = None
    day_steps: int = 0
    daily_swing: float = 0.0

    def __post_init__(self) -> None:
        if self.mean_lifetime_steps <= 0 or self.arrivals_per_step <= 0:
            raise InputError(
                "mean_lifetime_steps and arrivals_per_step must be above 0, got "
                f"{self.mean_lifetime_steps} and {self.arrivals_per_step}"
            )
        if self.fleet_change_steps is not None and self.fleet_change_steps < 1:
            raise InputError(f"fleet_change_steps must be 1 or more, got {self.fleet_change_steps}")
        if (
            self.day_steps < 0
            or not 0 <= self.daily_swing <= 1
            or (self.daily_swing and not self.day_steps)
        ):
            raise InputError(
                "daily_swing must be between 0 and 1, and 0 without day_steps, got "
                f"daily_swing {self.daily_swing} and day_steps {self.day_steps}"
            )


@dataclass(frozen=True, slots=True)
class PlacementSample:
    """The placement at one step."""

    step: int
    live_queries: int
    workers: int
    traffic: float
    replication_factor: float
    max_over_mean_load: float


@dataclass(frozen=True, slots=True)
class ChurnTrace:
    """A log of the events, and samples of the placement at equal intervals."""

    lines: tuple[str, ...]
    samples: tuple[PlacementSample, ...]
    moved_queries: int = 0
    placements_over_bound: int = 0
    final_state: OnlinePlacer | None = field(default=None, repr=False)

    def replication_factor(self) -> float:
        """Return the mean over the second half, when the number of live queries is steady."""
        factors = [sample.replication_factor for sample in self.samples[len(self.samples) // 2 :]]
        return float(np.mean(factors))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def draw_lifetimes(count: int, churn: Churn, rng: np.random.Generator) -> Floats:
    """Draw the lifetime of each query in steps, at least one."""
    if churn.lifetime_distribution == "exponential":
        lifetimes = rng.exponential(churn.mean_lifetime_steps, count)
    else:
        lifetimes = (1 + rng.pareto(PARETO_SHAPE, count)) * churn.mean_lifetime_steps
        lifetimes *= (PARETO_SHAPE - 1) / PARETO_SHAPE
    return np.maximum(lifetimes, 1.0)


def simulate_churn(
    rule: PlacementRule,
    subscriptions: Subscriptions,
    fleet: Fleet,
    churn: Churn,
    seed: int,
    samples: int = 20,
) -> ChurnTrace:
    """Run all arrivals and departures under a placement rule. A seed repeats a run exactly."""
    rng = np.random.default_rng(seed)
    arrived, departs = draw_arrivals_and_departures(len(subscriptions), churn, rng)
    order, keys = _query_events(arrived, departs)
    last = int(arrived[-1])
    moments = sample_steps(last, samples)
    changes = np.arange(
        churn.fleet_change_steps or last + 1, last, churn.fleet_change_steps or last + 1
    )
    capacities = np.concatenate((fleet.capacities, np.zeros(len(changes))))
    fleet = Fleet(capacities, fleet.slack, fleet.absolute_slack)
    online = rule(PlacementProblem.of(subscriptions, fleet), rng)
    lines = [f"seed {seed}: {len(subscriptions)} queries, {churn}"]
    taken: list[PlacementSample] = []
    done = 0
    stops = [(2 * int(step) + 1, 0) for step in changes] + [(2 * int(m) + 2, 1) for m in moments]
    for key, is_sample in sorted(stops):
        upto = int(np.searchsorted(keys, key))
        online.process_events(order[done:upto])
        done = upto
        if is_sample:
            taken.append(_sample_placement(online, fleet, key // 2 - 1))
        else:
            fleet, line = _change_fleet(online, fleet, rng)
            lines.append(f"step {key // 2}: {line}")
    lines += [str(sample) for sample in taken]
    return ChurnTrace(
        tuple(lines),
        tuple(taken),
        online.count_moves(),
        int(online.over_bound_counts.sum()),
        online,
    )


def sample_steps(last: int, samples: int) -> Indices:
    """Return the steps at which samples are taken."""
    return np.linspace(last / samples, last, samples).astype(np.int64)


def draw_arrivals_and_departures(
    count: int, churn: Churn, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Draw the steps at which each query arrives and departs."""
    arrivals: list[int] = []
    step = 0
    while len(arrivals) < count:
        steps = np.arange(step, step + 4096)
        per_step = rng.poisson(_mean_arrivals(steps, churn), 4096)
        arrivals.extend(np.repeat(steps, per_step).tolist())
        step += 4096
    arrived = np.array(arrivals[:count], dtype=np.int64)
    return arrived, arrived + np.ceil(draw_lifetimes(count, churn, rng)).astype(np.int64)


def _mean_arrivals(steps: Indices, churn: Churn) -> Floats | float:
    """Return the mean number of arrivals at each step."""
    if not churn.daily_swing:
        return churn.arrivals_per_step
    rhythm: Floats = 1 - churn.daily_swing * np.cos(2 * np.pi * steps / churn.day_steps)
    return churn.arrivals_per_step * rhythm


def _query_events(arrived: Indices, departs: Indices) -> tuple[Indices, Indices]:
    """Return events in order and their sort keys: 2 * step, one more for arrivals."""
    leaving = np.flatnonzero(departs <= arrived[-1])
    events = np.concatenate((np.arange(len(arrived)), departure_events(leaving)))
    keys = np.concatenate((2 * arrived + 1, 2 * departs[leaving]))
    order = np.argsort(keys, kind="stable")
    return events[order], keys[order]


def _change_fleet(
    online: OnlinePlacer, fleet: Fleet, rng: np.random.Generator
) -> tuple[Fleet, str]:
    """Add a worker or lose a random one; the last worker is never lost."""
    capacities = fleet.capacities.copy()
    active = np.flatnonzero(capacities > 0)
    if rng.random() < 0.5 or len(active) == 1:
        worker = int(active.max()) + 1
        capacities[worker] = capacities[active[0]]
        event = f"worker {worker} added"
    else:
        worker = int(rng.choice(active))
        capacities[worker] = 0.0
        event = f"worker {worker} lost"
    changed = Fleet(capacities, fleet.slack, fleet.absolute_slack)
    replaced = online.set_fleet(changed)
    return changed, f"{event}, {len(replaced)} queries placed again"


def _sample_placement(online: OnlinePlacer, fleet: Fleet, step: int) -> PlacementSample:
    state = online.state
    active = fleet.capacities > 0
    levels = state.worker_load[active] / fleet.shares[active]
    rates = float(state.rates[state.live_queries > 0].sum())
    total = float(state.worker_load.sum())
    return PlacementSample(
        step,
        int((state.worker_of_query != NOWHERE).sum()),
        int(active.sum()),
        float(state.traffic.sum()),
        float(state.traffic.sum()) / rates if rates else 1.0,
        float(levels.max()) / total if total else 1.0,
    )
