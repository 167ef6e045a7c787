"""OnRand (herding-small-queries, section 6.1): a query goes to a random worker that has room.

Without a bound its expected traffic is proposition 2's closed form, see `expected_traffic`.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.online import OnlinePlacer, start_online
from evenflow.planning.queries.placement_state import (
    PlacementState,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
)
from evenflow.planning.queries.problem import PlacementProblem


def onrand(problem: PlacementProblem, rng: np.random.Generator) -> OnlinePlacer:
    """Start placing at random, uniformly over the workers within the bound."""
    return start_online(problem, _process_events, rng)


@kernel
def choose_onrand(state: PlacementState, query: int, bound: float, rng: np.random.Generator) -> int:
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
def _process_events(
    state: PlacementState, events: Indices, over: Indices, rng: np.random.Generator
) -> None:
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
