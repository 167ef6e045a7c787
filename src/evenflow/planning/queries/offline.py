"""What the offline algorithms share: groups of equal queries fill into workers with room.

The paper assigns "as many queries of a type as fit". Queries of one type need not weigh the same,
so the unit here is a group: same sources and same load. With unit loads groups are query types.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model import Verdict
from evenflow.model.arrays import NOWHERE, Floats, Indices, Workers
from evenflow.planning.queries.problem import Placement, PlacementProblem, loads_by_worker
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

    group_traffic   rates of the sources of each group
    unplaced        queries of each group that are not placed yet
    free_capacity   load that each worker can still take
    traffic         rate that flows to each worker
    hosts           the workers with room that each source flows to; full ones no longer matter
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
    fill = OfflineFill(
        groups=groups,
        rates=subscriptions.rates,
        group_traffic=cost.astype(np.float64),
        unplaced=groups.size.copy(),
        free_capacity=np.maximum(problem.capacities() - held, 0.0),
        traffic=np.zeros(workers),
        hosts=empty_hosts(subscriptions.reader_counts(), workers),
        worker_of_query=pinned.copy(),
        min_query_load=float(groups.load.min()) if len(groups.load) else 0.0,
    )
    _add_pinned_hosts(fill, fixed)
    return fill


def _rarest_first(groups: QueryGroups, degrees: Indices) -> QueryGroups:
    """Order the sources of each group by popularity: a lookup of the rarest decides most often."""
    owner = np.repeat(np.arange(len(groups.size)), np.diff(groups.source_starts))
    order = np.lexsort((degrees[groups.sources], owner))
    return groups._replace(sources=groups.sources[order])


@kernel
def _add_pinned_hosts(fill: OfflineFill, fixed: QueryGroups) -> None:
    for item in range(len(fixed.size)):
        for at in range(fixed.source_starts[item], fixed.source_starts[item + 1]):
            source = fixed.sources[at]
            if add_host(fill.hosts, source, fixed.label[item], 1):
                fill.traffic[fixed.label[item]] += fill.rates[source]


@kernel
def fitting_count(fill: OfflineFill, item: int, worker: int) -> int:
    """Return how many of the group's unplaced queries the worker can take."""
    load = fill.groups.load[item]
    if fill.free_capacity[worker] < load:
        return 0
    return int(min(fill.free_capacity[worker] // load, fill.unplaced[item]))


@kernel
def assign_queries(fill: OfflineFill, item: int, worker: int, count: int) -> None:
    """Place that many queries of the group on the worker, first come first."""
    groups = fill.groups
    for at in range(groups.source_starts[item], groups.source_starts[item + 1]):
        source = groups.sources[at]
        if not is_hosted(fill.hosts, source, worker):
            add_host(fill.hosts, source, worker, 1)
            fill.traffic[worker] += fill.rates[source]
    done = groups.member_starts[item] + groups.size[item] - fill.unplaced[item]
    for at in range(done, done + count):
        fill.worker_of_query[groups.members[at]] = worker
    fill.unplaced[item] -= count
    fill.free_capacity[worker] -= count * groups.load[item]
    if fill.free_capacity[worker] < fill.min_query_load:
        for source in range(len(fill.rates)):
            if is_hosted(fill.hosts, source, worker):
                remove_host(fill.hosts, source, worker, 1)


def finish_placement(fill: OfflineFill, problem: PlacementProblem) -> Placement:
    """Return the placement; queries that fitted nowhere go to the least loaded workers."""
    workers, loads = fill.worker_of_query.copy(), problem.subscriptions.loads
    unplaced, shares = np.flatnonzero(workers == NOWHERE), problem.fleet.shares
    held = loads_by_worker(problem.subscriptions, workers, len(shares))
    relative_load = np.full(len(shares), np.inf)
    relative_load[shares > 0] = held[shares > 0] / shares[shares > 0]
    for query in unplaced[np.argsort(-loads[unplaced], kind="stable")]:
        worker = int(np.argmin(relative_load))
        workers[query] = worker
        relative_load[worker] += loads[query] / shares[worker]
    verdicts = () if not len(unplaced) else (_no_room_verdict(unplaced, loads),)
    return Placement(workers, problem.count_moved(workers), verdicts)


def _no_room_verdict(unplaced: Indices, loads: Floats) -> Verdict:
    heaviest = int(unplaced[np.argmax(loads[unplaced])])
    return Verdict(
        "no_room",
        str(heaviest),
        f"{len(unplaced)} queries fitted on no worker within the slack and went to the least "
        f"loaded; the heaviest has a load of {loads[heaviest]:.6g}: raise the slack, or split it",
    )
