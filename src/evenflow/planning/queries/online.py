"""Online placement: the running placement, and the rules that change it event by event.

An event is a query q that arrives (q) or departs (-q - 1), see `departure_events`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model import Verdict, VerdictCode
from evenflow.model.arrays import NOWHERE, Floats, Indices, Workers
from evenflow.planning.queries.problem import ROUNDING, Fleet, Placement, PlacementProblem
from evenflow.planning.queries.source_hosts import SourceHosts, add_host, empty_hosts, remove_host

TOTAL_LOAD, TOTAL_QUERIES = 0, 1
SLACK, ABSOLUTE_SLACK, ACTIVE_WORKERS = 0, 1, 2


class PlacementState(NamedTuple):
    """Everything a rule may read.

    starts, sources, rates, query_load  the subscriptions
    worker_of_query  the worker each query runs on, or NOWHERE
    hosts            the workers each source flows to
    inverse_share    1 / share of each worker, infinite when it takes nothing
    relative_load    worker_load * inverse_share: equal everywhere when even
    traffic          f(Q_j), the rate that flows to each worker
    live_queries     live queries of each source
    totals           load and number of all live queries
    limits           nu, alpha, and the number of workers that take queries
    saved_traffic, touched_workers  scratch of the size of the fleet
    """

    starts: Indices
    sources: Workers
    rates: Floats
    query_load: Floats
    worker_of_query: Workers
    hosts: SourceHosts
    worker_load: Floats
    inverse_share: Floats
    relative_load: Floats
    traffic: Floats
    live_queries: Indices
    totals: Floats
    limits: Floats
    saved_traffic: Floats
    touched_workers: Workers


def initial_state(problem: PlacementProblem) -> PlacementState:
    """Start with the pinned and the running queries in place, before any arrival."""
    subscriptions, fleet = problem.subscriptions, problem.fleet
    workers = len(fleet)
    state = PlacementState(
        starts=subscriptions.starts,
        sources=subscriptions.sources,
        rates=subscriptions.rates,
        query_load=subscriptions.loads,
        worker_of_query=np.full(len(subscriptions), NOWHERE, dtype=np.int32),
        hosts=empty_hosts(subscriptions.reader_counts(), workers),
        worker_load=np.zeros(workers),
        inverse_share=np.zeros(workers),
        relative_load=np.zeros(workers),
        traffic=np.zeros(workers),
        live_queries=np.zeros(len(subscriptions.rates), dtype=np.int64),
        totals=np.zeros(2),
        limits=np.array([fleet.slack, fleet.absolute_slack, 0.0]),
        saved_traffic=np.zeros(workers),
        touched_workers=np.zeros(workers, dtype=np.int32),
    )
    set_capacities(state, fleet)
    place_queries(state, problem.initial_workers())
    return state


def set_capacities(state: PlacementState, fleet: Fleet) -> None:
    """Apply a change of the fleet: workers added, drained or of another strength."""
    taking = fleet.capacities > 0
    state.inverse_share[:] = np.inf
    state.inverse_share[taking] = 1.0 / fleet.shares[taking]
    state.relative_load[:] = np.inf
    state.relative_load[taking] = state.worker_load[taking] * state.inverse_share[taking]
    state.limits[ACTIVE_WORKERS] = taking.sum()
    state.limits[SLACK], state.limits[ABSOLUTE_SLACK] = fleet.slack, fleet.absolute_slack


@kernel
def bound_after_arrival(state: PlacementState, load: float) -> float:
    """Return the bound of equation 4, as a relative load, once a query of this load has arrived."""
    total = state.totals[TOTAL_LOAD] + load
    spread = (
        state.limits[ABSOLUTE_SLACK]
        * state.limits[ACTIVE_WORKERS]
        / (state.totals[TOTAL_QUERIES] + 1)
    )
    return float(total * (1 + max(spread, state.limits[SLACK])) * (1 + ROUNDING))


@kernel
def fits(state: PlacementState, worker: int, load: float, bound: float) -> bool:
    """Return whether a worker can take a load and stay within the bound."""
    return bool(state.relative_load[worker] + load * state.inverse_share[worker] <= bound)


@kernel
def place_query(state: PlacementState, query: int, worker: int) -> None:
    """Place a query: its sources flow to the worker from now on."""
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        if add_host(state.hosts, source, worker, 1):
            state.traffic[worker] += state.rates[source]
        state.live_queries[source] += 1
    state.worker_of_query[query] = worker
    _add_load(state, worker, state.query_load[query], 1.0)


@kernel
def remove_query(state: PlacementState, query: int) -> None:
    """Remove a query: a source leaves the worker with its last subscriber."""
    worker = state.worker_of_query[query]
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        if remove_host(state.hosts, source, worker, 1):
            state.traffic[worker] -= state.rates[source]
        state.live_queries[source] -= 1
    state.worker_of_query[query] = NOWHERE
    _add_load(state, worker, -state.query_load[query], -1.0)


@kernel
def _add_load(state: PlacementState, worker: int, load: float, queries: float) -> None:
    state.worker_load[worker] += load
    if np.isfinite(state.inverse_share[worker]):
        state.relative_load[worker] = state.worker_load[worker] * state.inverse_share[worker]
    state.totals[TOTAL_LOAD] += load
    state.totals[TOTAL_QUERIES] += queries


@kernel
def place_queries(state: PlacementState, workers: Workers) -> None:
    """Place every query that has a worker."""
    for query in range(len(workers)):
        if workers[query] != NOWHERE:
            place_query(state, query, workers[query])


@kernel
def least_loaded(state: PlacementState, load: float, bound: float) -> int:
    """Return the worker with the lowest relative load that stays within the bound, or -1."""
    best, lowest = NOWHERE, np.inf
    for worker in range(len(state.relative_load)):
        relative = state.relative_load[worker]
        if relative < lowest and relative + load * state.inverse_share[worker] <= bound:
            best, lowest = worker, relative
    return best


@kernel
def place_arrival(state: PlacementState, query: int, worker: int, over: Indices) -> None:
    """Place an arriving query on the chosen worker; if none fits, on the least loaded.

    `over` marks the queries that broke the bound.
    """
    if worker == NOWHERE:
        over[query] += 1
        worker = least_loaded(state, state.query_load[query], np.inf)
    place_query(state, query, worker)


def departure_events(queries: Indices) -> Indices:
    """Return the events of the departure of these queries.

    >>> departure_events(np.array([0, 3])).tolist()
    [-1, -4]
    """
    return -queries - 1


@dataclass(slots=True)
class OnlinePlacer:
    """An online rule and the placement it changes; used by one thread.

    state              the current placement
    over_bound_counts  how often each query fitted on no worker within the bound
    process_events     apply a sequence of events to the placement
    count_moves        return how many running queries the rule itself has moved
    """

    state: PlacementState
    over_bound_counts: Indices
    process_events: Callable[[Indices], None]
    count_moves: Callable[[], int] = lambda: 0

    def set_fleet(self, fleet: Fleet) -> Indices:
        """Change the fleet; queries of workers with capacity 0 depart and arrive again.

        Return these queries.
        """
        count = len(self.state.worker_load)
        if len(fleet) != count:
            raise InputError(
                f"a fleet keeps its {count} workers, got {len(fleet)}; give workers "
                "that come later, or are gone, a capacity of 0"
            )
        gone = np.flatnonzero((fleet.capacities <= 0) & (self.state.worker_load > 0))
        displaced = np.flatnonzero(np.isin(self.state.worker_of_query, gone))
        set_capacities(self.state, fleet)  # first, so that nothing moves to a worker that leaves
        self.process_events(departure_events(displaced))
        self.process_events(displaced)
        return displaced


def start_online(
    problem: PlacementProblem, process_events: Callable[..., None], *extra: object
) -> OnlinePlacer:
    """Start a rule before the first arrival.

    `process_events(state, events, over_bound_counts, *extra)` is its kernel.
    """
    state, over = initial_state(problem), np.zeros(len(problem.subscriptions), dtype=np.int64)
    return OnlinePlacer(state, over, lambda events: process_events(state, events, over, *extra))


def place_arrivals(rule: OnlinePlacer, problem: PlacementProblem) -> Placement:
    """Place all queries that run nowhere yet, in order."""
    state = rule.state
    rule.process_events(np.flatnonzero(state.worker_of_query == NOWHERE))
    verdicts = over_bound_verdicts(rule.over_bound_counts, problem)
    return Placement(state.worker_of_query, problem.count_moved(state.worker_of_query), verdicts)


def over_bound_verdicts(over: Indices, problem: PlacementProblem) -> tuple[Verdict, ...]:
    """Return a verdict on the queries that no worker could take within equation 4's bound."""
    queries = np.flatnonzero(over)
    if not len(queries):
        return ()
    worst = int(queries[np.argmax(problem.subscriptions.loads[queries])])
    return (
        Verdict(
            VerdictCode.ARRIVAL_OVER_BOUND,
            str(worst),
            f"{len(queries)} arriving queries fitted on no worker and went to the least loaded; "
            f"the heaviest has a load of {problem.subscriptions.loads[worst]:.6g}: "
            "raise the absolute slack, or split it",
        ),
    )
