"""LeastQT (herding-small-queries, section 5.1): a query goes where fewest query types will be.

M(Q_j, q) = |T(Q_j + q)|, the number of distinct query types on the worker once it has the query.
Ties: least load, lowest index.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.planning.queries.online import OnlinePlacer, start_online
from evenflow.planning.queries.placement_state import (
    PlacementState,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
)
from evenflow.planning.queries.problem import PlacementProblem
from evenflow.planning.queries.query_types import query_types
from evenflow.planning.queries.source_hosts import SourceHosts, add_host, empty_hosts, remove_host


class TypeCounts(NamedTuple):
    """The type of each query, the workers of each type, and the types of each worker."""

    type_of_query: Indices
    hosts: SourceHosts
    types_on_worker: Indices


def leastqt(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing by LeastQT."""
    types, workers = query_types(problem.subscriptions), len(problem.fleet)
    hosts = empty_hosts(np.bincount(types).astype(np.int64), workers)
    counts = TypeCounts(types, hosts, np.zeros(workers, dtype=np.int64))
    start = problem.initial_workers()
    for query in np.flatnonzero(start != NOWHERE):
        _count_arrival(counts, int(query), int(start[query]))
    return start_online(problem, _process_events, counts)


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
def _process_events(
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
