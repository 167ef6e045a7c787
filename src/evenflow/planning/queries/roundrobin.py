"""Round robin (herding-small-queries, section 6.2): queries go to the workers in turn.

Departures
    A worker without room within equation 4's bound is passed over.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.online import Online, online
from evenflow.planning.queries.problem import NOWHERE, Problem
from evenflow.planning.queries.state import State, bound_after, fits, settle, take


def roundrobin(problem: Problem, rng: np.random.Generator) -> Online:
    """Start placing in turn."""
    state, over = online(problem)
    turn = np.zeros(1, dtype=np.int64)

    def step(events: Indices) -> None:
        _run(state, events, over, turn)

    return Online(state, over, step)


@kernel
def _run(state: State, events: Indices, over: Indices, turn: Indices) -> None:
    workers = len(state.level)
    for event in events:
        if event < 0:
            take(state, -event - 1)
            continue
        load = state.loads[event]
        bound = bound_after(state, load)
        chosen = NOWHERE
        for step in range(workers):
            worker = (turn[0] + step) % workers
            if fits(state, worker, load, bound):
                chosen = worker
                turn[0] = worker + 1
                break
        settle(state, event, chosen, over)
