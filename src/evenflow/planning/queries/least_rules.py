"""LeastCost, LeastSource and LeastQT (herding-small-queries, section 5.1).

A query q goes to the worker j with the least M(Q_j, q) among those that stay within equation 4's
bound, then the least load, then the lowest index:

    LeastCost    f(Q_j + q) - f(Q_j), the rates of the sources of q that do not flow to j yet
    LeastSource  f(Q_j + q), the traffic of the whole worker, so that no worker gathers so many
                 sources that it fills up with everything
    LeastQT      |T(Q_j + q)|, the number of distinct query types on the worker

LeastCost reads only workers that have a source of q; if none of them has room, all others cost the
same and the least loaded one takes the query.

Departures
    Figure 3 compares loads before the arrival, strictly, with a mean that lacks the arrival: no
    worker qualifies at the start or at equal loads. Here |Q_j| + 1 <= d(n + 1).
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices, Rng
from evenflow.planning.queries.online import (
    OnlinePlacer,
    PlacementState,
    best_touched,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
    start_online,
)
from evenflow.planning.queries.problem import ROUNDING, PlacementProblem
from evenflow.planning.queries.query_types import query_types
from evenflow.planning.queries.source_hosts import SourceHosts, add_host, empty_hosts, remove_host


def leastcost(problem: PlacementProblem, rng: Rng) -> OnlinePlacer:
    """Start placing by LeastCost."""
    return start_online(problem, _process_events, False)


@kernel
def choose_leastcost(state: PlacementState, query: int, bound: float) -> int:
    """Return the worker that needs the least additional traffic within the bound, or -1."""
    hosts = state.hosts
    seen = 0
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        begin = hosts.first_entry[source]
        for entry in range(begin, begin + hosts.entry_count[source]):
            worker = hosts.worker[entry]
            if state.saved_traffic[worker] == 0.0:
                state.touched_workers[seen] = worker
                seen += 1
            state.saved_traffic[worker] += state.rates[source]
    return best_touched(state, state.query_load[query], bound, seen, 0.0)


@kernel
def _process_events(
    state: PlacementState, events: Indices, over: Indices, whole_traffic: bool
) -> None:
    """Place by LeastSource if the whole traffic of a worker counts, else by LeastCost."""
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
            continue
        bound = bound_after_arrival(state, state.query_load[event])
        if whole_traffic:
            worker = choose_leastsource(state, event, bound)
        else:
            worker = choose_leastcost(state, event, bound)
        place_arrival(state, event, worker, over)


def leastcost_plain(hosted: list[set[int]], wanted: set[int], rates: list[float]) -> list[float]:
    """Return M of every worker, given the sources that flow to each: the kernel's oracle."""
    return [sum(rates[s] for s in sorted(wanted - sources)) for sources in hosted]


def leastsource(problem: PlacementProblem, rng: Rng) -> OnlinePlacer:
    """Start placing by LeastSource."""
    return start_online(problem, _process_events, True)


@kernel
def choose_leastsource(state: PlacementState, query: int, bound: float) -> int:
    """Return the worker with the least traffic after taking the query, or -1."""
    hosts, load, saved = state.hosts, state.query_load[query], state.saved_traffic
    saved[:] = 0.0
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        begin = hosts.first_entry[source]
        for entry in range(begin, begin + hosts.entry_count[source]):
            saved[hosts.worker[entry]] += state.rates[source]
    best, least = NOWHERE, np.inf
    for worker in range(len(saved)):
        cost = state.traffic[worker] - saved[worker]
        if cost > least + ROUNDING * abs(least) or not fits(state, worker, load, bound):
            continue
        tied = best != NOWHERE and cost >= least - ROUNDING * abs(least)
        if not tied or state.relative_load[worker] < state.relative_load[best]:
            best, least = worker, cost
    saved[:] = 0.0
    return best


def leastsource_plain(hosted: list[set[int]], wanted: set[int], rates: list[float]) -> list[float]:
    """Return M of every worker, given the sources that flow to each: the kernel's oracle."""
    return [sum(rates[s] for s in sorted(wanted | sources)) for sources in hosted]


class TypeCounts(NamedTuple):
    """The type of each query, the workers of each type, and the types of each worker."""

    type_of_query: Indices
    hosts: SourceHosts
    types_on_worker: Indices


def leastqt(problem: PlacementProblem, rng: Rng) -> OnlinePlacer:
    """Start placing by LeastQT."""
    types, workers = query_types(problem.subscriptions), len(problem.fleet)
    hosts = empty_hosts(np.bincount(types).astype(np.int64), workers)
    counts = TypeCounts(types, hosts, np.zeros(workers, dtype=np.int64))
    start = problem.initial_workers()
    for query in np.flatnonzero(start != NOWHERE):
        _count_arrival(counts, int(query), int(start[query]))
    return start_online(problem, _process_typed_events, counts)


@kernel
def _count_arrival(counts: TypeCounts, query: int, worker: int) -> None:
    if add_host(counts.hosts, counts.type_of_query[query], worker, 1):
        counts.types_on_worker[worker] += 1


@kernel
def choose_leastqt(state: PlacementState, counts: TypeCounts, query: int, bound: float) -> int:
    """Return the worker with the fewest query types after taking the query, or -1."""
    load = state.query_load[query]
    hosts = counts.hosts
    begin = hosts.first_entry[counts.type_of_query[query]]
    end = begin + hosts.entry_count[counts.type_of_query[query]]
    for entry in range(begin, end):
        state.saved_traffic[hosts.worker[entry]] = 1.0
    best, fewest = NOWHERE, np.inf
    for worker in range(len(state.relative_load)):
        types = counts.types_on_worker[worker] - state.saved_traffic[worker]
        if types > fewest or not fits(state, worker, load, bound):
            continue
        if types < fewest or state.relative_load[worker] < state.relative_load[best]:
            best, fewest = worker, types
    for entry in range(begin, end):
        state.saved_traffic[hosts.worker[entry]] = 0.0
    return best


@kernel
def _process_typed_events(
    state: PlacementState, events: Indices, over: Indices, counts: TypeCounts
) -> None:
    for event in events:
        if event < 0:
            query = -event - 1
            worker = state.worker_of_query[query]
            if remove_host(counts.hosts, counts.type_of_query[query], worker, 1):
                counts.types_on_worker[worker] -= 1
            remove_query(state, query)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_leastqt(state, counts, event, bound), over)
            _count_arrival(counts, event, state.worker_of_query[event])


def leastqt_plain(types: list[set[frozenset[int]]], wanted: frozenset[int]) -> list[float]:
    """Return M of every worker, given the query types on each: the kernel's oracle."""
    return [float(len(hosted | {wanted})) for hosted in types]
