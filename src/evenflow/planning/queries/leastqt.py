"""LeastQT (herding-small-queries, section 5.1): a query goes where fewest query types will be.

M(Q_j, q) = |T(Q_j + q)|, the number of distinct query types on the worker once it has the query.
Ties: least load, lowest index.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.online import OnlinePlacer, start_online
from evenflow.planning.queries.placement_state import (
    PlacementState,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
)
from evenflow.planning.queries.problem import NOWHERE, PlacementProblem
from evenflow.planning.queries.query_types import query_types
from evenflow.planning.queries.source_hosts import SourceHosts, add_host, empty_hosts, remove_host


class TypeCounts(NamedTuple):
    """The type of each query, the workers of each type, and the types of each worker."""

    type_of_query: Indices
    hosts: SourceHosts
    types_on_worker: Indices


def leastqt(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing by LeastQT."""
    state, over = start_online(problem)
    of_query = query_types(problem.subscriptions)
    workers = len(problem.fleet)
    hosts = empty_hosts(np.bincount(of_query).astype(np.int64), workers)
    kinds = TypeCounts(of_query, hosts, np.zeros(workers, dtype=np.int64))
    for query in np.flatnonzero(state.worker_of_query != NOWHERE):
        _count_arrival(kinds, int(query), int(state.worker_of_query[query]))

    def step(events: Indices) -> None:
        _process_events(state, kinds, events, over)

    return OnlinePlacer(state, over, step)


@kernel
def _count_arrival(kinds: TypeCounts, query: int, worker: int) -> None:
    if add_host(kinds.hosts, kinds.type_of_query[query], worker, 1):
        kinds.types_on_worker[worker] += 1


@kernel
def _count_departure(kinds: TypeCounts, query: int, worker: int) -> None:
    if remove_host(kinds.hosts, kinds.type_of_query[query], worker, 1):
        kinds.types_on_worker[worker] -= 1


@kernel
def choose_leastqt(state: PlacementState, kinds: TypeCounts, query: int, bound: float) -> int:
    """Return the worker with the fewest query types after taking the query, or -1."""
    load = state.query_load[query]
    hosts = kinds.hosts
    begin = hosts.first_entry[kinds.type_of_query[query]]
    end = begin + hosts.entry_count[kinds.type_of_query[query]]
    for slot in range(begin, end):
        state.saved_traffic[hosts.worker[slot]] = 1.0
    best, fewest = NOWHERE, np.inf
    for worker in range(len(state.relative_load)):
        types = kinds.types_on_worker[worker] - state.saved_traffic[worker]
        if types > fewest or not fits(state, worker, load, bound):
            continue
        if types < fewest or state.relative_load[worker] < state.relative_load[best]:
            best, fewest = worker, types
    for slot in range(begin, end):
        state.saved_traffic[hosts.worker[slot]] = 0.0
    return best


@kernel
def _process_events(
    state: PlacementState, kinds: TypeCounts, events: Indices, over: Indices
) -> None:
    for event in events:
        if event < 0:
            query = -event - 1
            _count_departure(kinds, query, state.worker_of_query[query])
            remove_query(state, query)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_leastqt(state, kinds, event, bound), over)
            _count_arrival(kinds, event, state.worker_of_query[event])


def leastqt_plain(types: list[set[frozenset[int]]], wanted: frozenset[int]) -> list[float]:
    """Return M of every worker, given the query types on each: the kernel's oracle."""
    return [float(len(kinds | {wanted})) for kinds in types]
