"""repair: from the current placement toward the best one, with few moves.

The local search of `partition`, started from the current placement, with a price on every query
that is not on its current worker. The price follows the budget: it rises while too many
queries have moved and falls while there are moves left, so that what stays moved is what saves most
traffic per query. The search is annealed: at first it also makes moves that lose a little, and
takes back later what did not lead on. Queries that run nowhere yet are placed first, by herd.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import NOWHERE
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.local_search import pass_order, search_pass
from evenflow.planning.queries.online import place_arrivals
from evenflow.planning.queries.problem import Placement, PlacementProblem
from evenflow.planning.queries.search_state import (
    SearchState,
    place_groups,
    start_search,
    workers_of_queries,
)

HOT_SWEEPS, COLD_SWEEPS = 40, 10
"""Sweeps with losing moves, and without them at the end."""
INITIAL_TEMPERATURE = 0.4
"""Traffic, in mean rates, that moves may lose at first with probability 1/e."""
INITIAL_PRICE, MIN_PRICE = 1.0, 0.02
"""Traffic, in mean rates, that a moved query must save: at first, and at least."""
BUDGET_TARGET = 0.98
"""Part of the budget that is used before the end: at the full budget no better move could enter."""
PRICE_ADJUSTMENT = 0.3
"""How fast the price follows the budget."""
PRICE_DECAY = 0.85
"""How fast the price falls in the end, to use up the budget."""


def repair(
    problem: PlacementProblem, rng: np.random.Generator, max_moves: int | None = None
) -> Placement:
    """Improve the current placement with at most `max_moves` moved queries (any number if None)."""
    if not (problem.current != NOWHERE).any():
        raise InputError("repair starts from a current placement, got none; use partition")
    arrived = place_arrivals(herd(problem, rng), problem)
    search = start_search(
        PlacementProblem.of(problem.subscriptions, problem.fleet, problem.pinned, arrived.workers)
    )
    place_groups(search, arrived.workers[search.groups.members[search.groups.member_starts[:-1]]])
    rates = problem.subscriptions.rates[problem.subscriptions.sources]
    budget = -1 if max_moves is None else max(0, max_moves - arrived.moved)
    if budget != 0:
        _anneal(search, budget, float(rates.mean()), rng)
    workers = workers_of_queries(search)
    return Placement(workers, problem.count_moved(workers))


def _anneal(search: SearchState, budget: int, unit: float, rng: np.random.Generator) -> None:
    price = INITIAL_PRICE
    for at in range(HOT_SWEEPS + COLD_SWEEPS):
        heat = INITIAL_TEMPERATURE * max(0.0, 1 - at / HOT_SWEEPS)
        search_pass(search, pass_order(search, rng), price * unit, budget, heat * unit, rng)
        used = 0.0 if budget < 0 else float(search.moved_queries[0]) / budget
        price *= (
            max(used / BUDGET_TARGET, 0.1) ** PRICE_ADJUSTMENT if at < HOT_SWEEPS else PRICE_DECAY
        )
        price = max(price, MIN_PRICE)
