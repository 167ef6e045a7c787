"""LeastCost (herding-small-queries, section 5.1): a query goes where it adds least traffic.

M(Q_j, q) = f(Q_j + q) - f(Q_j), the rates of the sources of q that do not flow to worker j yet.
Among the workers that stay within equation 4's bound the least M wins, then the least load, then
the lowest index. Only workers that have a source of q are looked at; if none of them has room,
all others cost the same and the least loaded one takes the query.

Departures
    Figure 3 compares loads before the arrival, strictly, with a mean that lacks the arrival: no
    worker qualifies at the start or at level loads. Here |Q_j| + 1 <= d(n + 1).
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.planning.queries.online import OnlinePlacer, start_online
from evenflow.planning.queries.placement_state import (
    PlacementState,
    bound_after_arrival,
    least_loaded,
    place_arrival,
    remove_query,
)
from evenflow.planning.queries.problem import PlacementProblem


def leastcost(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing by LeastCost."""
    return start_online(problem, _process_events)


@kernel
def choose_leastcost(state: PlacementState, query: int, bound: float) -> int:
    """Return the worker that needs the least additional traffic within the bound, or -1."""
    load = state.query_load[query]
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
    best, most, lowest = NOWHERE, 0.0, np.inf
    for at in range(seen):
        worker = state.touched_workers[at]
        saved = state.saved_traffic[worker]
        state.saved_traffic[worker] = 0.0
        relative = state.relative_load[worker]
        if saved < most or relative + load * state.inverse_share[worker] > bound:
            continue
        if saved > most or relative < lowest or (relative == lowest and worker < best):
            best, most, lowest = worker, saved, relative
    return best if best != NOWHERE else least_loaded(state, load, bound)


@kernel
def _process_events(state: PlacementState, events: Indices, over: Indices) -> None:
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_leastcost(state, event, bound), over)


def leastcost_plain(hosted: list[set[int]], wanted: set[int], rates: list[float]) -> list[float]:
    """Return M of every worker, given the sources that flow to each: the kernel's oracle."""
    return [sum(rates[s] for s in sorted(wanted - sources)) for sources in hosted]
