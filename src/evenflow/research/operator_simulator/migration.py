"""Moving operators between workers: suspend, transfer, resume."""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.research.operator_simulator.event_loop import (
    NO_CELL,
    CellPool,
    ClusterState,
    Wiring,
    append_cell,
    update_tournament,
)


@kernel
def suspend_operators(moving: Indices, state: ClusterState, pool: CellPool) -> float:
    """Suspend operators and their queued tuples; return when their last service ends."""
    for operator in moving:
        state.suspended[operator] = True
    last_finish = 0.0
    for worker in range(len(state.queues)):
        if state.finish_seconds[worker] < np.inf and state.suspended[state.serving[worker] >> 1]:
            last_finish = max(last_finish, state.finish_seconds[worker])
        cell = state.queues[worker, 0]
        state.queues[worker, 0] = NO_CELL
        while cell >= 0:
            next_cell = pool.next_cell[cell]
            operator = pool.target[cell] >> 1
            if state.suspended[operator]:
                append_cell(state.suspended_queues, operator, cell, pool.next_cell)
            else:
                append_cell(state.queues, worker, cell, pool.next_cell)
            cell = next_cell
    return last_finish


@kernel
def resume_operators(
    moving: Indices,
    workers: Indices,
    now: float,
    wiring: Wiring,
    state: ClusterState,
    pool: CellPool,
) -> None:
    """Resume operators on their new workers; their tuples join the ends of the queues."""
    for i in range(len(moving)):
        operator, worker = moving[i], workers[i]
        state.suspended[operator] = False
        state.worker[operator] = worker
        cell = state.suspended_queues[operator, 0]
        state.suspended_queues[operator, 0] = NO_CELL
        while cell >= 0:
            next_cell = pool.next_cell[cell]
            if state.finish_seconds[worker] == np.inf:
                cost = wiring.cost[operator]
                state.serving[worker] = pool.target[cell]
                state.serving_birth[worker] = pool.birth[cell]
                state.busy_seconds[worker] += cost
                state.finish_seconds[worker] = now + cost
                update_tournament(state.finish_seconds, state.tournament, worker)
                pool.next_cell[cell] = state.cursor[1]
                state.cursor[1] = cell
            else:
                append_cell(state.queues, worker, cell, pool.next_cell)
            cell = next_cell
