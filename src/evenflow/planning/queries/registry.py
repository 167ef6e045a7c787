"""All query-level algorithms by name."""

from collections.abc import Callable, Mapping

from evenflow.errors import InputError
from evenflow.model.arrays import Rng
from evenflow.planning.queries.baselines import offrand, onrand, roundrobin
from evenflow.planning.queries.greedy_rounds import ic, mms
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.least_rules import leastcost, leastqt, leastsource
from evenflow.planning.queries.offline import mqp, single_source
from evenflow.planning.queries.online import OnlinePlacer, place_arrivals
from evenflow.planning.queries.partition import partition, repair
from evenflow.planning.queries.problem import Placement, PlacementProblem
from evenflow.planning.queries.reserve import reserve

OfflinePlanner = Callable[[PlacementProblem, Rng], Placement]
OnlinePlanner = Callable[[PlacementProblem, Rng], OnlinePlacer]

OFFLINE: Mapping[str, OfflinePlanner] = {
    "mqp": mqp,
    "ic": ic,
    "mms": mms,
    "single-source": single_source,
    "offrand": offrand,
    "repair": repair,
    "partition": partition,
}
ONLINE: Mapping[str, OnlinePlanner] = {
    "leastcost": leastcost,
    "leastsource": leastsource,
    "leastqt": leastqt,
    "onrand": onrand,
    "roundrobin": roundrobin,
    "reserve": reserve,
    "herd": herd,
}
MOVING_ALGORITHMS = ("herd", "repair")
"""Algorithms that move running queries, and accept `max_moves`."""
ALGORITHMS: Mapping[str, OfflinePlanner | OnlinePlanner] = {**OFFLINE, **ONLINE}


def plan_queries(
    problem: PlacementProblem, algorithm: str, rng: Rng, max_moves: int | None = None
) -> Placement:
    """Place all queries; `max_moves` bounds the moves of running queries of herd and repair."""
    if algorithm not in ALGORITHMS:
        raise InputError(f"unknown algorithm {algorithm}; choose one of {', '.join(ALGORITHMS)}")
    if max_moves is not None and (algorithm not in MOVING_ALGORITHMS or max_moves < 0):
        raise InputError(
            f"max moves must not be negative and is for {' and '.join(MOVING_ALGORITHMS)}, "
            f"got {max_moves} with {algorithm}"
        )
    if algorithm == "repair":
        return repair(problem, rng, max_moves)
    if algorithm == "herd":
        return place_arrivals(herd(problem, rng, max_moves or 0), problem)
    if algorithm in ONLINE:
        return place_arrivals(ONLINE[algorithm](problem, rng), problem)
    return OFFLINE[algorithm](problem, rng)
