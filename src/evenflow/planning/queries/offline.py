"""What the offline algorithms share: groups of equal queries poured into workers with room.

The paper assigns "as many queries of a type as fit". Queries of one type need not weigh the same,
so the unit here is a group: same sources and same load. With unit loads groups are query types.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model import Verdict
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.queries.problem import (
    NOWHERE,
    ROUNDING,
    Placement,
    PlacementProblem,
    offline_bounds,
)
from evenflow.planning.queries.query_types import QueryGroups, group_queries
from evenflow.planning.queries.source_hosts import (
    SourceHosts,
    add_host,
    empty_hosts,
    is_hosted,
    remove_host,
)


class OfflineFill(NamedTuple):
    """Groups still to be placed, and the workers as filled so far.

    unplaced  queries of each group that are not placed yet
    free_capacity  load that each worker can still take
    hosts   the workers with room that each source flows to; full ones no longer matter
    min_query_load  the lightest query's load: a worker with less room is full
    """

    groups: QueryGroups
    rates: Floats
    group_traffic: Floats
    unplaced: Indices
    free_capacity: Floats
    traffic: Floats
    hosts: SourceHosts
    worker_of_query: Workers
    min_query_load: float


def start_fill(problem: PlacementProblem) -> OfflineFill:
    """Start with only the pinned queries in place."""
    subscriptions, pinned = problem.subscriptions, problem.pinned
    groups = _rarest_first(
        group_queries(subscriptions, np.flatnonzero(pinned == NOWHERE)),
        subscriptions.reader_counts(),
    )
    fixed = group_queries(subscriptions, np.flatnonzero(pinned != NOWHERE), label=pinned)
    workers, sizes = len(problem.fleet), np.diff(groups.source_starts)
    held = np.bincount(
        pinned[fixed.members], weights=subscriptions.loads[fixed.members], minlength=workers
    )
    cost = np.bincount(
        np.repeat(np.arange(len(sizes)), sizes),
        weights=subscriptions.rates[groups.sources],
        minlength=len(sizes),
    )
    poured = OfflineFill(
        groups,
        subscriptions.rates,
        cost.astype(np.float64),
        groups.size.copy(),
        np.maximum(worker_capacities(problem) - held, 0.0),
        np.zeros(workers),
        empty_hosts(subscriptions.reader_counts(), workers),
        np.where(pinned != NOWHERE, pinned, NOWHERE).astype(np.int32),
        float(groups.load.min()) if len(groups.load) else 0.0,
    )
    _add_pinned_hosts(poured, fixed)
    return poured


def _rarest_first(groups: QueryGroups, degrees: Indices) -> QueryGroups:
    """Order the sources of each group by popularity: the rarest decide most questions."""
    owner = np.repeat(np.arange(len(groups.size)), np.diff(groups.source_starts))
    order = np.lexsort((degrees[groups.sources], owner))
    return groups._replace(sources=groups.sources[order])


def worker_capacities(problem: PlacementProblem) -> Floats:
    """Return the load that each worker may take: floor((1 + nu) n / k) queries of equal load.

    Where even that many do not add up to all queries, ceil(n / k): no placement does better.
    """
    loads, shares = problem.subscriptions.loads, problem.fleet.shares
    room = offline_bounds(float(loads.sum()), problem.fleet) * (1 + ROUNDING)
    if len(loads) and loads.min() == loads.max():
        slots = np.floor(room / loads[0])
        if slots.sum() < len(loads):
            slots = np.ceil(shares * len(loads) * (1 - ROUNDING))
        room = slots * loads[0] * (1 + ROUNDING)
    return np.asarray(room, dtype=np.float64)


@kernel
def _add_pinned_hosts(poured: OfflineFill, fixed: QueryGroups) -> None:
    for item in range(len(fixed.size)):
        for at in range(fixed.source_starts[item], fixed.source_starts[item + 1]):
            source = fixed.sources[at]
            if add_host(poured.hosts, source, fixed.label[item], 1):
                poured.traffic[fixed.label[item]] += poured.rates[source]


@kernel
def fitting_count(poured: OfflineFill, item: int, worker: int) -> int:
    """Return how many of the group's unplaced queries the worker can take."""
    load = poured.groups.load[item]
    if poured.free_capacity[worker] < load:
        return 0
    return int(min(poured.free_capacity[worker] // load, poured.unplaced[item]))


@kernel
def assign_queries(poured: OfflineFill, item: int, worker: int, count: int) -> None:
    """Place that many queries of the group on the worker, first come first."""
    groups = poured.groups
    for at in range(groups.source_starts[item], groups.source_starts[item + 1]):
        source = groups.sources[at]
        if not is_hosted(poured.hosts, source, worker):
            add_host(poured.hosts, source, worker, 1)
            poured.traffic[worker] += poured.rates[source]
    done = groups.member_starts[item] + groups.size[item] - poured.unplaced[item]
    for at in range(done, done + count):
        poured.worker_of_query[groups.members[at]] = worker
    poured.unplaced[item] -= count
    poured.free_capacity[worker] -= count * groups.load[item]
    if poured.free_capacity[worker] < poured.min_query_load:
        for source in range(len(poured.rates)):
            if is_hosted(poured.hosts, source, worker):
                remove_host(poured.hosts, source, worker, 1)


def finish_placement(poured: OfflineFill, problem: PlacementProblem) -> Placement:
    """Return the placement; what fitted nowhere goes to the least loaded workers."""
    workers = poured.worker_of_query.copy()
    homeless = np.flatnonzero(workers == NOWHERE)
    shares = problem.fleet.shares
    level = np.full(len(shares), np.inf)
    placed = workers != NOWHERE
    loads = problem.subscriptions.loads
    held = np.bincount(workers[placed], weights=loads[placed], minlength=len(shares))
    level[shares > 0] = held[shares > 0] / shares[shares > 0]
    for query in homeless[np.argsort(-loads[homeless], kind="stable")]:
        worker = int(np.argmin(level))
        workers[query] = worker
        level[worker] += loads[query] / shares[worker]
    verdicts = () if not len(homeless) else (_no_room_verdict(homeless, loads),)
    return Placement(workers, count_moved_queries(problem, workers), verdicts)


def count_moved_queries(problem: PlacementProblem, workers: Workers) -> int:
    """Return how many running queries would change their worker."""
    return int(((problem.current != NOWHERE) & (problem.current != workers)).sum())


def _no_room_verdict(homeless: Indices, loads: Floats) -> Verdict:
    heaviest = int(homeless[np.argmax(loads[homeless])])
    return Verdict(
        "no_room",
        str(heaviest),
        f"{len(homeless)} queries fitted on no worker within the slack and went to the least "
        f"loaded; the heaviest has a load of {loads[heaviest]:.6g}: raise the slack, or split it",
    )
