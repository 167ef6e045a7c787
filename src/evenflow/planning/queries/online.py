"""Online placement: events in, a changed placement out. Every online rule runs in here.

An event is a query q that arrives (q) or departs (-q - 1), see `departure_events`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Verdict
from evenflow.model.arrays import Indices
from evenflow.planning.queries.offline import count_moved_queries
from evenflow.planning.queries.placement_state import PlacementState, initial_state, set_capacities
from evenflow.planning.queries.problem import NOWHERE, Fleet, Placement, PlacementProblem


def departure_events(queries: Indices) -> Indices:
    """Return the events that say these queries leave.

    >>> departure_events(np.array([0, 3])).tolist()
    [-1, -4]
    """
    return -queries - 1


def start_online(problem: PlacementProblem) -> tuple[PlacementState, Indices]:
    """Return the state before the first arrival, and a counter of broken bounds by query."""
    return initial_state(problem), np.zeros(len(problem.subscriptions), dtype=np.int64)


@dataclass(slots=True)
class OnlinePlacer:
    """A rule at work on a changing set of queries and workers.

    state  the placement as it stands
    over_bound_counts  how often each query found no worker within the bound
    process_events  take a sequence of events in
    count_moves  how many running queries the rule has moved on its own account
    """

    state: PlacementState
    over_bound_counts: Indices
    process_events: Callable[[Indices], None]
    count_moves: Callable[[], int] = lambda: 0

    def set_fleet(self, fleet: Fleet) -> Indices:
        """Follow a change of the fleet; queries of workers that take nothing are placed anew.

        Return the queries that had to leave their worker. Re-placed queries count as arrivals.
        """
        if len(fleet) != len(self.state.worker_load):
            raise InputError(
                f"a fleet keeps its {len(self.state.worker_load)} workers, got {len(fleet)}; give workers "
                "that come later, or are gone, a capacity of 0"
            )
        gone = np.flatnonzero((fleet.capacities <= 0) & (self.state.worker_load > 0))
        homeless = np.flatnonzero(np.isin(self.state.worker_of_query, gone))
        set_capacities(self.state, fleet)  # first, so that nothing moves to a worker that goes
        self.process_events(departure_events(homeless))
        self.process_events(homeless)
        return homeless


def place_arrivals(rule: OnlinePlacer, problem: PlacementProblem) -> Placement:
    """Let all queries that run nowhere yet arrive in order."""
    state = rule.state
    rule.process_events(np.flatnonzero(state.worker_of_query == NOWHERE))
    moved = count_moved_queries(problem, state.worker_of_query)
    return Placement(
        state.worker_of_query, moved, over_bound_verdicts(rule.over_bound_counts, problem)
    )


def over_bound_verdicts(over: Indices, problem: PlacementProblem) -> tuple[Verdict, ...]:
    """Say which queries no worker could take within equation 4's bound when they arrived."""
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
