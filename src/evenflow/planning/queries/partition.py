"""partition and repair, our offline planners by local search (see `search_state`).

partition places all queries from scratch: neighbourhood expansion, then local search. It needs no
solver: at 100,000 queries of two sources on 100 workers it undercuts Mt-KaHyPar's default preset.
Where LeastCost, with all queries arriving in order, does better, the search starts from that: it
does with few popular sources and one source a query, where nothing but the packing counts.

repair starts the same search from the current placement, with a price on every query that is not on
its current worker. The price follows the budget: it rises while too many queries have moved and
falls while there are moves left, so that those queries stay moved that save most traffic each. The
search is annealed: at first it also makes moves that lose a little, and later undoes those that led
to no gain. Queries that run nowhere yet are placed first, by herd.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import NOWHERE, Rng, Workers
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.least_rules import leastcost
from evenflow.planning.queries.local_search import pass_order, search_pass
from evenflow.planning.queries.neighbourhood_expansion import expand_neighbourhoods
from evenflow.planning.queries.online import place_arrivals
from evenflow.planning.queries.problem import ROUNDING, Placement, PlacementProblem
from evenflow.planning.queries.search_state import (
    MAX_GROUP_SHARE,
    SearchState,
    place_group,
    place_groups,
    place_remaining_groups,
    search_traffic,
    start_search,
    workers_of_queries,
)

MAX_SWEEPS = 60
PATIENCE = 3
MIN_RELATIVE_GAIN = 1e-3  # part of the traffic that a sweep should save
HOT_SWEEPS, COLD_SWEEPS = 40, 10  # sweeps with losing moves, and without them at the end
INITIAL_TEMPERATURE = 0.4  # mean rates that a move may lose at first with probability 1/e
INITIAL_PRICE, MIN_PRICE = 1.0, 0.02  # mean rates that a moved query must save: at first, at least
BUDGET_TARGET = 0.98  # part of the budget used before the end, so that better moves can enter
PRICE_ADJUSTMENT = 0.3  # how fast the price follows the budget
PRICE_DECAY = 0.85  # how fast the price falls in the end, to use up the budget


def partition(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place all queries, wherever they run now."""
    nowhere = np.full(len(problem.subscriptions), NOWHERE, dtype=np.int32)
    fresh = PlacementProblem.of(problem.subscriptions, problem.fleet, problem.pinned, nowhere)
    search = _expand_and_refine(fresh, MAX_GROUP_SHARE, rng)
    if _max_overload(search) > 0:  # pieces too coarse for the room left: place queries one by one
        search = min((search, _expand_and_refine(fresh, 0.0, rng)), key=_max_overload)
    if _max_overload(search) > 0:  # uneven loads: pack the heaviest first, then save traffic
        packed = _start_with_pinned(fresh, MAX_GROUP_SHARE)
        _place_heaviest_first(packed)
        refine(packed, rng)
        search = min((search, packed), key=_max_overload)
    arrived = _start_from(fresh, place_arrivals(leastcost(fresh, rng), fresh).workers)
    if _rank(arrived) < _rank(search):
        refine(arrived, rng)
        search = arrived
    workers = workers_of_queries(search)
    return Placement(workers, problem.count_moved(workers))


def _start_from(problem: PlacementProblem, workers: Workers) -> SearchState:
    """Return a search that starts from a placement."""
    search = start_search(
        PlacementProblem.of(problem.subscriptions, problem.fleet, problem.pinned, workers)
    )
    place_groups(search, workers[search.groups.members[search.groups.member_starts[:-1]]])
    return search


def _rank(search: SearchState) -> tuple[float, float]:
    """Order placements: load beyond the room, then traffic."""
    return _max_overload(search), search_traffic(search)


def _expand_and_refine(problem: PlacementProblem, piece: float, rng: Rng) -> SearchState:
    """Grow workers around sources, then save traffic by local search."""
    search = _start_with_pinned(problem, piece)
    expand_neighbourhoods(search)
    place_remaining_groups(search)
    refine(search, rng)
    return search


def _start_with_pinned(problem: PlacementProblem, piece: float) -> SearchState:
    """Return a search with only the pinned queries in place."""
    search = start_search(problem, piece)
    place_groups(
        search, problem.initial_workers()[search.groups.members[search.groups.member_starts[:-1]]]
    )
    return search


def _max_overload(search: SearchState) -> float:
    """Return the load beyond the room of the worker that has most of it."""
    return float(np.maximum(search.worker_load - search.capacity * (1 + ROUNDING), 0.0).max())


def _place_heaviest_first(search: SearchState) -> None:
    """Put unplaced groups, the heaviest first, on the worker that they fill least."""
    room = np.where(search.capacity > 0, search.capacity, np.nan)
    for group in np.argsort(-search.group_load, kind="stable"):
        if search.worker_of_group[group] == NOWHERE:
            place_group(
                search,
                int(group),
                int(np.nanargmin((search.worker_load + search.group_load[group]) / room)),
            )


def refine(search: SearchState, rng: Rng) -> None:
    """Sweep until the gain of several sweeps in a row is not worth another one."""
    poor = 0
    for _ in range(MAX_SWEEPS):
        gained = search_pass(search, pass_order(search, rng), 0.0, -1, 0.0, rng)
        poor = poor + 1 if gained < MIN_RELATIVE_GAIN * search_traffic(search) else 0
        if poor == PATIENCE:
            return


def repair(problem: PlacementProblem, rng: Rng, max_moves: int | None = None) -> Placement:
    """Improve the current placement with at most `max_moves` moved queries (any number if None)."""
    if not (problem.current != NOWHERE).any():
        raise InputError("repair starts from a current placement, got none; use partition")
    arrived = place_arrivals(herd(problem, rng), problem)
    search = _start_from(problem, arrived.workers)
    rates = problem.subscriptions.rates[problem.subscriptions.sources]
    budget = -1 if max_moves is None else max(0, max_moves - arrived.moved)
    if budget != 0:
        _anneal(search, budget, float(rates.mean()), rng)
    workers = workers_of_queries(search)
    return Placement(workers, problem.count_moved(workers))


def _anneal(search: SearchState, budget: int, unit: float, rng: Rng) -> None:
    price = INITIAL_PRICE
    for at in range(HOT_SWEEPS + COLD_SWEEPS):
        heat = INITIAL_TEMPERATURE * max(0.0, 1 - at / HOT_SWEEPS)
        search_pass(search, pass_order(search, rng), price * unit, budget, heat * unit, rng)
        used = 0.0 if budget < 0 else float(search.moved_queries[0]) / budget
        price *= (
            max(used / BUDGET_TARGET, 0.1) ** PRICE_ADJUSTMENT if at < HOT_SWEEPS else PRICE_DECAY
        )
        price = max(price, MIN_PRICE)
