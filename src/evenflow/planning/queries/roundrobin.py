"""Round robin (herding-small-queries, section 6.2): queries go to the workers in turn.

Departures
    A worker without room within equation 4's bound is passed over.
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
from evenflow.planning.queries.problem import PlacementProblem


def roundrobin(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing in turn."""
    return start_online(problem, _process_events, np.zeros(1, dtype=np.int64))


@kernel
def _process_events(state: PlacementState, events: Indices, over: Indices, turn: Indices) -> None:
    workers = len(state.relative_load)
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
            continue
        load = state.query_load[event]
        bound = bound_after_arrival(state, load)
        chosen = NOWHERE
        for step in range(workers):
            worker = (turn[0] + step) % workers
            if fits(state, worker, load, bound):
                chosen = worker
                turn[0] = worker + 1
                break
        place_arrival(state, event, chosen, over)
