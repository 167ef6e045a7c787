"""LeastSource (herding-small-queries, section 5.1): a query goes where least traffic will flow.

M(Q_j, q) = f(Q_j + q), the traffic of the whole worker once it has the query; so that no worker
gathers so many sources that it fills up with everything. Ties: least load, lowest index.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.online import Online, online
from evenflow.planning.queries.problem import NOWHERE, ROUNDING, Problem
from evenflow.planning.queries.state import State, bound_after, fits, settle, take


def leastsource(problem: Problem, rng: np.random.Generator) -> Online:
    """Start placing by LeastSource."""
    state, over = online(problem)

    def step(events: Indices) -> None:
        _run(state, events, over)

    return Online(state, over, step)


@kernel
def choose(state: State, query: int, bound: float) -> int:
    """Return the worker with the least traffic after taking the query, or -1."""
    load = state.loads[query]
    hosts = state.hosts
    saved = state.saved
    saved[:] = 0.0
    for at in range(state.starts[query], state.starts[query + 1]):
        source = state.sources[at]
        begin = hosts.start[source]
        for slot in range(begin, begin + hosts.used[source]):
            saved[hosts.worker[slot]] += state.rates[source]
    best, least = NOWHERE, np.inf
    for worker in range(len(saved)):
        cost = state.traffic[worker] - saved[worker]
        if cost > least + ROUNDING * abs(least) or not fits(state, worker, load, bound):
            continue
        tied = best != NOWHERE and cost >= least - ROUNDING * abs(least)
        if not tied or state.level[worker] < state.level[best]:
            best, least = worker, cost
    saved[:] = 0.0
    return best


@kernel
def _run(state: State, events: Indices, over: Indices) -> None:
    for event in events:
        if event < 0:
            take(state, -event - 1)
        else:
            bound = bound_after(state, state.loads[event])
            settle(state, event, choose(state, event, bound), over)


def leastsource_plain(hosted: list[set[int]], wanted: set[int], rates: list[float]) -> list[float]:
    """Return M of every worker, given the sources that flow to each: the kernel's oracle."""
    return [sum(rates[s] for s in sorted(wanted | sources)) for sources in hosted]
