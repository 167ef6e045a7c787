"""IC and MMS (herding-small-queries, section 4.1.2).

Rounds: of all pairs of a group of equal queries (with unit loads: a query type) and a worker with
room, IC takes the pair that adds the least traffic, MMS the pair after which the worker's traffic
f(Q_j) is least; as many queries of the group as fit are assigned. Ties: larger group, first
appearance, lowest worker; the paper names none, and they decide much.

The pairs are not all tried: for each worker the cheapest group is one of three: groups with two or
more sources there (a heap, filled when the worker receives a source), groups with one source there
(for each of its sources the first unplaced group in order of cost), and groups with none (the first
unplaced of all). A worker's choice stays valid until the worker receives a source or the group is
used up, and can only get dearer otherwise, so it is recomputed only when the worker would win.
"""

import heapq
from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Rng
from evenflow.planning.queries.offline import (
    OfflineFill,
    assign_queries,
    finish_placement,
    fitting_count,
    start_fill,
)
from evenflow.planning.queries.problem import Placement, PlacementProblem
from evenflow.planning.queries.query_types import readers_by_source
from evenflow.planning.queries.source_hosts import is_hosted


def ic(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place all queries by IC."""
    return _place_by_rounds(problem, whole_traffic=False)


def mms(problem: PlacementProblem, rng: Rng) -> Placement:
    """Place all queries by MMS."""
    return _place_by_rounds(problem, whole_traffic=True)


def _place_by_rounds(problem: PlacementProblem, *, whole_traffic: bool) -> Placement:
    fill = start_fill(problem)
    fill_by_rounds(fill, whole_traffic=whole_traffic)
    return finish_placement(fill, problem)


class GroupIndex(NamedTuple):
    """Groups in the orders in which they are searched.

    source_starts, groups_of_source  the groups that read each source, cheapest first
    order         all groups, cheapest first
    head          where the unplaced groups of each source begin; the last entry is for `order`
    position      how far each worker has searched `order`
    """

    source_starts: Indices
    groups_of_source: Indices
    order: Indices
    head: Indices
    position: Indices


def fill_by_rounds(fill: OfflineFill, *, whole_traffic: bool) -> None:
    """Place all groups: by the worker's traffic after the round, or only by what it adds."""
    groups, sources = fill.groups, len(fill.rates)
    start, readers = readers_by_source(groups.source_starts, groups.sources, sources)
    order = np.lexsort((-groups.size, fill.group_traffic))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    source = np.repeat(np.arange(sources), np.diff(start))
    index = GroupIndex(
        source_starts=start,
        groups_of_source=readers[np.lexsort((rank[readers], source))],
        order=order,
        head=np.append(start[:-1], 0),
        position=np.zeros(len(fill.free_capacity), dtype=np.int64),
    )
    _fill_by_rounds(fill, index, whole_traffic)


def fill_by_rounds_plain(fill: OfflineFill, *, whole_traffic: bool) -> None:
    """Place all groups by trying every pair in every round: the kernel's oracle."""
    while True:
        pairs = [
            (
                added_traffic(fill, group, worker) + whole_traffic * float(fill.traffic[worker]),
                -int(fill.groups.size[group]),
                group,
                worker,
            )
            for group in range(len(fill.unplaced))
            for worker in range(len(fill.free_capacity))
            if fitting_count(fill, group, worker)
        ]
        if not pairs:
            return
        _, _, group, worker = min(pairs)
        assign_queries(fill, group, worker, fitting_count(fill, group, worker))


@kernel
def added_traffic(fill: OfflineFill, group: int, worker: int) -> float:
    """Return the traffic that a group would add to a worker."""
    groups = fill.groups
    cost = 0.0
    for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
        if not is_hosted(fill.hosts, groups.sources[at], worker):
            cost += fill.rates[groups.sources[at]]
    return cost


@kernel
def _fill_by_rounds(fill: OfflineFill, index: GroupIndex, whole_traffic: bool) -> None:
    groups, workers = fill.groups, len(fill.free_capacity)
    if len(groups.size) == 0:
        return
    shared = [[(0.0, 0, 0) for _ in range(0)] for _ in range(workers)]
    single = [[(0.0, 0, 0, 0, 0) for _ in range(0)] for _ in range(workers)]
    value = np.full(workers, -np.inf)
    choice = np.zeros(workers, dtype=np.int64)
    stale = np.ones(workers, dtype=np.bool_)
    for source in range(len(fill.rates)):
        begin = fill.hosts.first_entry[source]
        for entry in range(begin, begin + fill.hosts.entry_count[source]):
            worker = int(fill.hosts.worker[entry])
            _add_received_source(fill, index, shared[worker], single[worker], source, worker)
    while True:
        best = _cheapest_worker(groups.size, value, choice, stale)
        if best < 0:
            return
        group = int(choice[best])
        if stale[best] or fitting_count(fill, group, best) == 0:
            cost, group = _cheapest_group(fill, index, shared[best], single[best], best)
            value[best] = cost + fill.traffic[best] if whole_traffic else cost
            choice[best] = group
            stale[best] = False
            continue
        new = [
            int(groups.sources[at])
            for at in range(groups.source_starts[group], groups.source_starts[group + 1])
            if not is_hosted(fill.hosts, groups.sources[at], best)
        ]
        assign_queries(fill, group, best, fitting_count(fill, group, best))
        for received in new:
            _add_received_source(fill, index, shared[best], single[best], received, best)
        if len(new) > 0:
            # Whatever the worker shares sources with now may be cheaper than anything known.
            stale[best] = True


@kernel
def _cheapest_worker(size: Indices, value: Floats, choice: Indices, stale: Bools) -> int:
    """Return the worker whose choice comes first: value, larger group, appearance, index."""
    best = -1
    for worker in range(len(value)):
        if stale[worker]:
            return worker
        if choice[worker] < 0:
            continue
        if best < 0 or value[worker] < value[best]:
            best = worker
        elif value[worker] == value[best]:
            mine, other = choice[worker], choice[best]
            if size[mine] > size[other] or (size[mine] == size[other] and mine < other):
                best = worker
    return best


@kernel
def _first_fitting(fill: OfflineFill, index: GroupIndex, source: int, at: int, worker: int) -> int:
    """Return the position of the source's first group from `at` on that the worker can take."""
    head, end = index.head, index.source_starts[source + 1]
    while head[source] < end and fill.unplaced[index.groups_of_source[head[source]]] == 0:
        head[source] += 1
    at = max(at, head[source])
    while at < end and fitting_count(fill, index.groups_of_source[at], worker) == 0:
        at += 1
    return at


@kernel
def _first_fitting_overall(fill: OfflineFill, index: GroupIndex, worker: int) -> int:
    """Return the position in `order` of the first group that the worker can take, or the end."""
    head, end = index.head, len(index.order)
    while head[-1] < end and fill.unplaced[index.order[head[-1]]] == 0:
        head[-1] += 1
    at = max(index.position[worker], head[-1])
    while at < end and fitting_count(fill, index.order[at], worker) == 0:
        at += 1
    index.position[worker] = at
    return int(at)


@kernel
def _add_received_source(
    fill: OfflineFill,
    index: GroupIndex,
    shared: list[tuple[float, int, int]],
    single: list[tuple[float, int, int, int, int]],
    source: int,
    worker: int,
) -> None:
    """Push the groups that became cheaper for a worker that has just received a source."""
    groups, end = fill.groups, index.source_starts[source + 1]
    if fill.free_capacity[worker] < fill.min_query_load:
        return
    at = _first_fitting(fill, index, source, 0, worker)
    if at < end:
        group = index.groups_of_source[at]
        cost = fill.group_traffic[group] - fill.rates[source]
        heapq.heappush(single, (cost, -groups.size[group], group, at, source))
    for other in range(index.head[source], end):
        group = index.groups_of_source[other]
        begin, stop = groups.source_starts[group], groups.source_starts[group + 1]
        if fill.unplaced[group] == 0 or stop - begin < 2:
            continue
        hosted = 0
        for at in range(begin, stop):
            hosted += is_hosted(fill.hosts, groups.sources[at], worker)
        if hosted > 1:
            heapq.heappush(shared, (added_traffic(fill, group, worker), -groups.size[group], group))


@kernel
def _cheapest_group(
    fill: OfflineFill,
    index: GroupIndex,
    shared: list[tuple[float, int, int]],
    single: list[tuple[float, int, int, int, int]],
    worker: int,
) -> tuple[float, int]:
    """Return what the worker's cheapest group adds, and that group, or -1."""
    groups = fill.groups
    best = (np.inf, 0, -1)
    while len(shared) > 0 and fitting_count(fill, shared[0][2], worker) == 0:
        heapq.heappop(shared)
    if len(shared) > 0:
        best = shared[0]
    while len(single) > 0 and fitting_count(fill, single[0][2], worker) == 0:
        _, _, _, at, source = heapq.heappop(single)
        at = _first_fitting(fill, index, source, at, worker)
        if at < index.source_starts[source + 1]:
            group = index.groups_of_source[at]
            cost = fill.group_traffic[group] - fill.rates[source]
            heapq.heappush(single, (cost, -groups.size[group], group, at, source))
    if len(single) > 0:
        entry = (single[0][0], single[0][1], single[0][2])
        best = entry if entry < best else best
    at = _first_fitting_overall(fill, index, worker)
    if at < len(index.order):
        group = index.order[at]
        entry = (fill.group_traffic[group], -groups.size[group], group)
        best = entry if entry < best else best
    return best[0], best[2]
