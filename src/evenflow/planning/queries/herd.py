"""herd, our own online rule: LeastCost with popularity, strength of copies and room.

It keeps LeastCost's frame (herding-small-queries, figure 3) and equation 4's bound, and scores a
worker j that has room for query q by

    sum over sources s of q that flow to j of  w(s) (1 + rare(s)) + w0 STICK / |q| * c / (c + HALF)
    - w0 (relative load of j / mean relative load - 1)

rare(s) = 1 - deg(s) / sum of deg over the sources of q, deg counting live queries: of two workers
that each lack one source, take the one that has the rarer source. Popular sources end up
everywhere anyhow, a copy of them costs nothing more (the HDRF rule of streaming graph
partitioning). c = live queries of s on j: join a strong copy rather than a weak one. Weak copies
die out when their few queries leave, so copies do not accumulate under churn, where HDRF alone is
worse than LeastCost. The last term spends the slack on better workers and saves the rest for later.
Both weigh little: w0 is the least rate of q, and queries of one source count as of two.
Ties: least load, lowest index. If no worker that has a source has room, the least loaded does.

Equation 4's absolute slack alpha lets the first arrivals gather on few workers. That pays for a
query whose rarest source fits on one worker. A source with more live queries than a worker's share
must flow to several workers anyhow; gathering then mixes all popular sources on the same workers.
So alpha is measured by popularity: it shrinks by the number of workers that the live queries of the
query's rarest source fill, down to 1. Queries of one source mix nothing and keep it. (Appendix D
bounds alpha only from above, at thousands.)

Bounded re-placement (off unless moves are allowed): after an arrival, and after a departure, up to
MAX_RECONSIDERED live queries of each source of that query are reconsidered; one that saves traffic
by moving is moved, if it is not pinned and its new worker stays within the bound.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Bools, Indices, Rng
from evenflow.planning.queries.online import (
    ABSOLUTE_SLACK,
    ACTIVE_WORKERS,
    SLACK,
    TOTAL_LOAD,
    TOTAL_QUERIES,
    OnlinePlacer,
    PlacementState,
    best_touched,
    place_arrival,
    place_query,
    remove_query,
    start_online,
)
from evenflow.planning.queries.problem import ROUNDING, PlacementProblem
from evenflow.planning.queries.query_types import readers_by_source
from evenflow.planning.queries.source_hosts import entry_of, is_hosted

COPY_WEIGHT = 0.2
COPY_HALF_COUNT = 3.0
MAX_RECONSIDERED = 4


class ReplacementState(NamedTuple):
    """State of bounded re-placement: the queries of each source, the next one, the budget."""

    start: Indices
    queries: Indices
    next_query: Indices
    pinned: Bools
    budget: Indices


def herd(problem: PlacementProblem, rng: Rng, max_moves: int = 0) -> OnlinePlacer:
    """Start placing by herd, with at most `max_moves` moves of running queries."""
    movers = _replacement_state(problem, max_moves)
    rule = start_online(problem, _process_events, movers)
    return replace(rule, count_moves=lambda: max_moves - int(movers.budget[0]))


def _replacement_state(problem: PlacementProblem, max_moves: int) -> ReplacementState:
    subscriptions, sources = problem.subscriptions, len(problem.subscriptions.rates)
    budget = np.array([max_moves], dtype=np.int64)
    if not max_moves:
        none = np.zeros(0, dtype=np.int64)
        return ReplacementState(none, none, none, np.zeros(0, dtype=np.bool_), budget)
    start, queries = readers_by_source(subscriptions.starts, subscriptions.sources, sources)
    turn = np.zeros(sources, dtype=np.int64)
    return ReplacementState(start, queries, turn, problem.pinned != NOWHERE, budget)


@kernel
def herd_bound(state: PlacementState, query: int) -> float:
    """Return the bound of equation 4 with alpha measured by the popularity of the query."""
    begin, end = state.starts[query], state.starts[query + 1]
    rarest = np.inf
    for at in range(begin, end):
        rarest = min(rarest, state.live_queries[state.sources[at]] + 1.0)
    alpha, arrived = state.limits[ABSOLUTE_SLACK], state.totals[TOTAL_QUERIES] + 1
    filled = rarest * state.limits[ACTIVE_WORKERS] / arrived  # workers, by its live queries
    if filled > 1 and end - begin > 1:
        alpha = min(alpha, max(1.0, alpha / filled))
    spread = max(alpha * state.limits[ACTIVE_WORKERS] / arrived, state.limits[SLACK])
    total = state.totals[TOTAL_LOAD] + state.query_load[query]
    return float(total * (1 + spread) * (1 + ROUNDING))


@kernel
def choose_herd(state: PlacementState, query: int, bound: float) -> int:
    """Return the worker with the best score within the bound, or -1."""
    load = state.query_load[query]
    hosts = state.hosts
    begin, end = state.starts[query], state.starts[query + 1]
    degrees, least = 0.0, np.inf
    for at in range(begin, end):
        degrees += state.live_queries[state.sources[at]] + 1
        least = min(least, state.rates[state.sources[at]])
    stick = COPY_WEIGHT * least / max(2, end - begin)
    seen = 0
    for at in range(begin, end):
        source = state.sources[at]
        weight = state.rates[source] * (2.0 - (state.live_queries[source] + 1) / degrees)
        first = hosts.first_entry[source]
        for entry in range(first, first + hosts.entry_count[source]):
            worker = hosts.worker[entry]
            if state.saved_traffic[worker] == 0.0:
                state.touched_workers[seen] = worker
                seen += 1
            count = hosts.query_count[entry]
            state.saved_traffic[worker] += weight + stick * (count / (count + COPY_HALF_COUNT))
    spread = state.limits[ACTIVE_WORKERS] / (state.totals[TOTAL_QUERIES] + 1)
    room_price = least / (state.totals[TOTAL_LOAD] * (1 + spread) + load)
    return best_touched(state, load, bound, seen, room_price)


@kernel
def traffic_saved(state: PlacementState, query: int, worker: int) -> float:
    """Return the traffic saved by moving a query to another worker; none by staying."""
    current = state.worker_of_query[query]
    if worker == current:
        return 0.0
    saved = 0.0
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        if state.hosts.query_count[entry_of(state.hosts, source, current)] == 1:
            saved += state.rates[source]
        if not is_hosted(state.hosts, source, worker):
            saved -= state.rates[source]
    return saved


@kernel
def _reconsider(state: PlacementState, movers: ReplacementState, source: int) -> None:
    """Reconsider some queries of a source in turn; move those that save traffic."""
    begin, end = movers.start[source], movers.start[source + 1]
    reconsidered, passed = 0, 0
    while reconsidered < MAX_RECONSIDERED and passed < min(end - begin, 8 * MAX_RECONSIDERED):
        if movers.budget[0] == 0:
            return
        query = movers.queries[begin + movers.next_query[source] % (end - begin)]
        movers.next_query[source] += 1
        passed += 1
        if state.worker_of_query[query] == NOWHERE or movers.pinned[query]:
            continue
        reconsidered += 1
        current = state.worker_of_query[query]
        remove_query(state, query)
        target = choose_herd(state, query, herd_bound(state, query))
        place_query(state, query, current)
        if target != NOWHERE and traffic_saved(state, query, target) > 0:
            remove_query(state, query)
            place_query(state, query, target)
            movers.budget[0] -= 1


@kernel
def _process_events(
    state: PlacementState, events: Indices, over: Indices, movers: ReplacementState
) -> None:
    for event in events:
        query = event if event >= 0 else -event - 1
        if event < 0:
            remove_query(state, query)
        else:
            place_arrival(state, event, choose_herd(state, event, herd_bound(state, event)), over)
        if movers.budget[0] > 0:
            for at in range(state.starts[query], state.starts[query + 1]):
                _reconsider(state, movers, state.sources[at])
