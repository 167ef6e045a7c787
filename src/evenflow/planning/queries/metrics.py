"""What a placement costs and how even it is (herding-small-queries, sections 2.1 and 6.1)."""

from dataclasses import dataclass

import numpy as np

from evenflow.jit import kernel
from evenflow.model import Verdict, VerdictCode
from evenflow.model.arrays import NOWHERE, Floats, Indices, Workers
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.problem import (
    ROUNDING,
    Placement,
    PlacementProblem,
    loads_by_worker,
    relaxed_bound,
)
from evenflow.planning.queries.query_types import readers_by_source


@dataclass(frozen=True, slots=True)
class PlacementMetrics:
    """The cost and balance of a placement.

    traffic             sum of f(Q_j): every source counted once for each worker it flows to
    replication_factor  traffic over the rates of all sources that are read
    lower_bound         traffic below which no placement within the bound can go
    max_over_mean_load  largest load over share, by the total load: 1 when even
    feasible            every worker is within the bound of equation 4 (online) or 1 (offline)
    """

    traffic: float
    replication_factor: float
    lower_bound: float
    max_over_mean_load: float
    feasible: bool
    verdicts: tuple[Verdict, ...]


def total_traffic(subscriptions: Subscriptions, workers: Workers, count: int) -> float:
    """Return the sum of f(Q_j) over `count` workers, from scratch."""
    rates = subscriptions.rates
    start, queries = readers_by_source(subscriptions.starts, subscriptions.sources, len(rates))
    return _total_traffic(start, queries, rates, workers, count)


def total_traffic_plain(subscriptions: Subscriptions, workers: Workers) -> float:
    """Return the traffic from the definition: the kernel's oracle."""
    flows = {
        (int(workers[query]), int(source))
        for query in range(len(subscriptions))
        for source in subscriptions.sources_of_query(query)
        if workers[query] != NOWHERE
    }
    return float(sum(subscriptions.rates[source] for _, source in flows))


@kernel
def _total_traffic(
    start: Indices, queries: Indices, rates: Floats, workers: Workers, count: int
) -> float:
    last_seen = np.full(count, -1, dtype=np.int64)
    total = 0.0
    for source in range(len(rates)):
        for at in range(start[source], start[source + 1]):
            worker = workers[queries[at]]
            if worker >= 0 and last_seen[worker] != source:
                last_seen[worker] = source
                total += rates[source]
    return total


def traffic_lower_bound(problem: PlacementProblem, room: Floats) -> float:
    """Return a traffic that no placement with at most `room` on each worker can undercut.

    The queries of a source need at least as many workers as it takes of the roomiest ones to
    hold their load.
    """
    subscriptions = problem.subscriptions
    load = np.bincount(
        subscriptions.sources,
        weights=subscriptions.loads[subscriptions.query_of_entry()],
        minlength=len(subscriptions.rates),
    )
    held = np.cumsum(np.sort(room)[::-1]) * (1 + ROUNDING)
    copies = np.minimum(np.searchsorted(held, load) + 1, len(room))
    return float((subscriptions.rates * copies)[load > 0].sum())


def measure_placement(
    problem: PlacementProblem, placement: Placement, *, online: bool
) -> PlacementMetrics:
    """Measure a placement against equation 4's bound (online) or equation 1's (offline)."""
    subscriptions, fleet = problem.subscriptions, problem.fleet
    total, shares = float(subscriptions.loads.sum()), fleet.shares
    bound = relaxed_bound(total, len(subscriptions), fleet)
    room = bound * shares if online else problem.capacities()
    loads = loads_by_worker(subscriptions, placement.workers, len(fleet))
    cost = total_traffic(subscriptions, placement.workers, len(fleet))
    read = float(subscriptions.rates[subscriptions.reader_counts() > 0].sum())
    taking = shares > 0
    even = shares[taking] * total
    verdicts = (*placement.verdicts, *_overload_verdicts(loads, room))
    return PlacementMetrics(
        traffic=cost,
        replication_factor=cost / read,
        lower_bound=traffic_lower_bound(problem, np.maximum(room, loads)),
        max_over_mean_load=float((loads[taking] / even).max()),
        feasible=bool((loads <= room * (1 + ROUNDING)).all()),
        verdicts=verdicts,
    )


def _overload_verdicts(loads: Floats, room: Floats) -> tuple[Verdict, ...]:
    excess = loads - room * (1 + ROUNDING)
    worst = int(np.argmax(excess))
    if excess[worst] <= 0:
        return ()
    return (
        Verdict(
            VerdictCode.OVER_BOUND,
            str(worst),
            f"{int((excess > 0).sum())} of {len(loads)} workers exceed the bound, most of all "
            f"worker {worst}: load {loads[worst]:.6g}, bound {room[worst]:.6g}",
        ),
    )
