"""OnRand (herding-small-queries, section 6.1): a query goes to a random worker that has room.

Without a bound its expected traffic is proposition 2's closed form, see `expected_traffic`.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.online import Online, online
from evenflow.planning.queries.problem import NOWHERE, Problem
from evenflow.planning.queries.state import State, bound_after, fits, settle, take


def onrand(problem: Problem, rng: np.random.Generator) -> Online:
    """Start placing at random, uniformly over the workers within the bound."""
    state, over = online(problem)

    def step(events: Indices) -> None:
        _run(state, events, over, rng)

    return Online(state, over, step)


@kernel
def choose(state: State, query: int, bound: float, rng: np.random.Generator) -> int:
    """Draw until a worker fits; after k misses draw from the list of those that fit."""
    load = state.loads[query]
    workers = len(state.level)
    for _ in range(workers):
        worker = int(rng.random() * workers)
        if fits(state, worker, load, bound):
            return worker
    seen = 0
    for worker in range(workers):
        if fits(state, worker, load, bound):
            state.touched[seen] = worker
            seen += 1
    return int(state.touched[int(rng.random() * seen)]) if seen else NOWHERE


@kernel
def _run(state: State, events: Indices, over: Indices, rng: np.random.Generator) -> None:
    for event in events:
        if event < 0:
            take(state, -event - 1)
        else:
            bound = bound_after(state, state.loads[event])
            settle(state, event, choose(state, event, bound, rng), over)


def expected_traffic(subscriptions: Subscriptions, workers: int) -> float:
    """Return the mean traffic of random placement on k equal workers (proposition 2).

    A source of d_s queries reaches a worker with probability 1 - (1 - 1/k)^d_s.

    >>> expected_traffic(Subscriptions.of([[0], [0]]), 2)
    1.5
    """
    missed = (1.0 - 1.0 / workers) ** subscriptions.degrees()
    return float((subscriptions.rates * (1.0 - missed)).sum() * workers)
