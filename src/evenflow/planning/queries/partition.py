"""partition, our offline planner from scratch: neighbourhood expansion, then local search.

It minimises the connectivity objective of hypergraph partitioning, see `search`, and needs no
solver: at 100,000 queries of two sources on 100 workers it undercuts Mt-KaHyPar's default preset.
"""

import numpy as np

from evenflow.planning.queries.expand import expand
from evenflow.planning.queries.offline import moved_queries
from evenflow.planning.queries.problem import NOWHERE, ROUNDING, Placement, Problem
from evenflow.planning.queries.search import (
    PIECE,
    Search,
    enter,
    fill,
    place_groups,
    queries_to_workers,
    search_traffic,
    start_search,
)
from evenflow.planning.queries.sweep import sweep, sweep_order

SWEEPS = 60
PATIENCE = 3
WORTHWHILE = 1e-3
"""Part of the traffic that a sweep should save."""


def partition(problem: Problem, rng: np.random.Generator) -> Placement:
    """Place all queries anew, wherever they run now."""
    nowhere = np.full(len(problem.subscriptions), NOWHERE, dtype=np.int32)
    fresh = Problem.of(problem.subscriptions, problem.fleet, problem.pinned, nowhere)
    search = _grown(fresh, PIECE, rng)
    if _excess(search) > 0:  # pieces too coarse for what room is left: let each query go alone
        search = min((search, _grown(fresh, 0.0, rng)), key=_excess)
    if _excess(search) > 0:  # uneven loads: pack the heaviest first, then look for traffic
        packed = _started(fresh, PIECE)
        _pack(packed)
        refine(packed, rng)
        search = min((search, packed), key=_excess)
    workers = queries_to_workers(search)
    return Placement(workers, moved_queries(problem, workers))


def _grown(problem: Problem, piece: float, rng: np.random.Generator) -> Search:
    """Grow workers around sources, then look for traffic to save."""
    search = _started(problem, piece)
    expand(search)
    fill(search)
    refine(search, rng)
    return search


def _started(problem: Problem, piece: float) -> Search:
    """Return a search with only the pinned queries in place."""
    search = start_search(problem, piece)
    place_groups(search, problem.settled()[search.groups.members[search.groups.first[:-1]]])
    return search


def _excess(search: Search) -> float:
    """Return the load beyond the room of the worker that has most of it."""
    return float(np.maximum(search.load - search.room * (1 + ROUNDING), 0.0).max())


def _pack(search: Search) -> None:
    """Put unplaced groups, the heaviest first, on the worker that they fill least."""
    room = np.where(search.room > 0, search.room, np.nan)
    for item in np.argsort(-search.weight, kind="stable"):
        if search.part[item] == NOWHERE:
            enter(search, int(item), int(np.nanargmin((search.load + search.weight[item]) / room)))


def refine(search: Search, rng: np.random.Generator) -> None:
    """Sweep until the gain of several sweeps in a row is not worth another one."""
    poor = 0
    for _ in range(SWEEPS):
        gained = sweep(search, sweep_order(search, rng), 0.0, -1, 0.0, rng)
        poor = poor + 1 if gained < WORTHWHILE * search_traffic(search) else 0
        if poor == PATIENCE:
            return
