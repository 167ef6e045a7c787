"""MMS, min-max traffic cost per server (herding-small-queries, section 4.1.2).

Rounds: of all pairs of a group of equal queries (with unit loads: a query type) and a worker with
room, take the pair after which the worker's traffic f(Q_j) is least, and assign as many queries
of the group as fit. Ties: larger group, first appearance, lowest worker.
"""

import numpy as np

from evenflow.planning.queries.greedy_rounds import fill_by_rounds
from evenflow.planning.queries.offline import finish_placement, start_fill
from evenflow.planning.queries.problem import Placement, PlacementProblem


def mms(problem: PlacementProblem, rng: np.random.Generator) -> Placement:
    """Place all queries by MMS."""
    poured = start_fill(problem)
    fill_by_rounds(poured, whole_traffic=True)
    return finish_placement(poured, problem)
