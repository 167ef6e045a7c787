"""All query-level algorithms by name."""

from collections.abc import Callable, Mapping

import numpy as np

from evenflow.errors import InputError
from evenflow.planning.queries.greedy_rounds import ic, mms
from evenflow.planning.queries.herd import herd
from evenflow.planning.queries.leastcost import leastcost
from evenflow.planning.queries.leastqt import leastqt
from evenflow.planning.queries.leastsource import leastsource
from evenflow.planning.queries.mqp import mqp
from evenflow.planning.queries.offrand import offrand
from evenflow.planning.queries.online import OnlinePlacer, place_arrivals
from evenflow.planning.queries.onrand import onrand
from evenflow.planning.queries.partition import partition
from evenflow.planning.queries.problem import Placement, PlacementProblem
from evenflow.planning.queries.repair import repair
from evenflow.planning.queries.reserve import reserve
from evenflow.planning.queries.roundrobin import roundrobin
from evenflow.planning.queries.single_source import single_source

OfflinePlanner = Callable[[PlacementProblem, np.random.Generator], Placement]
OnlinePlanner = Callable[[PlacementProblem, np.random.Generator], OnlinePlacer]

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
    problem: PlacementProblem,
    algorithm: str,
    rng: np.random.Generator,
    max_moves: int | None = None,
) -> Placement:
    """Place all queries; `max_moves` bounds the moves of running queries of herd and repair."""
    if algorithm not in ALGORITHMS:
        raise InputError(f"no algorithm {algorithm}; choose one of {', '.join(ALGORITHMS)}")
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
