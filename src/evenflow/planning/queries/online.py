"""Online placement: every online rule processes events on a changing placement.

An event is a query q that arrives (q) or departs (-q - 1), see `departure_events`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Verdict
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.planning.queries.placement_state import PlacementState, initial_state, set_capacities
from evenflow.planning.queries.problem import Fleet, Placement, PlacementProblem


def departure_events(queries: Indices) -> Indices:
    """Return the events of the departure of these queries.

    >>> departure_events(np.array([0, 3])).tolist()
    [-1, -4]
    """
    return -queries - 1


@dataclass(slots=True)
class OnlinePlacer:
    """An online rule and the placement it changes; used by one thread.

    state              the current placement
    over_bound_counts  how often each query fitted on no worker within the bound
    process_events     apply a sequence of events to the placement
    count_moves        return how many running queries the rule itself has moved
    """

    state: PlacementState
    over_bound_counts: Indices
    process_events: Callable[[Indices], None]
    count_moves: Callable[[], int] = lambda: 0

    def set_fleet(self, fleet: Fleet) -> Indices:
        """Change the fleet; queries of workers with capacity 0 depart and arrive again.

        Return these queries.
        """
        count = len(self.state.worker_load)
        if len(fleet) != count:
            raise InputError(
                f"a fleet keeps its {count} workers, got {len(fleet)}; give workers "
                "that come later, or are gone, a capacity of 0"
            )
        gone = np.flatnonzero((fleet.capacities <= 0) & (self.state.worker_load > 0))
        displaced = np.flatnonzero(np.isin(self.state.worker_of_query, gone))
        set_capacities(self.state, fleet)  # first, so that nothing moves to a worker that leaves
        self.process_events(departure_events(displaced))
        self.process_events(displaced)
        return displaced


def start_online(
    problem: PlacementProblem, process_events: Callable[..., None], *extra: object
) -> OnlinePlacer:
    """Start a rule before the first arrival.

    `process_events(state, events, over_bound_counts, *extra)` is its kernel.
    """
    state, over = initial_state(problem), np.zeros(len(problem.subscriptions), dtype=np.int64)
    return OnlinePlacer(state, over, lambda events: process_events(state, events, over, *extra))


def place_arrivals(rule: OnlinePlacer, problem: PlacementProblem) -> Placement:
    """Place all queries that run nowhere yet, in order."""
    state = rule.state
    rule.process_events(np.flatnonzero(state.worker_of_query == NOWHERE))
    verdicts = over_bound_verdicts(rule.over_bound_counts, problem)
    return Placement(state.worker_of_query, problem.count_moved(state.worker_of_query), verdicts)


def over_bound_verdicts(over: Indices, problem: PlacementProblem) -> tuple[Verdict, ...]:
    """Return a verdict on the queries that no worker could take within equation 4's bound."""
    queries = np.flatnonzero(over)
    if not len(queries):
        return ()
    worst = int(queries[np.argmax(problem.subscriptions.loads[queries])])
    return (
        Verdict(
            "arrival_over_bound",
            str(worst),
            f"{len(queries)} arriving queries fitted on no worker and went to the least loaded; "
            f"the heaviest has a load of {problem.subscriptions.loads[worst]:.6g}: "
            "raise the absolute slack, or split it",
        ),
    )
