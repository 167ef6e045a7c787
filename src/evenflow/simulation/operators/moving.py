"""Moving operators between workers: suspend, transfer, resume."""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.simulation.operators.engine import NONE, Pool, State, Wiring, append, settle


@kernel
def suspend(moving: Indices, state: State, pool: Pool) -> float:
    """Stop operators and set their queued tuples aside; return when the last one is at rest."""
    for operator in moving:
        state.suspended[operator] = True
    rest = 0.0
    for worker in range(len(state.queues)):
        if state.finish[worker] < np.inf and state.suspended[state.serving[worker] >> 1]:
            rest = max(rest, state.finish[worker])
        cell = state.queues[worker, 0]
        state.queues[worker, 0] = NONE
        while cell >= 0:
            following = pool.after[cell]
            operator = pool.target[cell] >> 1
            if state.suspended[operator]:
                append(state.pending, operator, cell, pool.after)
            else:
                append(state.queues, worker, cell, pool.after)
            cell = following
    return rest


@kernel
def resume(
    moving: Indices, workers: Indices, now: float, wiring: Wiring, state: State, pool: Pool
) -> None:
    """Start operators on their new workers; their tuples join the tails of the queues."""
    for at in range(len(moving)):
        operator, worker = moving[at], workers[at]
        state.suspended[operator] = False
        state.worker[operator] = worker
        cell = state.pending[operator, 0]
        state.pending[operator, 0] = NONE
        while cell >= 0:
            following = pool.after[cell]
            if state.finish[worker] == np.inf:
                cost = wiring.cost[operator]
                state.serving[worker] = pool.target[cell]
                state.serving_birth[worker] = pool.birth[cell]
                state.busy[worker] += cost
                state.finish[worker] = now + cost
                settle(state.finish, state.tree, worker)
                pool.after[cell] = state.cursor[1]
                state.cursor[1] = cell
            else:
                append(state.queues, worker, cell, pool.after)
            cell = following
