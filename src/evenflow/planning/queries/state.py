"""The running placement that online rules read and change, one event at a time."""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.queries.hosts import Hosts, hold, no_hosts, release
from evenflow.planning.queries.problem import NOWHERE, ROUNDING, Fleet, Problem

LOAD, QUERIES = 0, 1
SLACK, ABSOLUTE, ACTIVE = 0, 1, 2


class State(NamedTuple):
    """Everything a rule may look at.

    worker   where each query runs, or NOWHERE
    hosts    the workers each source flows to
    load     of each worker
    inverse  1 / share of each worker, infinite when it takes nothing
    level    load * inverse: alike everywhere when even
    traffic  f(Q_j), the rate that flows to each worker
    live     live queries of each source
    totals   load and number of all live queries
    limits   nu, alpha, and the number of workers that take queries
    saved, touched   scratch of the size of the fleet
    """

    starts: Indices
    sources: Workers
    rates: Floats
    loads: Floats
    worker: Workers
    hosts: Hosts
    load: Floats
    inverse: Floats
    level: Floats
    traffic: Floats
    live: Indices
    totals: Floats
    limits: Floats
    saved: Floats
    touched: Workers


def start_state(problem: Problem) -> State:
    """Start with the pinned and the running queries in place, before any arrival."""
    subscriptions, fleet = problem.subscriptions, problem.fleet
    workers = len(fleet)
    state = State(
        subscriptions.starts,
        subscriptions.sources,
        subscriptions.rates,
        subscriptions.loads,
        np.full(len(subscriptions), NOWHERE, dtype=np.int32),
        no_hosts(subscriptions.degrees(), workers),
        np.zeros(workers),
        np.zeros(workers),
        np.zeros(workers),
        np.zeros(workers),
        np.zeros(len(subscriptions.rates), dtype=np.int64),
        np.zeros(2),
        np.array([fleet.slack, fleet.absolute_slack, 0.0]),
        np.zeros(workers),
        np.zeros(workers, dtype=np.int32),
    )
    set_capacities(state, fleet)
    put_all(state, problem.settled())
    return state


def set_capacities(state: State, fleet: Fleet) -> None:
    """Follow a change of the fleet: workers added, drained or of another strength."""
    taking = fleet.capacities > 0
    state.inverse[:] = np.inf
    state.inverse[taking] = 1.0 / fleet.shares[taking]
    state.level[:] = np.inf
    state.level[taking] = state.load[taking] * state.inverse[taking]
    state.limits[ACTIVE] = taking.sum()
    state.limits[SLACK], state.limits[ABSOLUTE] = fleet.slack, fleet.absolute_slack


@kernel
def bound_after(state: State, load: float) -> float:
    """Return the bound of equation 4, as a level, once a query of this load has arrived."""
    total = state.totals[LOAD] + load
    spread = state.limits[ABSOLUTE] * state.limits[ACTIVE] / (state.totals[QUERIES] + 1)
    return float(total * (1 + max(spread, state.limits[SLACK])) * (1 + ROUNDING))


@kernel
def fits(state: State, worker: int, load: float, bound: float) -> bool:
    """Tell whether a worker can take a load and stay within the bound."""
    return bool(state.level[worker] + load * state.inverse[worker] <= bound)


@kernel
def put(state: State, query: int, worker: int) -> None:
    """Place a query: its sources flow to the worker from now on."""
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        if hold(state.hosts, source, worker, 1):
            state.traffic[worker] += state.rates[source]
        state.live[source] += 1
    state.worker[query] = worker
    _add_load(state, worker, state.loads[query], 1.0)


@kernel
def take(state: State, query: int) -> None:
    """Remove a query: a source leaves the worker with its last subscriber."""
    worker = state.worker[query]
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        if release(state.hosts, source, worker, 1):
            state.traffic[worker] -= state.rates[source]
        state.live[source] -= 1
    state.worker[query] = NOWHERE
    _add_load(state, worker, -state.loads[query], -1.0)


@kernel
def _add_load(state: State, worker: int, load: float, queries: float) -> None:
    state.load[worker] += load
    if np.isfinite(state.inverse[worker]):
        state.level[worker] = state.load[worker] * state.inverse[worker]
    state.totals[LOAD] += load
    state.totals[QUERIES] += queries


@kernel
def put_all(state: State, workers: Workers) -> None:
    """Place every query that has a worker."""
    for query in range(len(workers)):
        if workers[query] != NOWHERE:
            put(state, query, workers[query])


@kernel
def least_loaded(state: State, load: float, bound: float) -> int:
    """Return the worker with the lowest level among those that stay within the bound, or -1."""
    best, lowest = NOWHERE, np.inf
    for worker in range(len(state.level)):
        level = state.level[worker]
        if level < lowest and level + load * state.inverse[worker] <= bound:
            best, lowest = worker, level
    return best


@kernel
def settle(state: State, query: int, worker: int, over: Indices) -> None:
    """Place an arriving query where the rule wants it; where none fits, on the least loaded.

    `over` marks the queries that broke the bound.
    """
    if worker == NOWHERE:
        over[query] += 1
        worker = least_loaded(state, state.loads[query], np.inf)
    put(state, query, worker)
