"""Baselines that ignore the sources: OnRand, round robin and OffRand (herding-small-queries, 6).

OnRand: a query goes to a random worker that has room; without a bound its expected traffic is
proposition 2's closed form, see `expected_traffic`. Round robin: queries go to the workers in turn.
OffRand: a random group of equal queries goes to a random worker with room until the worker is full
or the group is placed; a group of which some are left is drawn again later.

Departures
    Round robin skips a worker without room within equation 4's bound.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices, Rng
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.offline import (
    OfflineFill,
    assign_queries,
    finish_placement,
    fitting_count,
    start_fill,
)
from evenflow.planning.queries.online import (
    OnlinePlacer,
    PlacementState,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
    start_online,
)
from evenflow.planning.queries.problem import Placement, PlacementProblem


def onrand(problem: PlacementProblem, rng: Rng) -> OnlinePlacer:
    """Start placing at random, uniformly over the workers within the bound."""
    return start_online(problem, _process_events, rng)


@kernel
def choose_onrand(state: PlacementState, query: int, bound: float, rng: Rng) -> int:
    """Draw until a worker fits; after k misses draw from the list of those that fit."""
    load = state.query_load[query]
    workers = len(state.relative_load)
    for _ in range(workers):
        worker = int(rng.random() * workers)
        if fits(state, worker, load, bound):
            return worker
    seen = 0
    for worker in range(workers):
        if fits(state, worker, load, bound):
            state.touched_workers[seen] = worker
            seen += 1
    return int(state.touched_workers[int(rng.random() * seen)]) if seen else NOWHERE


@kernel
def _process_events(state: PlacementState, events: Indices, over: Indices, rng: Rng) -> None:
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_onrand(state, event, bound, rng), over)


def expected_traffic(subscriptions: Subscriptions, workers: int) -> float:
    """Return the mean traffic of random placement on k equal workers (proposition 2).

    A source of d_s queries reaches a worker with probability 1 - (1 - 1/k)^d_s.

    >>> expected_traffic(Subscriptions.from_source_sets([[0], [0]]), 2)
    1.5
    """
    missed = (1.0 - 1.0 / workers) ** subscriptions.reader_counts()
    return float((subscriptions.rates * (1.0 - missed)).sum() * workers)


def roundrobin(problem: PlacementProblem, rng: Rng) -> OnlinePlacer:
    """Start placing in turn."""
    return start_online(problem, _process_in_turn, np.zeros(1, dtype=np.int64))


@kernel
def _process_in_turn(state: PlacementState, events: Indices, over: Indices, turn: Indices) -> None:
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


def offrand(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place all queries by OffRand."""
    fill = start_fill(problem)
    _fill_offrand(fill, rng)
    return finish_placement(fill, problem)


@kernel
def _fill_offrand(fill: OfflineFill, rng: Rng) -> None:
    workers = len(fill.free_capacity)
    pool = np.arange(len(fill.unplaced))
    pool_size = len(pool)
    with_room = np.empty(workers, dtype=np.int64)
    while pool_size > 0:
        drawn = int(rng.random() * pool_size)
        group = pool[drawn]
        worker = int(rng.random() * workers)
        if fitting_count(fill, group, worker) == 0:
            seen = 0
            for other in range(workers):
                if fitting_count(fill, group, other) > 0:
                    with_room[seen] = other
                    seen += 1
            worker = with_room[int(rng.random() * seen)] if seen else -1
        if worker >= 0:
            assign_queries(fill, group, worker, fitting_count(fill, group, worker))
        if worker < 0 or fill.unplaced[group] == 0:
            pool_size -= 1
            pool[drawn] = pool[pool_size]
