"""Offline placement by groups of equal queries, with MQP and the single-source algorithm.

The paper (herding-small-queries, section 4) assigns "as many queries of a type as fit". Queries of
one type need not weigh the same, so the unit here is a group: same sources and same load. With unit
loads groups are query types.

MQP, minimum query type packing (4.1.1): workers are filled one after another. Each takes the
largest remaining groups of equal queries until it has theta load; what exceeds its capacity goes
back to the pool. Ties: of groups of equal remaining load the one that appeared first; workers are
filled by their number, a group's queries by arrival.

Single-source (4.2, figure 2): the source of the largest rate that still has unplaced queries goes
to the worker with the most free capacity, as many queries as fit, and so on. Theorem 3: at most
1 + k/m times the optimum for equal rates of m sources on k workers, at most twice for any rates.

Departures
    Equation 3's theta is negative for nu > 1/(k-1). Appendix B's proof uses what must be taken now
    because the later workers cannot hold it, theta_j = remaining - capacity of the workers after j,
    and so does this. Early workers may stay empty, the others are filled to capacity.
    Lemma 3 does not hold when types overlap, so theorem 2's ratio is not claimed.
    Theorem 3's proof first gives full workers to sources that can fill one, "which is optimal";
    figure 2 leaves that out. It is done here, roomiest workers first: the ratio rests on it.
"""

import heapq
from typing import NamedTuple

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model import Verdict, VerdictCode
from evenflow.model.arrays import NOWHERE, Floats, Indices, Rng, Workers
from evenflow.planning.queries.problem import ROUNDING, Placement, PlacementProblem, loads_by_worker
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
    for group in range(len(fixed.size)):
        for at in range(fixed.source_starts[group], fixed.source_starts[group + 1]):
            source = fixed.sources[at]
            if add_host(fill.hosts, source, fixed.label[group], 1):
                fill.traffic[fixed.label[group]] += fill.rates[source]


@kernel
def fitting_count(fill: OfflineFill, group: int, worker: int) -> int:
    """Return how many of the group's unplaced queries the worker can take."""
    load = fill.groups.load[group]
    if fill.free_capacity[worker] < load:
        return 0
    return int(min(fill.free_capacity[worker] // load, fill.unplaced[group]))


@kernel
def assign_queries(fill: OfflineFill, group: int, worker: int, count: int) -> None:
    """Place that many queries of the group on the worker, first come first."""
    groups = fill.groups
    for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
        source = groups.sources[at]
        if not is_hosted(fill.hosts, source, worker):
            add_host(fill.hosts, source, worker, 1)
            fill.traffic[worker] += fill.rates[source]
    done = groups.member_starts[group] + groups.size[group] - fill.unplaced[group]
    for at in range(done, done + count):
        fill.worker_of_query[groups.members[at]] = worker
    fill.unplaced[group] -= count
    fill.free_capacity[worker] -= count * groups.load[group]
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
        VerdictCode.NO_ROOM,
        str(heaviest),
        f"{len(unplaced)} queries fitted on no worker within the slack and went to the least "
        f"loaded; the heaviest has a load of {loads[heaviest]:.6g}: raise the slack, or split it",
    )


def mqp(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place all queries by MQP."""
    fill = start_fill(problem)
    _fill_mqp(fill)
    return finish_placement(fill, problem)


@kernel
def _fill_mqp(fill: OfflineFill) -> None:
    groups, workers = fill.groups, len(fill.free_capacity)
    heap = [(-groups.load[group] * groups.size[group], group) for group in range(len(groups.size))]
    heapq.heapify(heap)
    remaining = (groups.load * groups.size).sum()
    later_capacity = fill.free_capacity.sum()
    for worker in range(workers):
        later_capacity -= fill.free_capacity[worker]
        theta = remaining - later_capacity
        passed = [(0.0, 0) for _ in range(0)]  # empty, of a type that Numba can infer
        while theta > ROUNDING * remaining and len(heap) > 0:
            mass, group = heapq.heappop(heap)
            count = fitting_count(fill, group, worker)
            if count > 0:
                assign_queries(fill, group, worker, count)
                theta -= count * groups.load[group]
                remaining -= count * groups.load[group]
                mass = -groups.load[group] * fill.unplaced[group]
            if fill.unplaced[group] > 0:
                passed.append((mass, group))
        for entry in passed:
            heapq.heappush(heap, entry)


def single_source(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place queries of one source each."""
    sizes = np.diff(problem.subscriptions.starts)
    if len(sizes) and sizes.max() > 1:
        raise InputError(
            f"single-source places queries of one source each, query {int(sizes.argmax())} has "
            f"{int(sizes.max())}; use another algorithm"
        )
    fill = start_fill(problem)
    order = np.lexsort((-fill.groups.load, -fill.group_traffic))
    _fill_single_source(fill, order)
    return finish_placement(fill, problem)


@kernel
def _fill_single_source(fill: OfflineFill, order: Indices) -> None:
    groups = fill.groups
    free = [(-fill.free_capacity[worker], worker) for worker in range(len(fill.free_capacity))]
    heapq.heapify(free)
    for group in order:
        while len(free) > 0 and fill.unplaced[group] > fitting_count(fill, group, free[0][1]) > 0:
            _, worker = heapq.heappop(free)
            assign_queries(fill, group, worker, fitting_count(fill, group, worker))
            heapq.heappush(free, (-fill.free_capacity[worker], worker))
            if fill.free_capacity[worker] >= groups.load[group]:
                break
    for group in order:
        while fill.unplaced[group] > 0 and len(free) > 0:
            worker = free[0][1]
            count = fitting_count(fill, group, worker)
            if count == 0:
                break
            heapq.heappop(free)
            assign_queries(fill, group, worker, count)
            heapq.heappush(free, (-fill.free_capacity[worker], worker))
