"""repair: from the current placement toward the best one, with few moves.

The local search of `partition`, started from the current placement, with a price on every query
that is away from its present worker. The price starts at what only the best moves are worth and
falls step by step, so that moves are made in order of traffic saved per moved query, until the
budget is used up. Queries that run nowhere yet are placed first, by herd.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.offline import moved_queries
from evenflow.planning.queries.online import place_all
from evenflow.planning.queries.problem import NOWHERE, Placement, Problem
from evenflow.planning.queries.search import (
    place_groups,
    queries_to_workers,
    start_search,
)
from evenflow.planning.queries.sweep import sweep, sweep_order

PRICES = (2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02)
"""Traffic, in mean rates, that a moved query must save."""
SWEEPS = 3


def repair(problem: Problem, rng: np.random.Generator, max_moves: int | None = None) -> Placement:
    """Improve the current placement with at most `max_moves` moved queries (any number if None)."""
    if not (problem.current != NOWHERE).any():
        raise InputError("repair starts from a current placement, got none; use partition")
    arrived = place_all(herd(problem, rng), problem)
    search = start_search(
        Problem.of(problem.subscriptions, problem.fleet, problem.pinned, arrived.workers)
    )
    place_groups(search, arrived.workers[search.groups.members[search.groups.first[:-1]]])
    rates = problem.subscriptions.rates[problem.subscriptions.sources]
    budget = -1 if max_moves is None else max(0, max_moves - arrived.moved)
    for price in PRICES:
        for _ in range(SWEEPS):
            sweep(search, sweep_order(search, rng), price * float(rates.mean()), budget, rng)
        if search.moved[0] == budget:
            break
    workers = queries_to_workers(search)
    return Placement(workers, moved_queries(problem, workers))
