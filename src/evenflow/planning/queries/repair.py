"""repair: from the current placement toward the best one, with few moves.

The local search of `partition`, started from the current placement, with a price on every query
that is away from its present worker. The price follows the budget: it rises while too many
queries are away and falls while there are moves left, so that what stays moved is what saves most
traffic per query. The search is annealed: at first it also makes moves that lose a little, and
takes back later what did not lead on. Queries that run nowhere yet are placed first, by herd.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.offline import moved_queries
from evenflow.planning.queries.online import place_all
from evenflow.planning.queries.problem import NOWHERE, Placement, Problem
from evenflow.planning.queries.search import (
    Search,
    place_groups,
    queries_to_workers,
    start_search,
)
from evenflow.planning.queries.sweep import sweep, sweep_order

HOT, COLD = 40, 10
"""Sweeps with losing moves, and without them at the end."""
HEAT = 0.4
"""Traffic, in mean rates, that moves may lose at first with probability 1/e."""
FIRST_PRICE, LEAST_PRICE = 1.0, 0.02
"""Traffic, in mean rates, that a moved query must save: at first, and at least."""
AIM = 0.98
"""Part of the budget that is used before the end: at the brim nothing better can come in."""
PACE = 0.3
"""How fast the price follows the budget."""
FALL = 0.85
"""How fast the price falls in the end, to use up the budget."""


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
    if budget != 0:
        _anneal(search, budget, float(rates.mean()), rng)
    workers = queries_to_workers(search)
    return Placement(workers, moved_queries(problem, workers))


def _anneal(search: Search, budget: int, unit: float, rng: np.random.Generator) -> None:
    price = FIRST_PRICE
    for at in range(HOT + COLD):
        heat = HEAT * max(0.0, 1 - at / HOT)
        sweep(search, sweep_order(search, rng), price * unit, budget, heat * unit, rng)
        used = 0.0 if budget < 0 else float(search.moved[0]) / budget
        price *= max(used / AIM, 0.1) ** PACE if at < HOT else FALL
        price = max(price, LEAST_PRICE)
