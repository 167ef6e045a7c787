"""LeastSource (herding-small-queries, section 5.1): a query goes where least traffic will flow.

M(Q_j, q) = f(Q_j + q), the traffic of the whole worker once it has the query; so that no worker
gathers so many sources that it fills up with everything. Ties: least load, lowest index.
"""

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
from evenflow.planning.queries.problem import ROUNDING, PlacementProblem
from evenflow.planning.queries.source_hosts import add_hosted_rates


def leastsource(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing by LeastSource."""
    return start_online(problem, _process_events)


@kernel
def choose_leastsource(state: PlacementState, query: int, bound: float) -> int:
    """Return the worker with the least traffic after taking the query, or -1."""
    load, saved = state.query_load[query], state.saved_traffic
    saved[:] = 0.0
    sources = state.sources[state.starts[query] : state.starts[query + 1]]
    add_hosted_rates(state.hosts, sources, state.rates, saved)
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


@kernel
def _process_events(state: PlacementState, events: Indices, over: Indices) -> None:
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_leastsource(state, event, bound), over)


def leastsource_plain(hosted: list[set[int]], wanted: set[int], rates: list[float]) -> list[float]:
    """Return M of every worker, given the sources that flow to each: the kernel's oracle."""
    return [sum(rates[s] for s in sorted(wanted | sources)) for sources in hosted]
