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
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries.ic import ic
from evenflow.planning.queries.leastcost import choose as choose_leastcost
from evenflow.planning.queries.online import Online, online
from evenflow.planning.queries.problem import NOWHERE, Fleet, Problem
from evenflow.planning.queries.state import State, bound_after, fits, settle, take
from evenflow.planning.queries.types import query_types


class Reserved(NamedTuple):
    """For the type of each query, the workers reserved for it and with which weight."""

    kind: Indices
    start: Indices
    worker: Workers
    weight: Floats


def reserve(
    problem: Problem, rng: np.random.Generator, history: Subscriptions | None = None
) -> Online:
    """Start placing by reservations for the types of `history`, or of the queries themselves."""
    state, over = online(problem)
    reserved = reservations(problem, history or problem.subscriptions, rng)

    def step(events: Indices) -> None:
        _run(state, reserved, events, over, rng)

    return Online(state, over, step)


def reservations(problem: Problem, history: Subscriptions, rng: np.random.Generator) -> Reserved:
    """Plan offline for the popularity of types in `history`."""
    known = len(history)
    both = Subscriptions(
        np.concatenate((history.starts, history.starts[-1] + problem.subscriptions.starts[1:])),
        np.concatenate((history.sources, problem.subscriptions.sources)),
        problem.subscriptions.rates,
        np.concatenate((history.loads, problem.subscriptions.loads)),
    )
    kinds = query_types(both)
    even = Fleet(problem.fleet.capacities, slack=0.0)
    planned = ic(Problem.of(history, even), rng).workers
    workers = len(problem.fleet)
    pairs, inverse = np.unique(kinds[:known] * workers + planned, return_inverse=True)
    weight = np.bincount(inverse, weights=history.loads).astype(np.float64)
    start = np.searchsorted(pairs // workers, np.arange(int(kinds.max()) + 2))
    return Reserved(kinds[known:], start, (pairs % workers).astype(np.int32), weight)


@kernel
def choose(
    state: State, reserved: Reserved, query: int, bound: float, rng: np.random.Generator
) -> int:
    """Draw one of the reserved workers that have room, by weight; else ask LeastCost."""
    load, kind = state.loads[query], reserved.kind[query]
    total = 0.0
    for at in range(reserved.start[kind], reserved.start[kind + 1]):
        if fits(state, reserved.worker[at], load, bound):
            total += reserved.weight[at]
    if total == 0.0:
        return choose_leastcost(state, query, bound)
    drawn = rng.random() * total
    chosen = NOWHERE
    for at in range(reserved.start[kind], reserved.start[kind + 1]):
        if fits(state, reserved.worker[at], load, bound) and drawn >= 0.0:
            chosen = reserved.worker[at]
            drawn -= reserved.weight[at]
    return chosen


@kernel
def _run(
    state: State, reserved: Reserved, events: Indices, over: Indices, rng: np.random.Generator
) -> None:
    for event in events:
        if event < 0:
            take(state, -event - 1)
        else:
            bound = bound_after(state, state.loads[event])
            settle(state, event, choose(state, reserved, event, bound, rng), over)
