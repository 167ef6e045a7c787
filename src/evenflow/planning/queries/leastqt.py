"""LeastQT (herding-small-queries, section 5.1): a query goes where fewest query types will be.

M(Q_j, q) = |T(Q_j + q)|, the number of distinct query types on the worker once it has the query.
Ties: least load, lowest index.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.hosts import Hosts, hold, no_hosts, release
from evenflow.planning.queries.online import Online, online
from evenflow.planning.queries.problem import NOWHERE, Problem
from evenflow.planning.queries.state import State, bound_after, fits, settle, take
from evenflow.planning.queries.types import query_types


class Kinds(NamedTuple):
    """The type of each query, the workers of each type, and the types of each worker."""

    of_query: Indices
    hosts: Hosts
    on_worker: Indices


def leastqt(problem: Problem, rng: np.random.Generator) -> Online:
    """Start placing by LeastQT."""
    state, over = online(problem)
    of_query = query_types(problem.subscriptions)
    workers = len(problem.fleet)
    hosts = no_hosts(np.bincount(of_query).astype(np.int64), workers)
    kinds = Kinds(of_query, hosts, np.zeros(workers, dtype=np.int64))
    for query in np.flatnonzero(state.worker != NOWHERE):
        _enter(kinds, int(query), int(state.worker[query]))

    def step(events: Indices) -> None:
        _run(state, kinds, events, over)

    return Online(state, over, step)


@kernel
def _enter(kinds: Kinds, query: int, worker: int) -> None:
    if hold(kinds.hosts, kinds.of_query[query], worker, 1):
        kinds.on_worker[worker] += 1


@kernel
def _leave(kinds: Kinds, query: int, worker: int) -> None:
    if release(kinds.hosts, kinds.of_query[query], worker, 1):
        kinds.on_worker[worker] -= 1


@kernel
def choose(state: State, kinds: Kinds, query: int, bound: float) -> int:
    """Return the worker with the fewest query types after taking the query, or -1."""
    load = state.loads[query]
    hosts = kinds.hosts
    begin = hosts.start[kinds.of_query[query]]
    end = begin + hosts.used[kinds.of_query[query]]
    for slot in range(begin, end):
        state.saved[hosts.worker[slot]] = 1.0
    best, fewest = NOWHERE, np.inf
    for worker in range(len(state.level)):
        types = kinds.on_worker[worker] - state.saved[worker]
        if types > fewest or not fits(state, worker, load, bound):
            continue
        if types < fewest or state.level[worker] < state.level[best]:
            best, fewest = worker, types
    for slot in range(begin, end):
        state.saved[hosts.worker[slot]] = 0.0
    return best


@kernel
def _run(state: State, kinds: Kinds, events: Indices, over: Indices) -> None:
    for event in events:
        if event < 0:
            query = -event - 1
            _leave(kinds, query, state.worker[query])
            take(state, query)
        else:
            bound = bound_after(state, state.loads[event])
            settle(state, event, choose(state, kinds, event, bound), over)
            _enter(kinds, event, state.worker[event])


def leastqt_plain(types: list[set[frozenset[int]]], wanted: frozenset[int]) -> list[float]:
    """Return M of every worker, given the query types on each: the kernel's oracle."""
    return [float(len(kinds | {wanted})) for kinds in types]
