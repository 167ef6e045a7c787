"""Reservations for known query-type popularity (herding-small-queries, section 5.2.1).

Letters: lambda_t the popularity of type t, pi_tj the part of it that worker j is reserved for.
An offline plan for the popularities, with every worker given exactly its share, yields pi. An
arriving query of type t goes to worker j with probability pi_tj / lambda_t.

Departures
    Which offline algorithm plans is open in the paper: IC here. Reserved workers without room
    within equation 4's bound are skipped; when all are full, or the type is unknown, LeastCost
    decides.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Floats, Indices, Rng, Workers
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.greedy_rounds import ic
from evenflow.planning.queries.least_rules import choose_leastcost
from evenflow.planning.queries.online import (
    OnlinePlacer,
    PlacementState,
    bound_after_arrival,
    fits,
    place_arrival,
    remove_query,
    start_online,
)
from evenflow.planning.queries.problem import Fleet, PlacementProblem
from evenflow.planning.queries.query_types import query_types


class Reservations(NamedTuple):
    """For the type of each query, the workers reserved for it and with which weight."""

    type_of_query: Indices
    start: Indices
    worker: Workers
    weight: Floats


def reserve(
    problem: PlacementProblem, rng: Rng, history: Subscriptions | None = None
) -> OnlinePlacer:
    """Start placing by reservations for the types of `history`, or of the queries themselves."""
    reserved = plan_reservations(problem, history or problem.subscriptions, rng)
    return start_online(problem, _process_events, reserved, rng)


def plan_reservations(problem: PlacementProblem, history: Subscriptions, rng: Rng) -> Reservations:
    """Plan offline for the popularity of types in `history`."""
    known = len(history)
    together = Subscriptions(
        np.concatenate((history.starts, history.starts[-1] + problem.subscriptions.starts[1:])),
        np.concatenate((history.sources, problem.subscriptions.sources)),
        problem.subscriptions.rates,
        np.concatenate((history.loads, problem.subscriptions.loads)),
    )
    types = query_types(together)
    even = Fleet(problem.fleet.capacities, slack=0.0)
    planned = ic(PlacementProblem.of(history, even), rng).workers
    workers = len(problem.fleet)
    pairs, inverse = np.unique(types[:known] * workers + planned, return_inverse=True)
    weight = np.bincount(inverse, weights=history.loads).astype(np.float64)
    start = np.searchsorted(pairs // workers, np.arange(int(types.max()) + 2))
    return Reservations(types[known:], start, (pairs % workers).astype(np.int32), weight)


@kernel
def choose_reserve(
    state: PlacementState, reserved: Reservations, query: int, bound: float, rng: Rng
) -> int:
    """Draw one of the reserved workers that have room, by weight; else use LeastCost."""
    load, query_type = state.query_load[query], reserved.type_of_query[query]
    total = 0.0
    for at in range(reserved.start[query_type], reserved.start[query_type + 1]):
        if fits(state, reserved.worker[at], load, bound):
            total += reserved.weight[at]
    if total == 0.0:
        return choose_leastcost(state, query, bound)
    drawn = rng.random() * total
    chosen = NOWHERE
    for at in range(reserved.start[query_type], reserved.start[query_type + 1]):
        if fits(state, reserved.worker[at], load, bound) and drawn >= 0.0:
            chosen = reserved.worker[at]
            drawn -= reserved.weight[at]
    return chosen


@kernel
def _process_events(
    state: PlacementState, events: Indices, over: Indices, reserved: Reservations, rng: Rng
) -> None:
    for event in events:
        if event < 0:
            remove_query(state, -event - 1)
        else:
            bound = bound_after_arrival(state, state.query_load[event])
            place_arrival(state, event, choose_reserve(state, reserved, event, bound, rng), over)
